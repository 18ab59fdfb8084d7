// The extension module nvfuse_direct._C_DIRECT.
#include <bindings/bindings.h>
#include <bindings/testing_module.h>
#include <bindings/torch_exchange.h>

#include <string_view>

namespace {

PyObject* refuseNew(PyTypeObject* type, PyObject*, PyObject*) {
  PyErr_Format(PyExc_TypeError, "%s: No constructor defined!", type->tp_name);
  return nullptr;
}

// Kind.__new__(Kind) would give a handle of nothing; the library makes these objects without tp_new.
void forbidEmptyInstances(const pybind11::module_& m) {
  for (const auto& [name, value] : m.attr("__dict__").cast<pybind11::dict>()) {
    if (PyType_Check(value.ptr()) == 0 ||
        !std::string_view(Py_TYPE(value.ptr())->tp_name).ends_with("pybind11_type")) {
      continue;
    }
    // A constructor is a function; without one the slot of the base class is wrapped.
    const pybind11::object init = value.attr("__dict__").attr("get")("__init__");
    if (init.is_none() || Py_TYPE(init.ptr()) == &PyWrapperDescr_Type) {
      reinterpret_cast<PyTypeObject*>(value.ptr())->tp_new = &refuseNew;
    }
  }
}

} // namespace

PYBIND11_MODULE(_C_DIRECT, m) {
  using namespace nvfuser::python;
  m.doc() = "Fusion compiler: IR, ops, schedules and executors, one to one with the C++ API.";
  bindEnums(m);
  bindIr(m);
  bindParams(m);
  bindProfile(m);
  bindFusion(m);
  bindExecutors(m);
  auto ops = m.def_submodule("ops", "Operations; also reachable as fd.ops.");
  bindElementwiseOps(ops);
  bindShapeOps(ops);
  bindReductionOps(ops);
  bindIndexingOps(ops);
  auto schedule = m.def_submodule("schedule", "Schedule operators; also reachable as fd.sched.");
  bindSchedule(schedule);
  auto idm = m.def_submodule("idm", "Graphs of iteration domains.");
  bindIdm(idm);
  bindMultidevice(m);
  bindIntrospection(m);
  bindFastExecute(m);
  bindTesting(m);
  forbidEmptyInstances(m);
  if (!addInteropModule(m.ptr())) {
    throw pybind11::error_already_set();
  }
}
