// SPDX-License-Identifier: BSD-3-Clause
// What only tests ask of the compiler: kernel text to cubin for an architecture that need not be
// there, what is loaded, smaller limits of it, mistakes.
#include <bindings/testing_module.h>

#include <base/error.h>
#include <base/options.h>
#include <bindings/cut_for_test.h>
#include <cuda/driver.h>
#include <cuda/nvrtc.h>
#include <device/library.h>
#include <executor/kernel_limits.h>
#include <executor/planner.h>

#include <string_view>

namespace nvfuser::python {

namespace {

// NVF_KERNEL(name, ...
std::string kernelSymbol(const std::string& text) {
  static constexpr std::string_view kMacro = "NVF_KERNEL(";
  const size_t begin = text.find(kMacro);
  NVF_CHECK(begin != std::string::npos, "There is no kernel in the text.");
  const size_t name = begin + kMacro.size();
  return text.substr(name, text.find(',', name) - name);
}

pybind11::dict compileCubin(const std::string& text, int arch, bool index_is_64bit,
                            int64_t most_registers, int64_t wanted_registers) {
  const std::string symbol = kernelSymbol(text);
  CompileParams params;
  params.maxrregcount = most_registers;
  params.wanted_registers = wanted_registers;
  params.enable_ptxas_verbose = true;
  CompiledBinary binary;
  {
    const pybind11::gil_scoped_release released;
    const std::string unit = assembleKernel(text, KernelTarget::Cuda, index_is_64bit);
    binary = compileToCubin(unit, symbol, arch, params);
  }
  const KernelResources resources = parsePtxasLog(binary.log, symbol);
  pybind11::dict result;
  result["cubin"] =
      pybind11::bytes(reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size());
  result["cubin_bytes"] = binary.bytes.size();
  result["registers"] = resources.registers;
  result["spill_store_bytes"] = resources.spill_store_bytes;
  result["spill_load_bytes"] = resources.spill_load_bytes;
  result["stack_bytes"] = resources.stack_bytes;
  result["log"] = binary.log;
  return result;
}

std::pair<size_t, size_t> loadedKernels() {
  const LoadedModules loaded = loadedModules();
  return {loaded.count, loaded.binary_bytes};
}

void setKernelLimits(size_t kernels, size_t kernel_bytes, size_t plans) {
  KernelLimits::instance().setLimits({kernels, kernel_bytes, plans});
}

// What NVFUSER_MACHINE says, for the calls of a Python thread between __enter__ and __exit__.
class ScheduledFor {
 public:
  explicit ScheduledFor(const std::string& machine) : schedules_(toHostSchedules(machine)) {}
  void enter() {
    guard_ = std::make_unique<OptionsGuard>();
    guard_->options().host_schedules = schedules_;
  }
  void exit(const pybind11::args&) {
    guard_.reset();
  }

 private:
  HostSchedules schedules_;
  std::unique_ptr<OptionsGuard> guard_;
};

} // namespace

void bindTesting(pybind11::module_& module) {
  bindCutForTest(module);
  module.def("_nvrtc_error", &nvrtcError, "Why there is no NVRTC; empty if there is.");
  module.def(
      "_run_out_of_device_memory",
      [] { throw cuda::OutOfMemory("Cannot allocate 1 byte: CUDA_ERROR_OUT_OF_MEMORY"); },
      "Throws what a failed allocation of the driver does.");
  module.def(
      "_compile_cubin", &compileCubin, pybind11::arg("kernel_text"), pybind11::arg("arch"),
      pybind11::arg("index_is_64bit") = false, pybind11::arg("most_registers") = 255,
      pybind11::arg("wanted_registers") = 0,
      "Compiles a generated kernel for an architecture (90 for sm_90a); what ptxas says of it.");
  pybind11::class_<ScheduledFor>(
      module, "_ScheduledFor",
      "A context in which kernels for CPU tensors are scheduled for a machine (hopper, h200 "
      "or host), as NVFUSER_MACHINE says for a whole process.")
      .def(pybind11::init<const std::string&>(), pybind11::arg("machine"))
      .def("__enter__", &ScheduledFor::enter)
      .def("__exit__", &ScheduledFor::exit);
  module.def("_fail_to_lower", &Planner::failToLower, pybind11::arg("count"),
             "The next kernels of this process cannot be lowered.");
  module.def("_loaded_kernels", &loadedKernels, "How many kernels are loaded, and their bytes.");
  module.def("_set_kernel_limits", &setKernelLimits, pybind11::arg("kernels"),
             pybind11::arg("kernel_bytes"), pybind11::arg("plans"),
             "In place of NVFUSER_MAX_KERNELS, NVFUSER_MAX_KERNEL_MB and NVFUSER_MAX_PLANS.");
}

} // namespace nvfuser::python
