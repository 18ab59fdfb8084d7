// SPDX-License-Identifier: BSD-3-Clause
// The extension module nvfuse_direct._C_DIRECT.
#include <bindings/bindings.h>
#include <bindings/py_ref.h>
#include <bindings/testing_module.h>
#include <bindings/torch_exchange.h>

#include <base/warning.h>
#include <cuda/driver.h>

#include <exception>
#include <string_view>

namespace {

PyObject* refuseNew(PyTypeObject* type, PyObject*, PyObject*) {
  PyErr_Format(PyExc_TypeError, "%s: No constructor defined!", type->tp_name);
  return nullptr;
}

void* refuseUninitialized(size_t) {
  throw pybind11::type_error("the object was not initialized: its __init__ was not called");
}

// The library's own, of its common base class, aborts if that class itself is asked for (which
// copyreg does when an object is pickled by an old protocol).
PyObject* newOfBoundClass(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  if (reinterpret_cast<PyObject*>(type) == pybind11::detail::get_internals().instance_base) {
    return refuseNew(type, args, kwargs);
  }
  return pybind11::detail::make_new_instance(type);
}

// Every class that shares the base has to share its tp_new: Python compares the two.
void replaceNew(PyTypeObject* type, newfunc from, newfunc to) {
  if (type->tp_new == from) {
    type->tp_new = to;
  }
  const pybind11::handle object(reinterpret_cast<PyObject*>(type));
  for (const pybind11::handle derived : object.attr("__subclasses__")()) {
    replaceNew(reinterpret_cast<PyTypeObject*>(derived.ptr()), from, to);
  }
}

// Kind.__new__(Kind) would give a handle of nothing; the library makes these objects without
// tp_new.
void forbidEmptyInstances(const pybind11::module_& m) {
  for (const auto& [name, value] : m.attr("__dict__").cast<pybind11::dict>()) {
    if (PyType_Check(value.ptr()) == 0 ||
        !std::string_view(Py_TYPE(value.ptr())->tp_name).ends_with("pybind11_type")) {
      continue;
    }
    auto* type = reinterpret_cast<PyTypeObject*>(value.ptr());
    // Of an object without a value the library would make one of uninitialized memory at first use.
    if (pybind11::detail::type_info* info = pybind11::detail::get_type_info(type)) {
      info->operator_new = &refuseUninitialized;
    }
    // A constructor is a function; without one the slot of the base class is wrapped.
    const pybind11::object init = value.attr("__dict__").attr("get")("__init__");
    if (init.is_none() || Py_TYPE(init.ptr()) == &PyWrapperDescr_Type) {
      type->tp_new = &refuseNew;
    }
  }
}

// Warnings of the core are UserWarnings; any thread may have one.
void warnInPython(const std::string& message) {
  if (Py_IsInitialized() == 0) {
    return;
  }
  const pybind11::gil_scoped_acquire gil;
  if (PyErr_WarnEx(PyExc_UserWarning, message.c_str(), 1) != 0) {
    throw pybind11::error_already_set(); // a filter makes errors of warnings
  }
}

} // namespace

PYBIND11_MODULE(_C_DIRECT, m) {
  using namespace nvfuser::python;
  pybind11::register_local_exception_translator([](std::exception_ptr error) {
    try {
      std::rethrow_exception(error);
    } catch (const nvfuser::cuda::OutOfMemory&) {
      setPythonError();
    }
  });
  m.doc() = "Fusion compiler: IR, ops, schedules and executors, one to one with the C++ API.";
  nvfuser::setWarningHandler(&warnInPython);
  bindEnums(m);
  bindIr(m);
  bindParams(m);
  bindListedParams(m);
  bindProfile(m);
  bindFusion(m);
  bindExecutors(m);
  auto ops = m.def_submodule("ops", "Operations; also reachable as fd.ops.");
  bindElementwiseOps(ops);
  bindShapeOps(ops);
  bindReductionOps(ops);
  bindIndexingOps(ops);
  bindLibraryOps(ops);
  auto schedule = m.def_submodule("schedule", "Schedule operators; also reachable as fd.sched.");
  bindSchedule(schedule);
  auto idm = m.def_submodule("idm", "Graphs of iteration domains.");
  bindIdm(idm);
  bindMultidevice(m);
  bindIntrospection(m);
  bindFastExecute(m);
  bindEvaluator(m);
  bindTesting(m);
  for (const char* submodule : {"schedule", "idm", "multidevice"}) {
    forbidEmptyInstances(m.attr(submodule).cast<pybind11::module_>());
  }
  forbidEmptyInstances(m);
  auto* base = reinterpret_cast<PyTypeObject*>(pybind11::detail::get_internals().instance_base);
  replaceNew(base, base->tp_new, &newOfBoundClass);
  if (!addInteropModule(m.ptr())) {
    throw pybind11::error_already_set();
  }
}
