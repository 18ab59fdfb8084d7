// SPDX-License-Identifier: BSD-3-Clause
// Running a plan.
#include <executor/launch_plan.h>

#include <base/options.h>
#include <cuda/driver.h>
#include <runtime/profiler.h>

#include <bit>
#include <cstring>
#include <iostream>
#include <sstream>

namespace nvfuser {
namespace {

// The largest vector access is 32 bytes.
uint64_t alignmentClass(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data) | 32;
  return static_cast<uint64_t>(std::countr_zero(address));
}

uint64_t bitsOf(double value) {
  return std::bit_cast<uint64_t>(value);
}

void addScalar(const ScalarValue& scalar, bool matters, PlanKey& key) {
  key.push_back(0x100 | scalar.index());
  if (!matters) {
    return;
  }
  if (const auto* i = std::get_if<int64_t>(&scalar)) {
    key.push_back(static_cast<uint64_t>(*i));
  } else if (const auto* d = std::get_if<double>(&scalar)) {
    key.push_back(bitsOf(*d));
  } else if (const auto* b = std::get_if<bool>(&scalar)) {
    key.push_back(*b ? 1 : 0);
  } else if (const auto* c = std::get_if<std::complex<double>>(&scalar)) {
    key.push_back(bitsOf(c->real()));
    key.push_back(bitsOf(c->imag()));
  }
}

} // namespace

void makePlanKey(std::span<const ArgView> args, const std::vector<bool>& scalar_matters,
                 Device device, uint64_t options, PlanKey& key) {
  key.push_back(options);
  key.push_back((uint64_t(device.type) << 32) | static_cast<uint32_t>(device.index));
  for (size_t i = 0; i < args.size(); ++i) {
    const ArgView& arg = args[i];
    if (!arg.is_tensor) {
      addScalar(arg.scalar, scalar_matters[i], key);
      continue;
    }
    key.push_back(uint64_t(arg.dtype) << 56 | uint64_t(uint8_t(arg.rank)) << 48 |
                  uint64_t(arg.device.type) << 40 | uint64_t(uint16_t(arg.device.index)) << 16 |
                  alignmentClass(arg.data));
    for (int32_t d = 0; d < arg.rank; ++d) {
      key.push_back(static_cast<uint64_t>(arg.sizes[d]));
    }
    for (int32_t d = 0; d < arg.rank; ++d) {
      key.push_back(static_cast<uint64_t>(arg.strides[d]));
    }
  }
}

PlanArguments::PlanArguments(std::span<const ArgView> args) : views_(args.begin(), args.end()) {
  for (ArgView& view : views_) {
    if (view.is_tensor) {
      view.sizes = extents_.emplace_back(view.sizes, view.sizes + view.rank).data();
      view.strides = extents_.emplace_back(view.strides, view.strides + view.rank).data();
    }
  }
}

namespace {

// Memory of a call's intermediate tensors, given back whatever happens.
class WorkspaceGuard {
 public:
  WorkspaceGuard(OutputAllocator& allocator, size_t bytes, Device device)
      : allocator_(allocator), device_(device) {
    memory_ = bytes == 0 ? nullptr : allocator.allocateWorkspace(bytes, device);
  }
  ~WorkspaceGuard() {
    if (memory_ != nullptr) {
      allocator_.releaseWorkspace(memory_, device_);
    }
  }
  WorkspaceGuard(const WorkspaceGuard&) = delete;
  WorkspaceGuard& operator=(const WorkspaceGuard&) = delete;
  std::byte* memory() const {
    return static_cast<std::byte*>(memory_);
  }

 private:
  OutputAllocator& allocator_;
  Device device_;
  void* memory_;
};

} // namespace

