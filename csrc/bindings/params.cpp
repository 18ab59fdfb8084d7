// SPDX-License-Identifier: BSD-3-Clause
// Launch, compile and heuristic parameters.
#include <bindings/bindings.h>

#include <runtime/executor_params.h>
#include <scheduler/params.h>
#include <scheduler/params_text.h>
#include <scheduler/tuned_params.h>

namespace nvfuser::python {

namespace {

void setMagicZero(CompileParams& params, bool enable) {
  if (!enable) {
    warnIgnored("CompileParams.enable_magic_zero", "kernels have no magic zeros");
  }
  params.enable_magic_zero = enable;
}

void bindTuning(py::module_& m) {
  m.def(
      "_store_tuned_params",
      [](const std::string& key, const HeuristicParams& params) {
        TunedParams::instance().store(key, params);
      },
      py::arg("key"), py::arg("params"));
  m.def(
      "_erase_tuned_params", [](const std::string& key) { TunedParams::instance().erase(key); },
      py::arg("key"));
  m.def("_tuned_params_directory", [] { return TunedParams::instance().directory(); });
}

void bindLaunchParams(py::module_& m) {
  py::class_<LaunchParams> launch(m, "LaunchParams", "Extents of a launch; unset ones read as 1.");
  launch.def(py::init<>())
      .def(py::init<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>(), py::arg("gdimx"),
           py::arg("gdimy"), py::arg("gdimz"), py::arg("bdimx"), py::arg("bdimy"), py::arg("bdimz"))
      .def("__repr__", &LaunchParams::toString);
  auto extent = [&](const char* name, ParallelType p) {
    launch.def_property(
        name, [p](const LaunchParams& l) { return l.getDim(p); },
        [p](LaunchParams& l, int64_t v) { l.bindUnsafe(v, p); });
  };
  extent("gdimx", ParallelType::BIDx);
  extent("gdimy", ParallelType::BIDy);
  extent("gdimz", ParallelType::BIDz);
  extent("bdimx", ParallelType::TIDx);
  extent("bdimy", ParallelType::TIDy);
  extent("bdimz", ParallelType::TIDz);

  py::class_<CompileParams>(m, "CompileParams", "What is asked of the compiler.")
      .def(py::init([](std::optional<DataType> index_type, int64_t maxrregcount,
                       bool enable_magic_zero, bool enable_ptxas_verbose, std::optional<int> device,
                       std::vector<std::string> include_paths) {
             CompileParams p;
             p.index_type = index_type;
             p.maxrregcount = maxrregcount;
             setMagicZero(p, enable_magic_zero);
             p.enable_ptxas_verbose = enable_ptxas_verbose;
             if (device.has_value()) {
               p.device = Device{DeviceType::Cuda, *device};
             }
             p.include_paths = std::move(include_paths);
             return p;
           }),
           py::kw_only(), py::arg("index_type") = py::none(), py::arg("maxrregcount") = 255,
           py::arg("enable_magic_zero") = true, py::arg("enable_ptxas_verbose") = false,
           py::arg("device") = py::none(), py::arg("include_paths") = std::vector<std::string>{})
      .def_readwrite("index_type", &CompileParams::index_type)
      .def_readwrite("maxrregcount", &CompileParams::maxrregcount)
      .def_property(
          "enable_magic_zero", [](const CompileParams& p) { return p.enable_magic_zero; },
          &setMagicZero)
      .def_readwrite("enable_ptxas_verbose", &CompileParams::enable_ptxas_verbose)
      .def_property(
          "device",
          [](const CompileParams& p) {
            return p.device.has_value() ? std::optional<int>(p.device->index) : std::nullopt;
          },
          [](CompileParams& p, std::optional<int> index) {
            p.device = index.has_value() ? std::optional<Device>(Device{DeviceType::Cuda, *index})
                                         : std::nullopt;
          })
      .def_readwrite("include_paths", &CompileParams::include_paths)
      .def("__repr__", &CompileParams::toString);
}

void bindHeuristicParams(py::module_& m) {
  py::class_<HeuristicParams, std::shared_ptr<HeuristicParams>> params(
      m, "HeuristicParams", "What a scheduler decided for given shapes.");
  HeuristicParams::sharedFields(
      [&](const char* name, auto member) { params.def_readwrite(name, member); });
  params.def_readwrite("lparams", &HeuristicParams::lparams)
      .def_readwrite("cparams", &HeuristicParams::cparams)
      .def_readonly("scheduler_type", &HeuristicParams::scheduler_type)
      .def("hash", &HeuristicParams::hash)
      .def(
          "__eq__",
          [](const HeuristicParams& a, const py::object& b) {
            return py::isinstance<HeuristicParams>(b) && a.sameAs(b.cast<HeuristicParams&>());
          },
          py::is_operator())
      .def(
          "_fields",
          [](const HeuristicParams& p) {
            py::dict fields;
            for (const auto& [name, value] : paramFields(p)) {
              fields[name.c_str()] = value;
            }
            return fields;
          },
          "Everything that decides about the kernel, by name; parallel types are numbers.")
      .def(
          "_with",
          [](const HeuristicParams& p, const std::map<std::string, ParamValue>& changes) {
            return std::shared_ptr<HeuristicParams>(
                withFields(p, {changes.begin(), changes.end()}));
          },
          py::arg("changes"),
          "A copy with some fields changed. RuntimeError: an unknown field, or another kind.")
      .def("_clone", [](const HeuristicParams& p) { return std::shared_ptr(p.clone()); })
      .def("__repr__", &HeuristicParams::toString);
  params.attr("__hash__") = py::none();
}

} // namespace

void bindParams(py::module_& m) {
  bindTuning(m);
  bindLaunchParams(m);
  bindHeuristicParams(m);
}

} // namespace nvfuser::python
