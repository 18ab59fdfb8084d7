// SPDX-License-Identifier: BSD-3-Clause
// Running a plan.
#include <executor/launch_plan.h>

#include <base/error.h>
#include <base/options.h>
#include <cuda/driver.h>
#include <runtime/profiler.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <iostream>
#include <numeric>
#include <sstream>
#include <utility>

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

const LaunchPlan::View* find(const std::vector<LaunchPlan::View>& views, uint32_t value) {
  const auto it = std::find_if(views.begin(), views.end(),
                               [&](const LaunchPlan::View& view) { return view.value == value; });
  return it == views.end() ? nullptr : &*it;
}

} // namespace

const LaunchPlan::View* LaunchPlan::viewedBy(uint32_t value) const {
  return find(views, value);
}

const LaunchPlan::View* LaunchPlan::partOf(uint32_t value) const {
  return find(parts, value);
}

int64_t LaunchPlan::bytesWritten(const Step& step) const {
  int64_t bytes = 0;
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const OutputShape& out = step.launch.outputs[i];
    const int64_t elements =
        partOf(step.outputs[i]) == nullptr
            ? out.storage_elements
            : std::accumulate(out.sizes.begin(), out.sizes.end(), int64_t{1}, std::multiplies());
    bytes += elements * dataTypeSizeBits(out.dtype) / 8;
  }
  return bytes;
}

void LaunchPlan::orderMemoryEvents() {
  using Kind = MemoryEvent::Kind;
  const auto by_home = [](const Workspace& a, const Workspace& b) {
    return std::pair(a.is_in_block, a.home) < std::pair(b.is_in_block, b.home);
  };
  std::stable_sort(workspaces.begin(), workspaces.end(), by_home);
  const auto allocate = [&](uint32_t step, Kind kind, uint32_t index, uint32_t home) {
    const Workspace any{0, home, kind == Kind::AllocateBlock, 0};
    const auto [first, end] = std::equal_range(workspaces.begin(), workspaces.end(), any, by_home);
    events_before.push_back({step, kind, index, static_cast<uint32_t>(first - workspaces.begin()),
                             static_cast<uint32_t>(end - workspaces.begin())});
  };
  events_before.clear();
  events_after.clear();
  for (uint32_t i = 0; i < results.size(); ++i) {
    if (results[i].kind == Result::Kind::New) {
      allocate(results[i].first_step, Kind::AllocateResult, i, results[i].source);
    }
  }
  for (uint32_t i = 0; i < blocks.size(); ++i) {
    allocate(blocks[i].first_step, Kind::AllocateBlock, i, i);
    events_after.push_back({blocks[i].last_step, Kind::ReleaseBlock, i});
  }
  for (uint32_t i = 0; i < made.size(); ++i) {
    events_after.push_back({made[i].last_step, Kind::ReleaseMade, i});
  }
  for (auto* events : {&events_before, &events_after}) {
    std::stable_sort(events->begin(), events->end(),
                     [](const MemoryEvent& a, const MemoryEvent& b) { return a.step < b.step; });
  }
}

// The values of a call, and the memory that it has at the time: blocks are given back whatever
// happens.
class LaunchPlan::CallMemory {
 public:
  CallMemory(const LaunchPlan& plan, ArgView* values, OutputAllocator& allocator)
      : plan_(plan), values_(values), allocator_(allocator), blocks_(plan.blocks.size(), nullptr) {}
  ~CallMemory() {
    for (void* block : blocks_) {
      release(block);
    }
  }
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  std::span<ArgView> values() const {
    return {values_, plan_.num_args + plan_.locals.size()};
  }

  void beforeStep(size_t step) {
    for (; before_ < plan_.events_before.size() && plan_.events_before[before_].step <= step;
         ++before_) {
      const MemoryEvent& event = plan_.events_before[before_];
      if (event.kind == MemoryEvent::Kind::AllocateResult) {
        const Result& result = plan_.results[event.index];
        setData(result.source,
                allocator_.allocate(result.position, result.shape->desc(plan_.device)));
        place(event, values_[result.source].data);
      } else {
        const uint64_t bytes = plan_.blocks[event.index].bytes;
        blocks_[event.index] = allocator_.allocateWorkspace(bytes, plan_.device);
        place(event, blocks_[event.index]);
      }
    }
  }

  void afterStep(size_t step) {
    for (; after_ < plan_.events_after.size() && plan_.events_after[after_].step <= step;
         ++after_) {
      const MemoryEvent& event = plan_.events_after[after_];
      if (event.kind == MemoryEvent::Kind::ReleaseBlock) {
        release(std::exchange(blocks_[event.index], nullptr));
      } else {
        std::erase_if(
            made_, [&](const auto& entry) { return entry.first == plan_.made[event.index].value; });
      }
    }
  }

  // The outputs of a step.
  void adopt(const Step& step, std::vector<Tensor> tensors) {
    NVF_ERROR(tensors.size() == step.outputs.size(), "a result was not made");
    for (size_t i = 0; i < tensors.size(); ++i) {
      const uint32_t value = step.outputs[i];
      setData(value, tensors[i].data());
      const auto result =
          std::find_if(plan_.results.begin(), plan_.results.end(), [&](const Result& each) {
            return each.kind == Result::Kind::Made && each.source == value;
          });
      if (result != plan_.results.end()) {
        allocator_.adopt(result->position, tensors[i], result->shape->desc(plan_.device));
      } else {
        made_.emplace_back(value, std::move(tensors[i]));
      }
    }
  }

