// SPDX-License-Identifier: BSD-3-Clause
// FusionExecutorCache, KernelExecutor and LRUCache.
#include <bindings/bindings.h>
#include <bindings/call.h>
#include <bindings/torch_rng.h>

#include <base/options.h>
#include <cuda/device_info.h>
#include <executor/fusion_executor_cache.h>
#include <executor/launch_plan.h>
#include <executor/lru_cache.h>
#include <host/thread_pool.h>
#include <runtime/kernel_executor.h>

#include <array>

namespace nvfuser::python {

namespace {

using Fec = FusionExecutorCache;

TorchTensors execute(Fec& fec, const InputsArg& inputs, const TorchDevice& device,
                     const std::vector<std::string>& enable_options,
                     const std::vector<std::string>& disable_options) {
  const CallArguments args(inputs);
  const std::optional<Device> on = toDevice(device);
  std::optional<OptionsGuard> options;
  if (!enable_options.empty() || !disable_options.empty()) {
    options.emplace(enable_options, disable_options);
  }
  return py::reinterpret_steal<py::object>(runFusion(fec, args, on).release());
}

// Outputs and intermediate tensors come from a Python function (sizes, strides, dtype, device); the
// dtype is None for bytes.
class CustomAllocator : public PyOutputAllocator {
 public:
  CustomAllocator(std::span<PyObject* const> arguments, py::function make)
      : PyOutputAllocator(arguments), make_(std::move(make)) {}

  void* allocate(size_t position, const TensorDesc& desc) override {
    py::object tensor = make(desc.sizes, desc.strides, py::cast(desc.dtype), desc.device);
    put(position, PyRef::share(tensor.ptr()));
    return address(tensor);
  }
  void* allocateWorkspace(size_t bytes, Device device) override {
    const std::array<int64_t, 1> sizes = {static_cast<int64_t>(bytes)};
    const std::array<int64_t, 1> strides = {1};
    workspaces_.push_back(make(sizes, strides, py::none(), device));
    return address(workspaces_.back());
  }
  void releaseWorkspace(void* memory, Device) override {
    std::erase_if(workspaces_, [&](const py::object& each) { return address(each) == memory; });
  }

 private:
  py::object make(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                  const py::object& dtype, Device device) {
    return make_(std::vector<int64_t>(sizes.begin(), sizes.end()),
                 std::vector<int64_t>(strides.begin(), strides.end()), dtype, device.toString());
  }
  static void* address(const py::object& tensor) {
    return reinterpret_cast<void*>(tensor.attr("data_ptr")().cast<uintptr_t>());
  }

