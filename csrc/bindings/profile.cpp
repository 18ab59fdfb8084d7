// SPDX-License-Identifier: BSD-3-Clause
// Profiles.
#include <bindings/bindings.h>

#include <runtime/profiler.h>

namespace nvfuser::python {

void bindProfile(py::module_& m) {
  using K = KernelProfile;
  py::class_<K>(m, "KernelProfile", "Times and launch of one kernel.")
      .def_readonly("name", &K::name)
      .def_readonly("segment_id", &K::segment_id)
      .def_readonly("device", &K::device)
      .def_readonly("stream", &K::stream)
      .def_readonly("correlation_id", &K::correlation_id)
      .def_readonly("compile_time_ms", &K::compile_time_ms)
      .def_readonly("time_ms", &K::time_ms)
      .def_readonly("effective_bandwidth_gbs", &K::effective_bandwidth_gbs)
      .def_readonly("percentage_peak_bandwidth", &K::percentage_peak_bandwidth)
      .def_readonly("grid_str", &K::grid_str)
      .def_readonly("block_str", &K::block_str)
      .def_readonly("cluster_str", &K::cluster_str)
      .def_readonly("shared_mem_str", &K::shared_mem_str)
      .def_readonly("registers", &K::registers)
      .def_readonly("input_bytes", &K::input_bytes)
      .def_readonly("output_bytes", &K::output_bytes)
      .def_readonly("scheduler", &K::scheduler)
      .def("__repr__", &K::toString);
  using F = FusionProfile;
  py::class_<F>(m, "FusionProfile", "Times of one call of a fusion.")
      .def_readonly("verbose", &F::verbose)
      .def_readonly("fusion_id", &F::fusion_id)
      .def_readonly("segments", &F::segments)
      .def_readonly("cuda_evt_time_ms", &F::cuda_evt_time_ms)
      .def_readonly("host_time_ms", &F::host_time_ms)
      .def_readonly("compile_time_ms", &F::compile_time_ms)
      .def_readonly("kernel_time_ms", &F::kernel_time_ms)
      .def_readonly("effective_bandwidth_gbs", &F::effective_bandwidth_gbs)
      .def_readonly("percentage_peak_bandwith", &F::percentage_peak_bandwidth)
      .def_readonly("percentage_peak_bandwidth", &F::percentage_peak_bandwidth)
      .def_readonly("input_bytes", &F::input_bytes)
      .def_readonly("output_bytes", &F::output_bytes)
      .def_readonly("kernel_profiles", &F::kernel_profiles)
      .def("__repr__", &F::toString);
  m.def("get_fusion_profile", &FusionProfiler::profile,
        "The last profile; RuntimeError if there is none.");
  m.def("reset_profiler", &FusionProfiler::reset);
  m.def("_enable_profiler", &FusionProfiler::enable, py::arg("verbose") = false);
  m.def("_disable_profiler", &FusionProfiler::disable);
}

} // namespace nvfuser::python
