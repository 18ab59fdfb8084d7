// SPDX-License-Identifier: BSD-3-Clause
// A segment that reads a widened tensor (bf16 to float) should read the narrow one and widen it
// itself, which costs an instruction instead of memory traffic: every reader of a widening cast
// gets a cast of its own, so that each can be on its reader's side of a cut.
#include <preseg_passes/passes.h>

#include <preseg_passes/input_bits.h>
#include <transform/cache.h>

namespace nvfuser {

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
