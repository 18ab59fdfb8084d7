// SPDX-License-Identifier: BSD-3-Clause
// Owning references to Python objects, and Python errors as ours. The GIL must be held throughout.
#pragma once

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include <string>
#include <utility>

namespace nvfuser::python {

class PyRef {
 public:
  PyRef() = default;
  // Takes a new reference over.
  static PyRef steal(PyObject* object) {
    PyRef ref;
    ref.object_ = object;
    return ref;
  }
  // Adds a reference to a borrowed one.
  static PyRef share(PyObject* object) {
    Py_XINCREF(object);
    return steal(object);
  }
  PyRef(const PyRef& other) : object_(other.object_) {
    Py_XINCREF(object_);
  }
  PyRef(PyRef&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  PyRef& operator=(PyRef other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~PyRef() {
    Py_XDECREF(object_);
  }

  PyObject* get() const {
    return object_;
  }
  // Gives the reference away.
  PyObject* release() {
    return std::exchange(object_, nullptr);
  }
  explicit operator bool() const {
    return object_ != nullptr;
  }

 private:
  PyObject* object_ = nullptr;
};

// Forgets the Python error that is set, if any: what failed is tried in another way. One that is no
// Exception (KeyboardInterrupt, SystemExit) is not about what was tried; it is thrown as it is.
void clearError();

// Takes the Python error that is set, and throws its first line as UserError: "what: TypeError:
// ...". What is no Exception is thrown as it is.
[[noreturn]] void throwPythonError(const std::string& what);

// A new reference, or throwPythonError.
PyRef checked(PyObject* new_reference, const char* what);

// A new reference, or the Python error that is set as it is (pybind11::error_already_set): for
// calls whose errors the user knows and catches by their type, as those of torch's allocator.
PyRef checkedUnchanged(PyObject* new_reference);

// Sets the Python error of the C++ exception that is being handled; to be called in a catch block.
// A Python error that was thrown is set as it was; that a device has no memory left is torch's
// OutOfMemoryError.
void setPythonError();

} // namespace nvfuser::python
