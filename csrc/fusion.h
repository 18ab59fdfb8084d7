// SPDX-License-Identifier: BSD-3-Clause
// Fusion: an SSA graph of tensor expressions with inputs and outputs, and FusionGuard, which makes
// a fusion the one that builders add to.
#pragma once

#include <ir/builder.h>
#include <ir/container.h>
#include <ir/nodes.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser {

// Why an output shares storage with an input.
struct OutputAlias {
  // The fusion input whose buffer the output is written to.
  Val* input = nullptr;
  // Hidden outputs are not returned to the caller.
  bool hidden = false;
};

// A number of threads or blocks that a schedule leaves to the launch.
struct LaunchNumber {
  Val* number = nullptr; // stands for it in the schedule; a parameter of the kernel
  Val* value = nullptr;  // how it follows from the extents
  int64_t most = 1;
  // A power of two up to 32, or a multiple of 32.
  bool by_warps = false;
  // Threads that take part, of so many that are launched; null: all.
  Val* padded = nullptr;
};

class Fusion : public IrContainer, public std::enable_shared_from_this<Fusion> {
 public:
  Fusion() = default;
  // Deep copies.
  Fusion(const Fusion& other);
  Fusion& operator=(const Fusion& other);
  ~Fusion() override = default;
  // Copies `from` into the empty fusion `to`; the cloner maps old nodes to new ones.
  static IrCloner copy(const Fusion* from, Fusion* to);

  // Error: not a symbolic scalar or a tensor without definition, or already an input.
  void addInput(Val* input);
  // It may get a definition then.
  void removeInput(Val* input);
  // Error: not a tensor ("Non-TensorView outputs are not supported").
  void addOutput(Val* output);
  // `output` is written into `alias_input`'s storage.
  void addOutput(Val* output, Val* alias_input);
  // One that no caller gets: what depends on it is computed, and it lies in memory.
  void addHiddenOutput(TensorView* output);
  // Whether a caller gets the tensor.
  bool isReturned(const Val* output) const;
  void replaceOutput(Val* from, Val* to);
  void removeOutput(Val* output);

  const std::vector<Val*>& inputs() const {
    return inputs_;
  }
  // Hidden in-place outputs included.
  const std::vector<Val*>& outputs() const {
    return outputs_;
  }
  // A schedule may be made for one value of a symbolic extent: kernels are lowered as if it were a
  // constant, and launches check it.
  void assumeExtent(Val* extent, int64_t value) {
    assumed_extents_.emplace_back(extent, value);
  }
  const std::vector<std::pair<Val*, int64_t>>& assumedExtents() const {
    return assumed_extents_;
  }
  // An input whose address and strides are multiples of a vector's, and which nothing writes: loads
  // may take whole vectors of it where the indices allow that. Launches check it where they do.
  void declareAligned(TensorView* input) {
    aligned_inputs_.push_back(input);
  }
  const std::vector<TensorView*>& alignedInputs() const {
    return aligned_inputs_;
  }
  // No dimension of any tensor is empty: the planner leaves out what has no element
  // (definition/concretization.h). A schedule that was made by hand is launched with any extents.
  void setHasElements(bool has) {
    has_elements_ = has;
  }
  bool hasElements() const {
    return has_elements_;
  }
  // Outputs that nothing reads again are written past the caches where threads run in loops.
  void setStreamsOutputs(bool streams) {
    streams_outputs_ = streams;
  }
  bool streamsOutputs() const {
    return streams_outputs_;
  }

  // Elementwise results that nothing connects may run through the loops of one of them, if their
  // sizes are the same.
  void setSharesLoops(bool shares) {
    shares_loops_ = shares;
  }
  bool sharesLoops() const {
    return shares_loops_;
  }

