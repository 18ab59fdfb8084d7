// SPDX-License-Identifier: BSD-3-Clause
// The cold path of FusionExecutorCache: from a definition and argument metadata to a LaunchPlan.
// Keeps what can be used again: concrete fusions by what the shapes decide about the definition,
// segments, and kernels by their parameters.
//
// Several threads may plan at once. A plan is made in three steps:
//   1. Choose, under the planner's lock: everything that touches IR. Segments get kernels that are
//      there, kernels that another call is compiling, or new ones, which are scheduled, lowered and
//      entered among the segment's variants before the lock is given up.
//   2. Compile, without the lock: this call's new kernels, all at once. Only when these are entered
//      as finished does the call wait for those of others, so that no two calls can wait for each
//      other.
//   3. Finish, under the lock: launches are prepared. What was chosen may not hold any more
//   (another
//      call found that no kernel can be made of a segment and cut it again): then the call begins
//      anew. A kernel that could not be compiled is taken from the variants by the call that made
//      it; the first call that comes back to it plans something simpler, the others begin anew.
// So a kernel is compiled once whoever needs it, and nobody waits for a kernel of somebody else.
#pragma once

#include <definition/concretization.h>
#include <executor/in_place.h>
#include <executor/kernel_limits.h>
#include <executor/launch_plan.h>
#include <executor/output_views.h>
#include <fusion.h>
#include <preseg_passes/library_boundaries.h>
#include <preseg_passes/moved_views.h>
#include <runtime/extent_checks.h>
#include <scheduler/registry.h>
#include <segment/segment.h>

#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace nvfuser {

// One schedule of a segment and its kernel.
struct KernelVariant {
  std::unique_ptr<HeuristicParams> params; // null for a manual schedule or an evaluation
  DataType index_type = DataType::Int;
  Device device{};
  uint64_t options = 0;
  KernelOrder order;
  std::shared_ptr<KernelExecutor> executor;
  // Printed only when somebody asks: texts of nested extents grow much faster than the fusion.
  std::unique_ptr<Fusion> scheduled;
  // Until then a call is compiling it.
  std::shared_future<void> compiled;
  std::exception_ptr error; // why it could not be compiled; set before `compiled`
  uint64_t last_used = 0;   // by the planner, as KernelLimits counts time
};

struct SegmentState {
  Segment segment;
  std::string tuning_name; // once it was asked for
  HeuristicCache heuristics;
  std::vector<std::shared_ptr<KernelVariant>> variants;
  // Set when a kernel with the parameters of the heuristics was refused: without vectors and
  // unrolling.
  bool plain = false;
  // Set when no kernel could be made that takes any extents: each gets one of its own.
  bool own_extents_only = false;
  // The parameters come from tuning; set once they failed.
  bool tuned = false;
  bool untuned = false;
  // Set when no kernel could be made of a single operation: it is evaluated.
  bool evaluated = false;
};

// The definition with its open questions decided, cut into segments.
struct ConcreteFusion {
  int64_t id = 0;
  Fusion fusion;
  std::vector<ExtentConstraint> constraints;
  std::vector<InPlaceWrite> writes;
  bool overlap = false; // storage that is written is also seen through another argument
  // For the kept outputs of the definition, in order: the tensor that is returned or written.
  std::vector<TensorView*> outputs;
  // What the caller gets for them of what kernels make. Empty: that.
  std::vector<ReturnedView> returned;
  std::vector<std::unique_ptr<SegmentState>> segments;
  MovedViews views;
  std::vector<LibraryBoundary> boundaries;
  std::vector<OutputPart> parts;
  // What it was rewritten for.
  Wanted wanted;
  // What stands for the number of row groups, where each call has one of its own; else null.
  Val* row_groups = nullptr;
  // Schedulers that no kernel could be made by: a concrete fusion without them takes the place of
  // this one.
  LeftOut left_out_next;
  // How often something simpler was planned for a segment: what was chosen before may be no more.
  int64_t revision = 0;
  // Segments that were cut again. Plans made before refer to them.
  std::vector<std::unique_ptr<SegmentState>> retired;
  // Why no kernel could be made of a segment, by the segment's text: cut() cuts it.
  std::map<std::string, std::string> refused;
};

// The definition with its schedule.
std::string scheduledIrText(const Fusion& fusion);
// The domains of its tensors and the transforms between them.
std::string transformsText(const Fusion& fusion);

class Planner {
 public:
  Planner(const Fusion* definition, int64_t fusion_id, bool auto_schedule);

