// SPDX-License-Identifier: BSD-3-Clause
// LaunchPlan: a fusion call for arguments of known metadata, reduced to allocations and launches.
// Looked up by a key made of that metadata; running it touches no IR.
#pragma once

#include <base/options.h>
#include <base/small_vector.h>
#include <runtime/kernel_executor.h>

#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace nvfuser {

class HeuristicParams;
struct Segment;
struct KernelVariant;

// The metadata of a call as words: what a plan depends on and nothing else.
using PlanKey = SmallVector<uint64_t, 96>;

// `scalar_matters` has an entry for each argument: whether the value of a scalar decides shapes.
void makePlanKey(std::span<const ArgView> args, const std::vector<bool>& scalar_matters,
                 Device device, uint64_t options, PlanKey& key);

// A copy of the metadata of arguments. Addresses are kept as numbers: the memory need not be there
// any more.
class PlanArguments {
 public:
  explicit PlanArguments(std::span<const ArgView> args);
  PlanArguments(const PlanArguments&) = delete;
  PlanArguments& operator=(const PlanArguments&) = delete;
  std::span<const ArgView> views() const {
    return views_;
  }

 private:
  std::vector<ArgView> views_;
  std::deque<std::vector<int64_t>> extents_;
};

class LaunchPlan {
 public:
  // Values: the output of a step may be written over what it reads if nobody else reads that, or a
  // view of it, any more.
  struct Overwrite {
    uint32_t input; // no view
    uint32_t output;
  };
  // Values are numbered: the arguments, then `locals` (outputs, intermediate tensors, extents).
  struct Step {
    PreparedLaunch launch; // its patches hold value numbers
    std::shared_ptr<const KernelExecutor> executor;
    std::vector<uint32_t> inputs;     // values
    std::vector<uint32_t> outputs;    // values
    const Segment* segment = nullptr; // the planner's, for reports
    std::shared_ptr<const KernelVariant> variant;
    std::shared_ptr<const HeuristicParams> chosen; // by the heuristics; null if they were not asked
    int64_t input_bytes = 0;
    int64_t output_bytes = 0;
    int64_t read_bytes = 0; // of the inputs, for reports
    // What is evaluated allocates its outputs, which are handed on as they are.
    bool makes_results = false;
    std::vector<Overwrite> overwrites;
    // Of what is evaluated, to be kept on disk.
    std::string definition;
  };
  struct Result {
    enum class Kind : uint8_t { New, Made, Input, View, Same };
    Kind kind;
    uint32_t position;
    uint32_t source;    // value (New, Made), argument (Input, View), position (Same)
    int64_t offset = 0; // of a View, or of a Same in the memory of the other; in elements
    const OutputShape* shape = nullptr; // of New, Made and View; of Same if it is another one
    uint32_t first_step = 0;            // New: it is allocated before this step
  };
  // Memory of intermediate tensors, which a call has from before one step until after another.
  struct Block {
    uint64_t bytes;
    uint32_t first_step;
    uint32_t last_step;
  };
  // Where an intermediate tensor lies (memory_places.h).
  struct Workspace {
    uint32_t value;
    uint32_t home; // a block, or the value of a result that is written later
    bool is_in_block;
    uint64_t offset; // bytes
  };
  // An intermediate tensor that a step makes, and the step after which it is not needed.
  struct Made {
    uint32_t value;
    uint32_t last_step;
  };
  // What is to be done before or after a step.
  struct MemoryEvent {
    enum class Kind : uint8_t { AllocateResult, AllocateBlock, ReleaseBlock, ReleaseMade };
    uint32_t step;
    Kind kind;
    uint32_t index; // among results, blocks or made tensors
    // The workspaces in the memory that is allocated.
    uint32_t first_workspace = 0;
    uint32_t end_workspace = 0;
  };

  // A local that lies in the memory of a value before it, which is no view.
  struct View {
    uint32_t value;
    uint32_t source;
    int64_t offset; // bytes
  };

  PlanKey key;
  mutable std::atomic<uint64_t> last_used = 0; // as KernelLimits counts time
  Device device{};
  size_t num_args = 0;
  std::vector<ArgView> locals;
  std::deque<OutputShape> shapes; // what locals and results refer to
  std::vector<Result> results;
  std::vector<View> views; // by their sources
  std::vector<View> parts; // locals that are written in the memory of a result
  std::vector<Block> blocks;
  std::vector<Workspace> workspaces; // those in the same memory one after the other
  std::vector<Made> made;
  std::vector<Step> steps;
  // By step. They follow from the above (orderMemoryEvents).
  std::vector<MemoryEvent> events_before;
  std::vector<MemoryEvent> events_after;
  // Set if the plan comes from the disk: its steps have no segments and no variants then, and this
  // is what it would be made of again.
  std::shared_ptr<const PlanArguments> arguments;
  OptionsSnapshot options;
  // Kernels for any extent were wanted where there were none for these.
  bool wants_any_extent = false;
  uint64_t rng_numbers = 0; // that one call draws
  int64_t fusion_id = 0;
  int64_t input_bytes = 0;
  int64_t output_bytes = 0;

  // Null if the value is no view.
  const View* viewedBy(uint32_t value) const;
  // The value in whose memory one lies: itself if it is no view.
  uint32_t memoryOf(uint32_t value) const {
    const View* view = viewedBy(value);
    return view == nullptr ? value : view->source;
  }
  // What a value is a part of; null if it is none.
  const View* partOf(uint32_t value) const;
  // By a step, of its parts without what lies between their rows.
  int64_t bytesWritten(const Step& step) const;
  void orderMemoryEvents();
  void run(std::span<const ArgView> args, OutputAllocator& allocator, void* stream,
           RngState* rng) const;

 private:
  class CallMemory;
  void returnArguments(std::span<const ArgView> args, OutputAllocator& allocator) const;
  void prepareForCapture() const;
  void dumpArguments(const ArgView* values) const;
  void dump(const Step& step, std::span<const ArgView> values) const;
  void start(const Step& step, CallMemory& memory, const PhiloxState& rng, void* stream) const;
  void launchAll(CallMemory& memory, const PhiloxState& rng, void* stream) const;
  void launchProfiled(CallMemory& memory, const PhiloxState& rng, void* stream) const;
};

// Text of a launch for reports and NVFUSER_DUMP=launch_param.
std::string launchText(const PreparedLaunch& launch);

} // namespace nvfuser
