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
  fusion->removeDeadUses();
  const std::vector<Expr*> exprs = fusion->exprs();
  for (const Expr* cast : exprs) {
    if (!isWideningCast(cast)) {
      continue;
    }
    auto* tv = cast->output(0)->as<TensorView>();
    const std::vector<Expr*> uses = tv->uses();
    for (size_t i = tv->isFusionOutput() ? 0 : 1; i < uses.size(); ++i) {
      copyExprWith(fusion, uses[i], {{tv, recompute(tv, cast->inputs())}});
    }
  }
}

} // namespace nvfuser
