// SPDX-License-Identifier: BSD-3-Clause
// See statements.h.
#include <codegen/statements.h>

#include <kernel/accesses.h>
#include <kernel/traverse.h>

namespace nvfuser::codegen {

std::vector<const Expr*> flatStatements(const Kernel* kernel) {
  std::vector<const Expr*> out;
  forEachStatement(kernel->top_level, [&](const Expr* e) {
    if (bodiesOf(e).empty()) {
      out.push_back(e);
    }
  });
  return out;
}

const TensorView* tensorOf(const Val* v) {
  const auto* index = tryAs<TensorIndex>(v);
  return index == nullptr ? nullptr : index->view();
}

std::vector<const TensorView*> tensorsReadBy(const Expr* e) {
  std::vector<const TensorView*> out;
  for (const Val* v : e->inputs()) {
    forTensorsIn(v, [&](const TensorView* tv) { out.push_back(tv); });
  }
  return out;
}

} // namespace nvfuser::codegen
