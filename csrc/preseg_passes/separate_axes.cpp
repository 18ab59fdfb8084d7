// SPDX-License-Identifier: BSD-3-Clause
// A tensor that is read along two axes stands for two: x + x^T, or a mask that is made of the
// lengths of sequences for rows and columns both. Every kernel has one loop for each dimension of
// its tensors, and such a tensor has the dimensions of two loops made one. So what reads it along
// the second axis gets a copy that is computed again, of inputs that are seen a second time. What
// reads it along the same axis shares a copy: the maximum of a row and what is less by it.
#include <preseg_passes/passes.h>

#include <base/disjoint_set.h>
#include <ir/exprs.h>
#include <ir/logical_map.h>
#include <ir/op_traits.h>
#include <preseg_passes/rewriter.h>
#include <transform/cache.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace nvfuser {

namespace {

using Dims = DisjointSets<const IterDomain*>;

class AxisSeparator {
 public:
  AxisSeparator(Fusion* fusion, const std::unordered_set<const TensorView*>& kept,
                MovedViews& views)
      : fusion_(fusion), kept_(kept), views_(views) {}

  void run() {
    constexpr int kMostRounds = 8;
    for (int round = 0; round < kMostRounds; ++round) {
      exprs_ = fusion_->exprs();
      tensors_ = fusion_->allTvs();
      const Dims dims = mapped({});
      const size_t conflicts = countConflicts(dims);
      if (conflicts == 0) {
        shareCopies();
        removeUnusedViews();
        return;
      }
      const std::vector<TensorView*> apart = bestOf(candidates(dims), conflicts);
      if (apart.empty()) {
        return;
      }
      for (auto tv = apart.rbegin(); tv != apart.rend(); ++tv) {
        separateReaders(*tv);
      }
    }
  }

 private:
  // Those whose readers get tensors of their own: the one that leaves the fewest conflicts, or as
  // few together as it takes to leave fewer than there are.
  std::vector<TensorView*> bestOf(const std::vector<TensorView*>& all, size_t conflicts) const {
    TensorView* best = nullptr;
    size_t fewest = conflicts;
    for (TensorView* tv : all) {
      if (const size_t left = countConflicts(mapped({tv})); left < fewest) {
        best = tv;
        fewest = left;
      }
    }
    if (best != nullptr) {
      return {best};
    }
    fewest = countConflicts(mapped(all));
    if (fewest == conflicts) {
      return {};
    }
    std::vector<TensorView*> out = all;
    for (auto tv = all.rbegin(); tv != all.rend(); ++tv) {
      std::vector<TensorView*> others = out;
      std::erase(others, *tv);
      if (countConflicts(mapped(others)) <= fewest) {
        out = std::move(others);
      }
    }
    return out;
  }

  // Dimensions that share loops, if what reads these reads tensors of its own.
  Dims mapped(const std::vector<TensorView*>& apart) const {
    Dims dims;
    for (const Expr* e : exprs_) {
      for (const TensorView* out : tensorOutputs(e)) {
        for (const TensorView* in : tensorInputs(e)) {
          if (std::ranges::find(apart, in) != apart.end()) {
            continue;
          }
          for (const auto& [from, to] : producerConsumerPairs(in, out)) {
            if (!from->isBroadcast() && !to->isBroadcast()) {
              dims.mapEntries(from, to);
            }
          }
        }
      }
    }
    return dims;
  }

  static bool isConflicting(const TensorView* tv, const Dims& dims) {
    const auto ids = logicalIds(tv);
    for (size_t a = 0; a < ids.size(); ++a) {
      for (size_t b = a + 1; b < ids.size(); ++b) {
        if (!ids[a]->isBroadcast() && dims.permissiveAreMapped(ids[a], ids[b])) {
          return true;
        }
      }
    }
    return false;
  }

  size_t countConflicts(const Dims& dims) const {
    return static_cast<size_t>(std::ranges::count_if(
        tensors_, [&](const TensorView* tv) { return isConflicting(tv, dims); }));
  }

  // What several read, and can be made again; the first ones are the least to compute.
  std::vector<TensorView*> candidates(const Dims& dims) const {
    constexpr size_t kMost = 32;
    std::vector<const IterDomain*> shared;
    for (const TensorView* tv : tensors_) {
      if (isConflicting(tv, dims)) {
        const auto ids = logicalIds(tv);
        shared.insert(shared.end(), ids.begin(), ids.end());
      }
    }
    std::vector<TensorView*> found;
    for (TensorView* tv : tensors_) {
      const auto ids = logicalIds(tv);
      const bool is_concerned = std::any_of(ids.begin(), ids.end(), [&](const IterDomain* id) {
        return !id->isBroadcast() &&
               std::any_of(shared.begin(), shared.end(), [&](const IterDomain* other) {
                 return id == other || dims.permissiveAreMapped(id, other);
               });
      });
      std::unordered_set<const TensorView*> made;
      if (is_concerned && fusion_->liveUses(tv).size() > 1 && isRepeatable(tv, made)) {
        found.push_back(tv);
        if (found.size() == kMost) {
          break;
        }
      }
    }
    return found;
  }