  py::function make_;
  std::vector<py::object> workspaces_;
};

// Holds the interpreter while it runs: `make` may be called at any time.
py::object executeWith(Fec& fec, py::handle inputs, py::function make) {
  CallArguments args(inputs);
  CustomAllocator allocator(args.objects(), std::move(make));
  void* stream = currentStream(fec.deviceFor(args.views(), std::nullopt));
  std::shared_ptr<const LaunchPlan> plan;
  {
    const py::gil_scoped_release release;
    plan = fec.planFor(args.views());
  }
  const SharedThreads threads(torchThreadCount());
  plan->run(args.views(), allocator, stream, &TorchRngState::instance());
  return py::reinterpret_steal<py::object>(allocator.takeList().release());
}

std::optional<Device> deviceFor(const CallArguments& args, int index) {
  if (std::optional<Device> d = args.cudaDevice()) {
    return d;
  }
  for (const ArgView& v : args.views()) {
    if (v.is_tensor) {
      return std::nullopt;
    }
  }
  return cudaAvailable() ? std::optional<Device>(Device{DeviceType::Cuda, index}) : std::nullopt;
}

py::dict reportDict(const SegmentReport& r) {
  py::dict d;
  d["segment_id"] = r.segment_id;
  d["scheduler"] = std::string(schedulerName(r.scheduler));
  d["scheduler_params"] = r.scheduler_params;
  d["math"] = r.math;
  d["scheduled_ir"] = r.scheduled_ir;
  d["kernel_name"] = r.kernel_name;
  d["kernel_text"] = r.kernel_text;
  d["full_text"] = r.full_text;
  d["launch"] = r.launch;
  d["note"] = r.note;
  py::dict rejections;
  for (const auto& [scheduler, why] : r.rejections) {
    rejections[py::str(std::string(schedulerName(scheduler)))] = why;
  }
  d["rejections"] = std::move(rejections);
  py::list operations;
  for (const OperationReport& op : r.operations) {
    operations.append(py::make_tuple(op.kind, op.text, op.source, op.results));
  }
  d["operations"] = std::move(operations);
  d["inputs"] = r.inputs;
  d["outputs"] = r.outputs;
  d["input_bytes"] = r.input_bytes;
  d["output_bytes"] = r.output_bytes;
  d["registers"] = r.registers;
  d["spill_bytes"] = r.spill_bytes;
  d["compile_ms"] = r.compile_ms;
  d["params"] = r.params;
  d["chosen"] = r.chosen;
  d["tuning_key"] = r.tuning_key;
  return d;
}

py::list reportList(const std::vector<SegmentReport>& reports) {
  py::list out;
  for (const SegmentReport& r : reports) {
    out.append(reportDict(r));
  }
  return out;
}

void bindFec(py::module_& m) {
  py::class_<Fec, std::shared_ptr<Fec>>(
      m, "FusionExecutorCache",
      "A fusion and everything compiled for the shapes it was called with.")
      .def(py::init<std::shared_ptr<Fusion>, int64_t, bool>(), py::arg("fusion"),
           py::arg("fusion_id") = 0, py::arg("auto_schedule") = true)
      .def("execute", &execute, py::arg("inputs"), py::kw_only(), py::arg("device") = py::none(),
           py::arg("_enable_options") = std::vector<std::string>(),
           py::arg("_disable_options") = std::vector<std::string>(),
           "Runs the fusion; returns the list of outputs.")
      .def(
          "is_compiled",
          [](Fec& fec, const InputsArg& inputs, int device) {
            CallArguments args(inputs);
            return fec.isCompiled(args.views(), deviceFor(args, device));
          },
          py::arg("inputs"), py::arg("device") = 0)
      .def("fusion", [](Fec& fec) { return fec.sharedFusion(); })
      .def(
          "get_cuda_kernel",
          [](Fec& fec, const InputsArg& inputs, bool intrinsic_code, int device) {
            CallArguments args(inputs);
            return fec.getCode(args.toKernelArgs(), intrinsic_code, deviceFor(args, device));
          },
          py::arg("inputs"), py::arg("intrinsic_code") = false, py::arg("device") = 0,
          "Kernel text of all segments for these inputs; with the device library if "
          "intrinsic_code.")
      .def(
          "get_scheduled_ir",
          [](Fec& fec, const InputsArg& inputs, bool transforms, int device) {
            CallArguments args(inputs);
            return fec.getScheduledIr(args.toKernelArgs(), transforms, deviceFor(args, device));
          },
          py::arg("inputs"), py::arg("tensor_transforms") = false, py::arg("device") = 0)
      .def("get_most_recent_scheduled_ir", &Fec::getMostRecentScheduledIr,
           py::arg("tensor_transforms") = false)
      .def("_execute_with", &executeWith, py::arg("inputs"), py::arg("make"),
           "Runs with outputs and intermediate tensors that make(sizes, strides, dtype, device) "
           "returns.")
      .def(
          "_set_params",
          [](Fec& fec, const std::map<size_t, std::shared_ptr<HeuristicParams>>& params) {
            fec.setParams({params.begin(), params.end()});
          },
          py::arg("params"),
          "Parameters of segments in place of the heuristics' choice; {} takes them back.")
      .def(
          "get_output_shardings", [](Fec& fec) { return outputShardings(*fec.sharedFusion()); },
          "One for each visible output; empty if no tensor has a device mesh.")
      .def(
          "_segment_reports",
          [](Fec& fec, const InputsArg& inputs) {
            CallArguments args(inputs);
            return reportList(fec.segmentReports(args.toKernelArgs(), deviceFor(args, 0)));
          },
          py::arg("inputs"))
      .def(
          "_peak_bytes",
          [](Fec& fec, const InputsArg& inputs) {
            CallArguments args(inputs);
            return fec.peakBytes(args.views(), deviceFor(args, 0));
          },
          py::arg("inputs"), "Bytes that a call allocates at its peak, results included.")
      .def("_most_recent_segment_reports",
           [](Fec& f) { return reportList(f.mostRecentSegmentReports()); })
      .def_property_readonly("_num_kernels", &Fec::numKernels)
      .def_property_readonly("_num_plans", &Fec::numPlans)
      .def_property_readonly("_num_planned", &Fec::numPlanned)
      .def_property_readonly("_num_fallbacks", &Fec::numFallbacks);
}

void bindKernelExecutor(py::module_& m) {
  py::class_<KernelExecutor>(m, "KernelExecutor", "One kernel, scheduled by hand.")
      .def(py::init<int64_t, int64_t, int64_t, int64_t>(), py::arg("fusion_id") = 0,
           py::arg("concrete_id") = 0, py::arg("runtime_id") = 0, py::arg("group_id") = 0)
      .def(
          "compile",
          [](KernelExecutor& ke, Fusion& fusion, const InputsArg& args,
             std::optional<LaunchParams> launch, const CompileParams& params, SchedulerType type) {
            CallArguments call(args);
            ke.compile(&fusion, call.toKernelArgs(), launch.value_or(LaunchParams()), params, type);
          },
          py::arg("fusion"), py::arg("args") = py::list(),
          py::arg("launch_constraints") = py::none(),
          py::arg_v("compile_params", CompileParams(), "CompileParams()"),
          py::arg("scheduler_type") = SchedulerType::None)
      .def(
          "run",
          [](KernelExecutor& ke, const InputsArg& inputs, std::optional<LaunchParams> launch,
             const CompileParams& params) -> TorchTensors {
            if (params != CompileParams() && params != ke.compileParams()) {
              warnIgnored("KernelExecutor.run(compile_params=)",
                          "the kernel was compiled with those of compile()");
            }
            CallArguments args(inputs);
            PyOutputAllocator allocator(args.objects());
            RunContext context;
            context.device = ke.device();
            context.rng = &TorchRngState::instance();
            if (context.device.type == DeviceType::Cuda) {
              context.stream = currentStream(context.device);
            }
            const SharedThreads threads(torchThreadCount());
            ke.run(args.views(), allocator, context, launch.value_or(LaunchParams()));
            return py::reinterpret_steal<py::object>(allocator.takeList().release());
          },
          py::arg("args"), py::arg("launch_constraints") = py::none(),
          py::arg_v("compile_params", CompileParams(), "CompileParams()"))
      .def("is_compiled", &KernelExecutor::isCompiled)
      .def("is_programmatic_dependent_launch_enabled",
           &KernelExecutor::isProgrammaticDependentLaunchEnabled)
      .def_property_readonly("_kernel_text", &KernelExecutor::kernelText)
      .def_property_readonly("_full_text", &KernelExecutor::fullText);
}

} // namespace

void bindExecutors(py::module_& m) {
  bindFec(m);
  bindKernelExecutor(m);
  py::class_<LRUCache, std::shared_ptr<LRUCache>>(
      m, "LRUCache", "Executor caches by fusion definition, the most recently used ones.")
      .def(py::init<int64_t>(), py::arg("max_fusions"))
      .def("cache_compile", &LRUCache::cacheCompile, py::arg("fusion"))
      .def("num_fusions", &LRUCache::numFusions)
      .def("stats", &LRUCache::stats);
}

} // namespace nvfuser::python
