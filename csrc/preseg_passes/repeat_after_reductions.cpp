// SPDX-License-Identifier: BSD-3-Clause
// Where rows take several kernels: what is read before and after a reduction is computed of the
// inputs again after it, if that takes less than writing and reading it.
#include <preseg_passes/passes.h>

#include <ir/exprs.h>
#include <ir/visitor.h>
#include <preseg_passes/input_bits.h>
#include <transform/cache.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace nvfuser {

namespace {

// Levels: how many such reductions lie, one after the other, between the inputs and a tensor.
// Copies are met by no level but the one that they were made for, and never copied themselves.
class LevelRepeater {
 public:
  LevelRepeater(Fusion* fusion, double from_elements)
      : fusion_(fusion), from_elements_(from_elements), exprs_(fusion->exprs()), bits_(exprs_) {}

  void run() {
    for (Expr* e : exprs_) {
      int level = 0;
      for (const TensorView* in : tensorInputs(e)) {
        level = std::max(level, levelOf(in));
      }
      const bool ends_level = isReduction(e) && reducedElements(e) >= from_elements_;
      for (const TensorView* out : tensorOutputs(e)) {
        levels_[out] = level + (ends_level ? 1 : 0);
      }
      std::unordered_map<Val*, Val*> replaced;
      for (TensorView* in : tensorInputs(e)) {
        if (TensorView* copy = copyAt(in, level); copy != in) {
          replaced[in] = copy;
        }
      }
      if (!replaced.empty()) {
        copyExprWith(fusion_, e, replaced);
      }
    }
  }

 private:
  int levelOf(const TensorView* tv) const {
    auto it = levels_.find(tv);
    return it == levels_.end() ? 0 : it->second;
  }

  TensorView* copyAt(TensorView* tv, int level) {
    if (levelOf(tv) == level || tv->definition() == nullptr || !bits_.areFewFor(tv->definition())) {
      return tv;
    }
    TensorView*& copy = copies_[{tv, level}];
    if (copy == nullptr) {
      std::vector<Val*> inputs = tv->definition()->inputs();
      for (Val*& in : inputs) {
        if (in->isTensor()) {
          in = copyAt(in->as<TensorView>(), level);
        }
      }
      copy = recompute(tv, inputs);
    }
    return copy;
  }

  Fusion* fusion_;
  const double from_elements_;
  const std::vector<Expr*> exprs_;
  const InputBits bits_;
  std::unordered_map<const TensorView*, int> levels_;
  std::map<std::pair<TensorView*, int>, TensorView*> copies_;
};

} // namespace

void repeatAfterReductions(Fusion* fusion, double from_elements) {
  FusionGuard guard(fusion);
  LevelRepeater(fusion, from_elements).run();
}

} // namespace nvfuser
