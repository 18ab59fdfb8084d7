// SPDX-License-Identifier: BSD-3-Clause
// No kernel needed.
#include <scheduler/no_op.h>

#include <ir/builder.h>
#include <ir/evaluator.h>
#include <ir/exprs.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

std::string NoOpScheduler::whyNot(Fusion* fusion) const {
  for (const Val* v : fusion->outputs()) {
    const auto& dims = v->as<TensorView>()->getLogicalDomain();
    const bool empty = std::any_of(dims.begin(), dims.end(), [](const IterDomain* id) {
      return id->getMaybeExpandedExtent()->isZeroInt();
    });
    if (!v->isFusionInput() && !empty) {
      return "output has a concrete dimension";
    }
  }
  return "";
}

ChosenParams NoOpScheduler::computeHeuristics(Fusion*, SchedulerRuntimeInfo&,
                                              HeuristicCache*) const {
  return std::make_unique<HeuristicParams>(SchedulerType::NoOp);
}

// The kernel is never launched: whatever would have been computed of nothing is left out of it.
void NoOpScheduler::schedule(Fusion* fusion, const HeuristicParams&) const {
  FusionGuard guard(fusion);
  std::unordered_set<const Val*> done;
  const std::vector<Val*> outputs = fusion->outputs();
  for (Val* v : outputs) {
    auto* tv = v->as<TensorView>();
    if (tv->isFusionInput() || !done.insert(tv).second || tv->hasReduction() ||
        tv->definition()->outputs().size() > 1) {
      continue;
    }
    fusion->removeExpr(tv->definition());
    auto* zero = IrBuilder::create<Val>(convertScalar(int64_t{0}, tv->dtype()), tv->dtype());
    IrBuilder::create<FullOp>(tv, zero);
  }
}

} // namespace nvfuser
