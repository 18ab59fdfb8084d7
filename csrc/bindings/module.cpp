// The extension module nvfuse_direct._C_DIRECT.
#include <bindings/bindings.h>
#include <bindings/testing_module.h>
#include <bindings/torch_exchange.h>

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
  auto schedule = m.def_submodule("schedule", "Schedule operators; also reachable as fd.sched.");
  bindSchedule(schedule);
  auto idm = m.def_submodule("idm", "Graphs of iteration domains.");
  bindIdm(idm);
  bindMultidevice(m);
  bindIntrospection(m);
  bindFastExecute(m);
  bindTesting(m);
  if (!addInteropModule(m.ptr())) {
    throw pybind11::error_already_set();
  }
}
