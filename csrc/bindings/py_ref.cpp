// SPDX-License-Identifier: BSD-3-Clause
// Python errors as ours.
#include <bindings/py_ref.h>

#include <base/error.h>
#include <cuda/driver.h>

#include <pybind11/pybind11.h>

#include <new>

namespace nvfuser::python {

namespace {

void throwIfNoException() {
  PyObject* type = PyErr_Occurred();
  if (type != nullptr && PyErr_GivenExceptionMatches(type, PyExc_Exception) == 0) {
    throw pybind11::error_already_set();
  }
}

} // namespace

void clearError() {
  throwIfNoException();
  PyErr_Clear();
}

void throwPythonError(const std::string& what) {
  throwIfNoException();
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  const PyRef type_ref = PyRef::steal(type);
  const PyRef value_ref = PyRef::steal(value);
  const PyRef trace_ref = PyRef::steal(trace);
  std::string message = what;
  if (type != nullptr) {
    message += std::string(": ") + reinterpret_cast<PyTypeObject*>(type)->tp_name;
  }
  if (value != nullptr) {
    const PyRef text = PyRef::steal(PyObject_Str(value));
    const char* characters = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    if (characters != nullptr) {
      const std::string all = characters;
      message += ": " + all.substr(0, all.find('\n'));
    }
  }
  PyErr_Clear();
  throw UserError(message);
}

PyRef checked(PyObject* new_reference, const char* what) {
  if (new_reference == nullptr) {
    throwPythonError(what);
  }
  return PyRef::steal(new_reference);
}

PyRef checkedUnchanged(PyObject* new_reference) {
  if (new_reference == nullptr) {
    throw pybind11::error_already_set();
  }
  return PyRef::steal(new_reference);
}

namespace {

// torch's, or Python's MemoryError without torch.
void setOutOfMemory(const char* message) {
  const PyRef torch = PyRef::steal(PyImport_ImportModule("torch"));
  const PyRef type =
      PyRef::steal(torch ? PyObject_GetAttrString(torch.get(), "OutOfMemoryError") : nullptr);
  PyErr_Clear();
  PyErr_SetString(type ? type.get() : PyExc_MemoryError, message);
}

} // namespace

void setPythonError() {
  try {
    throw;
  } catch (pybind11::error_already_set& error) {
    error.restore();
  } catch (const pybind11::builtin_exception& error) {
    error.set_error();
  } catch (const cuda::OutOfMemory& error) {
    setOutOfMemory(error.what());
  } catch (const std::bad_alloc& error) {
    PyErr_SetString(PyExc_MemoryError, error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

} // namespace nvfuser::python
