// The cold path of FusionExecutorCache: from a definition and argument metadata to a LaunchPlan.
// Keeps what can be used again: concrete fusions by what the shapes decide about the definition,
// segments, and kernels by their parameters.
#pragma once

#include <executor/in_place.h>
#include <executor/launch_plan.h>
#include <executor/output_views.h>
#include <fusion.h>
#include <ops/rebuild.h>
#include <scheduler/outer_partials.h>
#include <scheduler/registry.h>
#include <segment/segment.h>

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser {

// One compiled schedule of a segment.
struct KernelVariant {
  std::unique_ptr<HeuristicParams> params; // null for a manual schedule or an evaluation
  DataType index_type = DataType::Int;
  Device device{};
  uint64_t options = 0;
  KernelOrder order;
  std::shared_ptr<KernelExecutor> executor;
  // Printed only when somebody asks: texts of nested extents grow much faster than the fusion.
  std::unique_ptr<Fusion> scheduled;
};

struct SegmentState {
  Segment segment;
  std::string tuning_name; // once it was asked for
  HeuristicCache heuristics;
  std::vector<std::unique_ptr<KernelVariant>> variants;
  // Set when a kernel with the parameters of the heuristics was refused: without vectors and
  // unrolling.
  bool plain = false;
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
  std::vector<std::unique_ptr<SegmentState>> segments;
  // What is reduced by rows and by columns, and how many partial sums of the columns there are, as
  // in RowWalk: 0 or less if they have kernels of their own.
  std::optional<RowsAndColumns> rows_and_columns;
  int64_t partial_sums = 0;
  // Or each call has a number of its own, which this stands for; else null.
  Val* walkers = nullptr;
  static constexpr int64_t kAnyPartialSums = -2;
  // Lengths of the rows that this was made for.
  std::unordered_set<int64_t> row_lengths;
  // The columns are reduced in two steps; a kernel of one of them was refused.
  bool columns_split = false;
  bool columns_refused = false;
  // Persistent schedulers that rows or columns are too large for: normalizations take two kernels.
  LeftOut left_out;
  // Those that no kernel could be made by: a concrete fusion without them takes the place of this.
  LeftOut left_out_next;
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

  // Null if kernels would have to be compiled and `may_compile` is false. The key is not set.
  std::shared_ptr<LaunchPlan> plan(std::span<const ArgView> args, Device device, bool may_compile);
  // For each input: a scalar whose value decides shapes.
  const std::vector<bool>& scalarMatters() const {
    return scalar_matters_;
  }
  // Whether an input that is updated in place shares memory with another argument.
  bool overlaps(std::span<const ArgView> args) const;
  // Parameters of segments, by position, for the plans that are made from now on. When no kernel
  // can be made with them that is an error.
  void setParams(std::map<size_t, std::shared_ptr<const HeuristicParams>> params) {
    given_params_ = std::move(params);
  }
  // Kernels that are best for one extent each are made until there are some; from then on those
  // that are missing take any extent (NVFUSER_DISABLE=dynamic_extents: never).
  bool wantsAnyExtent() const;
  int64_t numKernels() const {
    return num_kernels_;
  }
  // How often a kernel that a scheduler had promised could not be made and something simpler was.
  int64_t numFallbacks() const {
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
  // The definition with the outputs that need a kernel, and its concretizations.
  struct Trimmed {
    std::unique_ptr<Fusion> fusion;
    std::vector<size_t> kept; // outputs of the definition
    bool needs_concretization = false;
    // For different numbers of partial sums, and for columns that fit on chip or do not.
    std::unordered_map<Concretization, std::vector<std::unique_ptr<ConcreteFusion>>,
                       ConcretizationHash>
        concrete;
  };
  struct Call; // plan() in progress

  Trimmed& trimmed(const Roles& roles);
  ConcreteFusion& concrete(const Roles& roles, Trimmed& trimmed, std::span<const ArgView> args,
                           Device device, LeftOut left_out);
  std::unique_ptr<ConcreteFusion> makeConcrete(const Roles& roles, const Trimmed& trimmed,
                                               const Concretization& decisions,
                                               std::span<const ArgView> args, Device device,
                                               std::optional<int64_t> partial_sums,
                                               LeftOut left_out);
  void cut(ConcreteFusion& concrete);
  // No kernel could be made for a segment: simpler parameters, or else a finer cut, or else it is
  // evaluated. False if there is nothing simpler.
  bool simplify(ConcreteFusion& concrete, SegmentState& state, const std::string& why);
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
  std::map<Roles, Trimmed> trimmed_;
  std::map<size_t, std::shared_ptr<const HeuristicParams>> given_params_;
  int64_t num_concrete_ = 0;
  int64_t num_kernels_ = 0;
  int64_t num_fallbacks_ = 0;
};

} // namespace nvfuser
