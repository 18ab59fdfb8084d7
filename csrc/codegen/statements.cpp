// SPDX-License-Identifier: BSD-3-Clause
// See statements.h.
#include <codegen/statements.h>

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
  std::vector<const Val*> left(e->inputs().begin(), e->inputs().end());
  while (!left.empty()) {
    const Val* v = left.back();
    left.pop_back();
    if (const auto* element = tryAs<TensorIndex>(v)) {
      out.push_back(element->view());
      left.push_back(element->index());
    } else if (v->definition() != nullptr) {
      left.insert(left.end(), v->definition()->inputs().begin(), v->definition()->inputs().end());
    }
  }
  return out;
}

} // namespace nvfuser::codegen
