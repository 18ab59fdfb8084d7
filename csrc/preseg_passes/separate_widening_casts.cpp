// SPDX-License-Identifier: BSD-3-Clause
// A segment that reads a widened tensor (bf16 to float) should read the narrow one and widen it
// itself, which costs an instruction instead of memory traffic: every reader of a widening cast
// gets a cast of its own, so that each can be on its reader's side of a cut. A reshape that is left
// may be where that is, so it goes before the cast: what a kernel writes for it is narrow, too.
#include <preseg_passes/passes.h>

#include <ir/builder.h>
#include <ops/elementwise.h>
#include <preseg_passes/input_bits.h>
#include <transform/cache.h>

namespace nvfuser {

namespace {

// reshape(cast(x)) as cast(reshape(x)).
void widenAfterReshapes(Fusion* fusion) {
  const FusionGuard guard(fusion);
  const std::vector<Expr*> exprs = fusion->exprs();
  for (Expr* reshape : exprs) {
    if (reshape->kind() != ExprKind::ReshapeOp) {
      continue;
    }
    auto* out = reshape->output(0)->as<TensorView>();
    const Expr* cast = reshape->input(0)->definition();
    if (cast == nullptr || !isWideningCast(cast) || out->isFusionOutput()) {
      continue;
    }
    auto* narrow = cast->input(0)->as<TensorView>();
    auto* reshaped = IrBuilder::create<TensorView>(newTensorLike(out)->domain(), narrow->dtype());
    copyExprWith(fusion, reshape, {{reshape->input(0), narrow}, {out, reshaped}});
    TensorView* widened = castOp(out->dtype(), reshaped);
    const std::vector<Expr*> uses = out->uses();
    for (Expr* use : uses) {
      fusion->replaceExprInput(use, out, widened);
    }
  }
  fusion->removeDeadUses();
}

} // namespace

void separateWideningCasts(Fusion* fusion) {
  fusion->removeDeadUses();
  widenAfterReshapes(fusion);
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
