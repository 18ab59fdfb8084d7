// See widening.h.
#include <segment/widening.h>

#include <ir/builder.h>
#include <ir/exprs.h>
#include <transform/cache.h>

namespace nvfuser {

bool isWideningCast(const Expr* e) {
  const auto* op = dynamic_cast<const ElementwiseOp*>(e);
  return op != nullptr && op->op() == OpType::Cast && op->in(0)->isTensor() &&
      dataTypeSizeBits(op->in(0)->dtype()) < dataTypeSizeBits(op->out()->dtype());
}

void separateWideningCasts(Fusion* fusion) {
  const std::vector<Expr*> exprs = fusion->exprs();
  for (const Expr* cast : exprs) {
    if (!isWideningCast(cast)) {
      continue;
    }
    auto* tv = cast->output(0)->as<TensorView>();
    const std::vector<Expr*> uses = fusion->liveUses(tv);
    for (size_t i = tv->isFusionOutput() ? 0 : 1; i < uses.size(); ++i) {
      copyExprWith(fusion, uses[i], {{tv, recompute(tv, cast->inputs())}});
    }
  }
}

void lookUpBeforeWidening(Fusion* fusion) {
  const std::vector<Expr*> exprs = fusion->exprs();
  for (Expr* e : exprs) {
    if (e->kind() != ExprKind::GatherOp && e->kind() != ExprKind::IndexSelectOp &&
        e->kind() != ExprKind::SelectOp) {
      continue;
    }
    auto* lookup = e->input(0)->as<TensorView>();
    const Expr* cast = lookup->definition();
    if (!isWideningCast(cast)) {
      continue;
    }
    auto* narrow = cast->input(0)->as<TensorView>();
    auto* wide = e->output(0)->as<TensorView>();
    auto* found = IrBuilder::createIn<TensorView>(
        fusion, newTensorLike(wide)->domain(), narrow->dtype());
    copyExprWith(fusion, e, {{lookup, narrow}, {wide, found}});
    fusion->removeExpr(e);
    IrBuilder::createIn<ElementwiseOp>(fusion, OpType::Cast, wide, std::vector<Val*>{found});
  }
}

} // namespace nvfuser