void LaunchPlan::run(std::span<const ArgView> args, OutputAllocator& allocator, void* stream,
                     RngState* rng) const {
  static_assert(std::is_trivially_copyable_v<ArgView> && std::is_trivially_destructible_v<ArgView>);
  constexpr size_t kStackValues = 32;
  alignas(ArgView) std::byte stack_values[kStackValues * sizeof(ArgView)];
  const size_t count = num_args + locals.size();
  std::unique_ptr<std::byte[]> heap_values;
  std::byte* raw = stack_values;
  if (count > kStackValues) {
    heap_values = std::make_unique<std::byte[]>(count * sizeof(ArgView));
    raw = heap_values.get();
  }
  std::memcpy(raw, args.data(), num_args * sizeof(ArgView));
  if (!locals.empty()) {
    std::memcpy(raw + num_args * sizeof(ArgView), locals.data(), locals.size() * sizeof(ArgView));
  }
  auto* values = reinterpret_cast<ArgView*>(raw);

  for (const View& view : views) {
    values[view.value].data = static_cast<std::byte*>(values[view.source].data) + view.offset;
  }
  for (const Result& result : results) {
    switch (result.kind) {
      case Result::Kind::New:
        values[result.source].data =
            allocator.allocate(result.position, result.shape->desc(device));
        break;
      case Result::Kind::Input:
        allocator.returnInput(result.position, result.source);
        break;
      case Result::Kind::View:
        allocator.returnView(result.position, result.source, result.offset,
                             result.shape->desc(args[result.source].device));
        break;
      case Result::Kind::Same:
        allocator.returnSame(result.position, result.source);
        break;
    }
  }
  const WorkspaceGuard workspace(allocator, workspace_bytes, device);
  for (const Workspace& w : workspaces) {
    std::byte* const home = w.home == Workspace::kSharedBlock
                                ? workspace.memory()
                                : static_cast<std::byte*>(values[w.home].data);
    values[w.value].data = home + w.offset;
  }
  PhiloxState state;
  if (device.isCuda() && cuda::isCaptured(stream)) [[unlikely]] {
    prepareForCapture();
  }
  if (rng_numbers != 0) {
    state = (rng != nullptr ? *rng : DefaultRngState::instance()).advance(device, rng_numbers);
  }
  if (currentOptions().dump.any()) [[unlikely]] {
    dump(values);
  }
  if (FusionProfiler::isEnabled()) [[unlikely]] {
    launchProfiled(values, count, state, stream);
  } else {
    launchAll(values, count, state, stream);
  }
}

// A graph launches the kernels again with the arguments of this call.
void LaunchPlan::prepareForCapture() const {
  checkCapture(rng_numbers);
  for (const Step& step : steps) {
    if (step.launch.module != nullptr) {
      keepLoaded(step.launch.module);
    }
  }
}

void LaunchPlan::dump(const ArgView* values) const {
  if (isDumpEnabled(DumpOption::FusionArgs)) {
    std::cout << "Arguments for fusion " << fusion_id << " on " << device << ":\n";
    for (size_t i = 0; i < num_args; ++i) {
      std::cout << "  " << toString(values[i]) << "\n";
    }
  }
  for (const Step& step : steps) {
    std::vector<ArgView> inputs;
    for (uint32_t input : step.inputs) {
      inputs.push_back(values[input]);
    }
    dumpLaunch(step.executor->kernelName(), step.launch, inputs);
  }
}

void LaunchPlan::launchAll(ArgView* values, size_t count, const PhiloxState& rng,
                           void* stream) const {
  for (const Step& step : steps) {
    launch(step.launch, {values, count}, rng, stream);
  }
}

void LaunchPlan::launchProfiled(ArgView* values, size_t count, const PhiloxState& rng,
                                void* stream) const {
  FusionProfiler::startFusion(fusion_id, device, stream);
  try {
    for (const Step& step : steps) {
      if (step.launch.empty) {
        continue;
      }
      int64_t read = 0;
      for (uint32_t input : step.inputs) {
        read += argumentBytes({values + input, 1});
      }
      int64_t written = 0;
      for (const OutputShape& out : step.launch.outputs) {
        written += out.storage_elements * dataTypeSizeBits(out.dtype) / 8;
      }
      FusionProfiler::startKernel(device, stream);
      launch(step.launch, {values, count}, rng, stream);
      FusionProfiler::stopKernel(kernelProfile(*step.executor, step.launch, read, written));
      FusionProfiler::addCompileTime(step.executor->compileMilliseconds());
    }
    FusionProfiler::stopFusion(input_bytes, output_bytes);
  } catch (...) {
    FusionProfiler::abortFusion();
    throw;
  }
}

std::string launchText(const PreparedLaunch& launch) {
  if (launch.empty) {
    return "no launch: all outputs are empty";
  }
  std::ostringstream out;
  const LaunchConfig& c = launch.config;
  out << "grid [" << c.grid.x << ", " << c.grid.y << ", " << c.grid.z << "], block [" << c.block.x
      << ", " << c.block.y << ", " << c.block.z << "], ";
  if (c.cluster.count() > 1) {
    out << "cluster [" << c.cluster.x << ", " << c.cluster.y << ", " << c.cluster.z << "], ";
  }
  out << "dynamic shared memory " << c.dynamic_shared_bytes << " bytes";
  return out.str();
}

} // namespace nvfuser