  // A schedule may also leave numbers of threads and blocks to the launch, which computes them from
  // the extents and checks that they are between 1 and `most`. Returns what stands for the number.
  Val* chooseAtLaunch(Val* value, int64_t most, bool by_warps = false);
  // An axis of `number` threads, chosen at launch, is launched with `padded` ones: whole warps, of
  // which the last has threads with nothing to do.
  void padThreads(const Val* number, Val* padded);
  const std::vector<LaunchNumber>& launchNumbers() const {
    return launch_numbers_;
  }
  // What `v` is if it is one of them, or one times a constant.
  std::optional<LaunchNumber> launchNumber(const Val* v) const;
  // The most threads that a block has then; 0: not known.
  void setMostThreads(int64_t threads) {
    most_threads_ = threads;
  }
  int64_t mostThreads() const {
    return most_threads_;
  }

  // Parallel to outputs(): the alias of outputs()[i], with input == nullptr if there is none.
  const std::vector<OutputAlias>& outputAliases() const {
    return output_aliases_;
  }

  // Tensor expressions that outputs depend on, in topological order (stable: by definition order).
  const std::vector<Expr*>& exprs() const;
  // Whether one of them is such, or of the kind.
  template <class Holds>
  bool hasExpr(Holds holds) const {
    const std::vector<Expr*>& all = exprs();
    return std::any_of(all.begin(), all.end(), holds);
  }
  bool hasExpr(ExprKind kind) const {
    return hasExpr([kind](const Expr* e) { return e->kind() == kind; });
  }
  // Tensors that appear in inputs, outputs and exprs(), producers before consumers.
  std::vector<TensorView*> allTvs() const;
  // Consumers of `v` among exprs().
  std::vector<Expr*> liveUses(const Val* v) const;
  // The outputs that have any: for those who change the fusion output by output.
  std::unordered_set<const Val*> outputsWithLiveUses() const;

  // Replaces the input `from` by `to` in `expr` by making a copy of the expression.
  Expr* replaceExprInput(Expr* expr, Val* from, Val* to);

  // Unlinks tensor expressions that no output depends on, so that Val::uses() are live uses only.
  // Schedulers and lowering call this on their own copy.
  void removeDeadUses();

  // Definition equality: same inputs in order, same ops, fields, dtypes, contiguity, allocation
  // order and aliases. Schedules are not compared.
  bool sameDefinition(const Fusion& other) const;
  size_t definitionHash() const;

  // The definition as text.
  std::string printMath(bool from_outputs_only = true) const;
  void print() const;

  // Number of stateful random ops so far; gives the next its index.
  int64_t nextStatefulRngIndex() {
    return num_stateful_rng_++;
  }
  int64_t numStatefulRng() const {
    return num_stateful_rng_;
  }

 protected:
  void onGraphChanged() override {
    exprs_valid_ = false;
  }

 private:
  TensorView* copyOf(TensorView* tv);

  std::vector<Val*> inputs_;
  std::vector<Val*> outputs_;
  std::vector<OutputAlias> output_aliases_;
  std::vector<std::pair<Val*, int64_t>> assumed_extents_;
  std::vector<TensorView*> aligned_inputs_;
  std::vector<LaunchNumber> launch_numbers_;
  bool has_elements_ = false;
  bool streams_outputs_ = false;
  bool shares_loops_ = false;
  int64_t most_threads_ = 0;
  int64_t num_stateful_rng_ = 0;
  mutable bool exprs_valid_ = false;
  mutable std::vector<Expr*> live_exprs_;
  mutable bool live_set_valid_ = false; // made from live_exprs_ when somebody asks
  mutable std::unordered_set<const Expr*> live_set_;
};

// Makes `fusion` the active one of this thread while it lives; guards nest.
class FusionGuard {
 public:
  explicit FusionGuard(Fusion* fusion);
  ~FusionGuard();
  FusionGuard(const FusionGuard&) = delete;
  FusionGuard& operator=(const FusionGuard&) = delete;
  // The active fusion, or null.
  static Fusion* getCurFusion();

 private:
  IrContainer* previous_;
};

} // namespace nvfuser
