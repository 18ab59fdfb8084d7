// SPDX-License-Identifier: BSD-3-Clause
// Library ops get views of their own where others need them too: such a view is part of the
// library's segment (definition/library_views.h).
#include <preseg_passes/passes.h>

#include <definition/library_views.h>
#include <ir/exprs.h>
#include <ir/visitor.h>
#include <transform/cache.h>

namespace nvfuser {

void separateViewsForLibraryOps(Fusion* fusion) {
  FusionGuard guard(fusion);
  const std::vector<Expr*> exprs = fusion->exprs();
  for (Expr* op : exprs) {
    if (op->kind() != ExprKind::LibraryOp) {
      continue;
    }
    std::unordered_map<Val*, Val*> replaced;
    for (TensorView* operand : tensorInputs(op)) {
      const std::vector<Expr*> views = viewsBehind(operand);
      if (!areNeededByOthers(fusion, views, op)) {
        continue;
      }
      replaced[operand] = recomputeViews(views, views.front()->input(0)->as<TensorView>());
    }
    if (!replaced.empty()) {
      copyExprWith(fusion, op, replaced);
    }
  }
}

} // namespace nvfuser