  // `made`: what has to be computed again.
  bool isRepeatable(const TensorView* tv, std::unordered_set<const TensorView*>& made) const {
    constexpr size_t kMostOps = 32;
    const Expr* e = tv->definition();
    if (e == nullptr) {
      return kept_.count(tv) == 0;
    }
    if (!made.insert(tv).second) {
      return true;
    }
    const std::vector<TensorView*> read = tensorInputs(e);
    const bool is_made = e->kind() == ExprKind::FullOp || e->kind() == ExprKind::IotaOp;
    return (is_made || isByPosition(e)) && !isBoundary(e) && e->outputs().size() == 1 &&
           made.size() <= kMostOps &&
           std::ranges::all_of(read, [&](const TensorView* in) { return isRepeatable(in, made); });
  }

  // Readers that conflict with none of a tensor's other ones read what these read.
  void shareCopies() {
    for (const auto& [tv, copies] : copies_) {
      std::vector<TensorView*> left{tv};
      for (TensorView* copy : copies) {
        const auto to = std::ranges::find_if(left, [&](TensorView* other) {
          Dims dims = mapped({});
          for (size_t d = 0; d < logicalIds(tv).size(); ++d) {
            dims.mapEntries(logicalIds(copy)[d], logicalIds(other)[d]);
          }
          return countConflicts(dims) == 0;
        });
        if (to == left.end()) {
          left.push_back(copy);
          continue;
        }
        const std::vector<Expr*> uses = fusion_->liveUses(copy);
        for (Expr* use : uses) {
          fusion_->replaceExprInput(use, copy, *to);
        }
        exprs_ = fusion_->exprs();
        tensors_ = fusion_->allTvs();
      }
    }
  }

  void removeUnusedViews() {
    std::erase_if(views_.inputs, [&](const InputView& each) {
      const bool is_unused = made_.count(each.view) != 0 && fusion_->liveUses(each.view).empty();
      if (is_unused) {
        fusion_->removeInput(each.view);
      }
      return is_unused;
    });
  }

  // All readers but one, which reads it as it lies if there is such a reader.
  void separateReaders(TensorView* tv) {
    copies_.emplace_back(tv, std::vector<TensorView*>());
    std::vector<Expr*> uses = fusion_->liveUses(tv);
    std::ranges::stable_partition(uses, [](const Expr* e) { return permutationOf(e).empty(); });
    for (size_t u = 1; u < uses.size(); ++u) {
      std::unordered_map<TensorView*, TensorView*> copies;
      TensorView* copy = repeated(tv, copies);
      copies_.back().second.push_back(copy);
      fusion_->replaceExprInput(uses[u], tv, copy);
    }
  }

  TensorView* repeated(TensorView* tv, std::unordered_map<TensorView*, TensorView*>& copies) {
    if (const auto it = copies.find(tv); it != copies.end()) {
      return it->second;
    }
    if (const Expr* e = tv->definition()) {
      std::vector<Val*> operands = e->inputs();
      for (Val*& operand : operands) {
        if (operand->isTensor()) {
          operand = repeated(operand->as<TensorView>(), copies);
        }
      }
      return copies[tv] = recompute(tv, operands);
    }
    TensorView* view = sameMemoryAs(tv);
    const InputView* seen = nullptr;
    for (const InputView& each : views_.inputs) {
      seen = each.view == tv ? &each : seen;
    }
    fusion_->addInput(view);
    made_.insert(view);
    views_.inputs.push_back(seen == nullptr ? InputView{view, tv, {}}
                                            : InputView{view, seen->source, seen->starts});
    return copies[tv] = view;
  }

  Fusion* fusion_;
  const std::unordered_set<const TensorView*>& kept_;
  MovedViews& views_;
  std::vector<Expr*> exprs_;
  std::vector<TensorView*> tensors_;
  std::vector<std::pair<TensorView*, std::vector<TensorView*>>> copies_; // of each separated one
  std::unordered_set<const TensorView*> made_; // inputs that are seen again
};

} // namespace

void separateAxes(Fusion* fusion, const std::unordered_set<const TensorView*>& kept,
                  MovedViews& views) {
  const FusionGuard guard(fusion);
  AxisSeparator(fusion, kept, views).run();
}

} // namespace nvfuser
