// Python errors as ours.
#include <bindings/py_ref.h>

#include <base/error.h>

namespace nvfuser::python {

void throwPythonError(const std::string& what) {
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

} // namespace nvfuser::python
