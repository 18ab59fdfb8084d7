// SPDX-License-Identifier: BSD-3-Clause
// A segment that reads a widened tensor (bf16 to float) should read the narrow one and widen it
// itself, which costs an instruction instead of memory traffic: every reader of a widening cast
// gets a cast of its own, so that each can be on its reader's side of a cut. A view of what was
// widened is widened instead: where it has to be written, it is narrow.
#include <preseg_passes/passes.h>

#include <ir/builder.h>
#include <ops/elementwise.h>
#include <preseg_passes/input_bits.h>
#include <preseg_passes/rewriter.h>
#include <transform/cache.h>

namespace nvfuser {

namespace {

// As many elements in another order, or in other dimensions.
bool isViewOfAll(const Expr* e) {
  return e->kind() == ExprKind::ReshapeOp || !permutationOf(e).empty();
}

// view(cast(x)) becomes cast(view(x)).
void widenAfterViews(Fusion* fusion, TensorView* wide) {
  const std::vector<Expr*> uses = wide->uses();
  if (uses.size() != 1 || wide->isFusionOutput() || !isViewOfAll(uses.front())) {
    return;
  }
  auto* viewed = uses.front()->output(0)->as<TensorView>();
  if (viewed->isFusionOutput() || viewed->domain()->hasAllocation()) {
    return;
  }
  Val* narrow = wide->definition()->input(0);
  auto* view =
      IrBuilder::createIn<TensorView>(fusion, newTensorLike(viewed)->domain(), narrow->dtype());
  copyExprWith(fusion, uses.front(), {{wide, narrow}, {viewed, view}});
  const std::vector<Expr*> readers = viewed->uses();
  std::vector<TensorView*> widened;
  for (Expr* reader : readers) {
    widened.push_back(castOp(wide->dtype(), view));
    copyExprWith(fusion, reader, {{viewed, widened.back()}});
  }
  fusion->removeExpr(viewed->definition());
  for (TensorView* own : widened) {
    widenAfterViews(fusion, own);
  }
}

} // namespace

void separateWideningCasts(Fusion* fusion) {
  const FusionGuard guard(fusion);
  fusion->removeDeadUses();
  const std::vector<Expr*> exprs = fusion->exprs();
  std::vector<TensorView*> widened;
  for (const Expr* cast : exprs) {
    if (!isWideningCast(cast)) {
      continue;
    }
    auto* tv = cast->output(0)->as<TensorView>();
    widened.push_back(tv);
    const std::vector<Expr*> uses = tv->uses();
    for (size_t i = tv->isFusionOutput() ? 0 : 1; i < uses.size(); ++i) {
      TensorView* own = recompute(tv, cast->inputs());
      widened.push_back(own);
      copyExprWith(fusion, uses[i], {{tv, own}});
    }
  }
  for (TensorView* tv : widened) {
    widenAfterViews(fusion, tv);
  }
}

} // namespace nvfuser