 private:
  void place(const MemoryEvent& event, void* data) {
    for (uint32_t i = event.first_workspace; i < event.end_workspace; ++i) {
      const Workspace& w = plan_.workspaces[i];
      setData(w.value, static_cast<std::byte*>(data) + w.offset);
    }
  }

  // Of a value, and of what is a view of it.
  void setData(uint32_t value, void* data) {
    values_[value].data = data;
    const auto by_source = [](const View& view, uint32_t source) { return view.source < source; };
    for (auto view = std::lower_bound(plan_.views.begin(), plan_.views.end(), value, by_source);
         view != plan_.views.end() && view->source == value; ++view) {
      values_[view->value].data = static_cast<std::byte*>(data) + view->offset;
    }
  }

  void release(void* block) {
    if (block != nullptr) {
      allocator_.releaseWorkspace(block, plan_.device);
    }
  }

  const LaunchPlan& plan_;
  ArgView* values_;
  OutputAllocator& allocator_;
  SmallVector<void*, 4> blocks_;
  std::vector<std::pair<uint32_t, Tensor>> made_;
  size_t before_ = 0;
  size_t after_ = 0;
};

void LaunchPlan::returnArguments(std::span<const ArgView> args, OutputAllocator& allocator) const {
  for (const Result& result : results) {
    if (result.kind == Result::Kind::Input) {
      allocator.returnInput(result.position, result.source);
    } else if (result.kind == Result::Kind::View) {
      allocator.returnView(result.position, result.source, result.offset,
                           result.shape->desc(args[result.source].device));
    }
  }
}

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
    if (view.source >= num_args) { // not made yet
      break;
    }
    values[view.value].data = static_cast<std::byte*>(values[view.source].data) + view.offset;
  }
  returnArguments(args, allocator);
  CallMemory memory(*this, values, allocator);
  memory.beforeStep(0);
  PhiloxState state;
  if (device.isCuda() && cuda::isCaptured(stream)) [[unlikely]] {
    prepareForCapture();
  }
  if (rng_numbers != 0) {
    state = (rng != nullptr ? *rng : DefaultRngState::instance()).advance(device, rng_numbers);
  }
  if (isDumpEnabled(DumpOption::FusionArgs)) [[unlikely]] {
    dumpArguments(values);
  }
  if (FusionProfiler::isEnabled()) [[unlikely]] {
    launchProfiled(memory, state, stream);
  } else {
    launchAll(memory, state, stream);
  }
  for (const Result& result : results) {
    if (result.kind == Result::Kind::Same) {
      const std::optional<TensorDesc> seen =
          result.shape == nullptr ? std::nullopt : std::optional(result.shape->desc(device));
      allocator.returnSame(result.position, result.source, result.offset, seen);
    }
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

void LaunchPlan::dumpArguments(const ArgView* values) const {
  std::cout << "Arguments for fusion " << fusion_id << " on " << device << ":\n";
  for (size_t i = 0; i < num_args; ++i) {
    std::cout << "  " << toString(values[i]) << "\n";
  }
}

void LaunchPlan::dump(const Step& step, std::span<const ArgView> values) const {
  std::vector<ArgView> inputs;
  for (uint32_t input : step.inputs) {
    inputs.push_back(values[input]);
  }
  dumpLaunch(step.executor->kernelName(), step.launch, inputs);
}

void LaunchPlan::start(const Step& step, CallMemory& memory, const PhiloxState& rng,
                       void* stream) const {
  if (currentOptions().dump.any()) [[unlikely]] {
    dump(step, memory.values());
  }
  if (step.makes_results) {
    memory.adopt(step, makeResults(step.launch, memory.values()));
  } else {
    launch(step.launch, memory.values(), rng, stream);
  }
}

void LaunchPlan::launchAll(CallMemory& memory, const PhiloxState& rng, void* stream) const {
  for (size_t s = 0; s < steps.size(); ++s) {
    memory.beforeStep(s);
    start(steps[s], memory, rng, stream);
    memory.afterStep(s);
  }
}

void LaunchPlan::launchProfiled(CallMemory& memory, const PhiloxState& rng, void* stream) const {
  FusionProfiler::startFusion(fusion_id, device, stream);
  try {
    for (size_t s = 0; s < steps.size(); ++s) {
      const Step& step = steps[s];
      memory.beforeStep(s);
      if (step.launch.empty) {
        memory.afterStep(s);
        continue;
      }
      int64_t read = 0;
      for (uint32_t input : step.inputs) {
        read += argumentBytes(memory.values().subspan(input, 1));
      }
      const int64_t written = bytesWritten(step);
      FusionProfiler::startKernel(device, stream);
      start(step, memory, rng, stream);
      FusionProfiler::stopKernel(kernelProfile(*step.executor, step.launch, read, written));
      FusionProfiler::addCompileTime(step.executor->compileMilliseconds());
      memory.afterStep(s);
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