  // What may be made for a plan, besides launches of kernels that are there. Segments: the
  // definition is cut for what the shapes decide about it.
  enum class MayMake : uint8_t { Nothing, Segments, Kernels };
  // Null if more would have to be made than may be. The key is not set. This and everything else
  // here may be called by several threads at once. `wants_any_extent`: as it was wanted when the
  // plan was made that this is to be equal to.
  std::shared_ptr<LaunchPlan> plan(std::span<const ArgView> args, Device device, MayMake may_make,
                                   std::optional<bool> wants_any_extent = std::nullopt);
  // As in KernelKeeper. Calls that are under way keep what they have chosen.
  void listKernels(KernelUses& uses);
  void dropKernels(const KernelSet& kernels, Discarded& discarded);
  // Held by whoever looks at the IR that plans refer to.
  std::mutex& mutex() const {
    return mutex_;
  }
  // For each input: a scalar whose value decides shapes.
  const std::vector<bool>& scalarMatters() const {
    return scalar_matters_;
  }
  // Whether an input that is updated in place shares memory with another argument.
  bool overlaps(std::span<const ArgView> args) const;
  // Parameters of segments, by position, for the plans that are made from now on. When no kernel
  // can be made with them that is an error.
  void setParams(std::map<size_t, std::shared_ptr<const HeuristicParams>> params) {
    const std::lock_guard lock(mutex_);
    given_params_ = std::move(params);
  }
  // The number of different kernels that were compiled here or came from the disk.
  int64_t numKernels() const {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(kernel_keys_.size());
  }
  // The kernels of a plan that came from the disk.
  void addKernelsOf(const LaunchPlan& plan);
  // What was wrong with us since it was last asked, where something simpler was planned instead.
  std::vector<std::string> takeInternalErrors() {
    const std::lock_guard lock(mutex_);
    return std::exchange(internal_errors_, {});
  }
  // For tests: the next `count` kernels of this process cannot be lowered.
  static void failToLower(int count);
  // How often a kernel that a scheduler had promised could not be made and something simpler was.
  int64_t numFallbacks() const {
    const std::lock_guard lock(mutex_);
    return num_fallbacks_;
  }

 private:
  // What happens with each output of the definition.
  enum class Role : uint8_t { Input, View, Empty, InPlace, Computed };
  struct Roles {
    std::vector<Role> role;       // per output
    std::vector<bool> misaligned; // per output, InPlace: the storage must not be written in vectors
    bool overlap = false;         // storage that is written is also seen through another argument
    bool operator<(const Roles& other) const {
      return std::tie(role, misaligned, overlap) <
             std::tie(other.role, other.misaligned, other.overlap);
    }
  };
  // One concretization of a definition, rewritten as schedulers want it for different sizes.
  struct Concretized {
    std::vector<std::unique_ptr<ConcreteFusion>> rewritten;
    // About the fusion of the first, before it was rewritten.
    WholeDefinition::Cache found;
    // Of the definition as it was given, once it was asked for.
    const ExtentChecks* checks = nullptr;
  };
  // What a call gets of it.
  struct Chosen {
    ConcreteFusion* concrete = nullptr;
    Wanted wanted; // for the sizes of the call
  };
  // The definition with the outputs that need a kernel, and its concretizations.
  struct Trimmed {
    std::unique_ptr<Fusion> fusion;
    std::vector<size_t> kept;      // outputs of the definition
    std::optional<SizesSeen> seen; // where something is open, or sizes are compared
    bool may_make_nothing = false; // sizes of 0 may come of inputs that have elements
    std::unordered_map<Concretization, Concretized, ConcretizationHash> concrete;
  };
  struct Call; // plan() in progress

  // Kernels that are best for one extent each are made until there are some; from then on those
  // that are missing take any extent (NVFUSER_DISABLE=dynamic_extents: never).
  bool wantsAnyExtent() const;
  Trimmed& trimmed(const Roles& roles);
  Concretization decide(Trimmed& trimmed, std::span<const ArgView> args) const;
  // Null if there is none and none may be made.
  Chosen concrete(const Roles& roles, std::span<const ArgView> args, Device device,
                  LeftOut left_out, MayMake may_make, bool wants_any_extent);
  // What the schedulers want for these sizes, and what was rewritten so, if there is any.
  Chosen chooseRewritten(const Concretized& concretized, WholeDefinition& definition,
                         const LeftOut& left_out, bool wants_any_extent) const;
  // The definition as it was concretized, not rewritten.
  std::unique_ptr<ConcreteFusion> makeConcrete(const Roles& roles, const Trimmed& trimmed,
                                               const Concretization& decisions,
                                               const MachineModel& machine);
  void rewriteAndCut(ConcreteFusion& concrete);
  void cut(ConcreteFusion& concrete);
  void forEachSegment(const std::function<void(SegmentState&)>& visit);
  // No kernel could be made for a segment: simpler parameters, or else a finer cut, or else it is
  // evaluated. False if there is nothing simpler.
  bool simplify(ConcreteFusion& concrete, SegmentState& state, const std::string& why);
  // Of sizes that do not agree, whichever outputs need a kernel: for what these decide about the
  // definition as it was given.
  const ExtentChecks& checksOfWhole(std::span<const ArgView> args);
  // Where the concrete fusion does not compare all sizes.
  void checkWhole(const Trimmed& trimmed, const Concretization& decisions, Concretized& concretized,
                  std::span<const ArgView> args);
  void findScalarsThatMatter();
  void findAliases();

  const Fusion* definition_;
  const int64_t fusion_id_;
  const bool auto_schedule_;
  std::vector<bool> scalar_matters_;
  std::vector<size_t> updated_; // inputs that are written to
  std::vector<int>
      alias_input_; // per output of the definition: the input whose storage it has, or -1
  std::vector<std::optional<ViewChain>> views_; // per output of the definition
  std::vector<const TensorView*> resized_;      // whose sizes may turn out to be negative
  std::vector<PromisedRange> ranges_;           // of slices
  mutable std::mutex mutex_;                    // guards what follows, and all IR
  std::map<Roles, Trimmed> trimmed_;
  std::unordered_map<Concretization, std::unique_ptr<ExtentChecks>, ConcretizationHash>
      whole_checks_;
  std::map<size_t, std::shared_ptr<const HeuristicParams>> given_params_;
  int64_t num_concrete_ = 0;
  std::unordered_set<std::string> kernel_keys_;
  int64_t num_fallbacks_ = 0;
  std::vector<std::string> internal_errors_;
};

} // namespace nvfuser
