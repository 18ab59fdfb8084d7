// SPDX-License-Identifier: BSD-3-Clause
// A sum of a tensor and of one that is put together of parts (a gradient of a rotary embedding: dy
// * cos, and the halves that change places) computes the parts first, in whichever order it was
// written: their loads are behind conditions, and what is computed meanwhile hides them.
#include <preseg_passes/canonical_form.h>

#include <ir/exprs.h>
#include <transform/cache.h>

#include <algorithm>
#include <vector>

namespace nvfuser {

namespace {

bool isSum(const Expr* e) {
  const auto* op = tryAs<ElementwiseOp>(e);
  return op != nullptr && op->op() == OpType::Add;
}

// Joined, padded, or a sum of such tensors.
bool isOfParts(const Val* v) {
  const Expr* def = v->definition();
  return def != nullptr && (def->kind() == ExprKind::CatOp || def->kind() == ExprKind::PadOp ||
                            (isSum(def) && std::ranges::all_of(def->inputs(), isOfParts)));
}

} // namespace

void putPartsFirst(Fusion* fusion) {
  for (Expr* e : std::vector<Expr*>(fusion->exprs())) {
    if (isSum(e) && !isOfParts(e->input(0)) && isOfParts(e->input(1))) {
      copyExprWith(fusion, e, {{e->input(0), e->input(1)}, {e->input(1), e->input(0)}});
    }
  }
}

} // namespace nvfuser
