// SPDX-License-Identifier: BSD-3-Clause
// An output that is the copy of a computed tensor, with an order in memory of its own, is computed
// where the copy was: what else reads that tensor reads the output. Then the tensor is in memory
// once, and in the order that was asked for, if one kernel makes it and another one reads it.
#include <preseg_passes/passes.h>

#include <ir/exprs.h>
#include <preseg_passes/rewriter.h>
#include <transform/cache.h>

namespace nvfuser {

namespace {

bool isComputed(const TensorView* tv) {
  return tv->definition() != nullptr && tv->definition()->kind() == ExprKind::ElementwiseOp &&
         !tv->isFusionOutput() && !tv->domain()->hasAllocation();
}

} // namespace

void computeIntoOutputs(Fusion* fusion, const std::vector<TensorView*>& outputs) {
  const FusionGuard guard(fusion);
  for (TensorView* output : outputs) {
    Expr* copy = output->definition();
    if (copy == nullptr || !isPlainCopy(copy) || !output->domain()->hasAllocation()) {
      continue;
    }
    auto* computed = copy->input(0)->as<TensorView>();
    if (!isComputed(computed) || !haveSameDims(output, computed)) {
      continue;
    }
    fusion->removeExpr(copy);
    copyExprWith(fusion, computed->definition(), {{computed, output}});
    const std::vector<Expr*> uses = computed->uses();
    for (Expr* use : uses) {
      fusion->replaceExprInput(use, computed, output);
    }
  }
  fusion->removeDeadUses();
}

} // namespace nvfuser
