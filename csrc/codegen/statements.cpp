// SPDX-License-Identifier: BSD-3-Clause
// See statements.h.
#include <codegen/statements.h>

#include <kernel/accesses.h>

namespace nvfuser::codegen {

namespace {

void flatten(const std::vector<Expr*>& statements, std::vector<const Expr*>& out) {
  for (const Expr* e : statements) {
    const auto bodies = bodiesOf(e);
    if (bodies.empty()) {
      out.push_back(e);
    }
    for (const std::vector<Expr*>* body : bodies) {
      flatten(*body, out);
    }
  }
}

void addTensorsReadBy(const Val* v, std::vector<const TensorView*>& out) {
  forElementsIn(v, [&](const TensorIndex* element) {
    out.push_back(element->view());
    addTensorsReadBy(element->index(), out);
  });
}

} // namespace

std::vector<const Expr*> flatStatements(const Kernel* kernel) {
  std::vector<const Expr*> out;
  flatten(kernel->top_level, out);
  return out;
}

const TensorView* tensorOf(const Val* v) {
  const auto* index = tryAs<TensorIndex>(v);
  return index == nullptr ? nullptr : index->view();
}

std::vector<const TensorView*> tensorsReadBy(const Expr* e) {
  std::vector<const TensorView*> out;
  for (const Val* v : e->inputs()) {
    addTensorsReadBy(v, out);
  }
  return out;
}

} // namespace nvfuser::codegen
