// SPDX-License-Identifier: BSD-3-Clause
// A sum of a tensor and of one that is put together of parts (a gradient of a rotary embedding: dy
// * cos, and the halves that change places) computes the parts first, in whichever order it was
// written: their loads are behind conditions, and what is computed meanwhile hides them.
#include <preseg_passes/canonical_form.h>

#include <ir/exprs.h>
#include <transform/cache.h>

#include <unordered_set>
#include <vector>

namespace nvfuser {

void putPartsFirst(Fusion* fusion) {
  std::unordered_set<const Val*> of_parts; // joined, padded, or sums of such tensors
  for (Expr* e : std::vector<Expr*>(fusion->exprs())) {
    if (e->kind() == ExprKind::CatOp || e->kind() == ExprKind::PadOp) {
      of_parts.insert(e->output(0));
      continue;
    }
    const auto* op = tryAs<ElementwiseOp>(e);
    if (op == nullptr || op->op() != OpType::Add) {
      continue;
    }
    const bool first = of_parts.count(e->input(0)) != 0;
    const bool second = of_parts.count(e->input(1)) != 0;
    if (first && second) {
      of_parts.insert(e->output(0));
    } else if (second) {
      copyExprWith(fusion, e, {{e->input(0), e->input(1)}, {e->input(1), e->input(0)}});
    }
  }
}

} // namespace nvfuser
