// SPDX-License-Identifier: BSD-3-Clause
// Traversal of the graph.
#pragma once

#include <base/small_set.h>
#include <ir/nodes.h>

#include <functional>
#include <vector>

namespace nvfuser {

// Expressions (transforms if these are domains) that `outputs` depend on, producers
// before consumers, among independent ones in order of creation; iterative, so that deep graphs do
// not exhaust the stack. Walks stop at `stop_at`.
std::vector<Expr*> exprsBefore(const std::vector<Val*>& outputs,
                               const std::vector<Val*>& stop_at = {});

// Whether `holds` of a value or of one that it is computed from. Each is asked once, however many
// ways lead there: expressions share operands, and there can be exponentially many. An element of a
// tensor is a leaf: what writes it is another statement.
template <class Holds>
bool holdsBehind(const Val* v, Holds holds) {
  SmallSet<const Val*> seen;
  std::vector<const Val*> left = {v};
  while (!left.empty()) {
    const Val* next = left.back();
    left.pop_back();
    if (!seen.insert(next)) {
      continue;
    }
    if (holds(next)) {
      return true;
    }
    const Expr* definition = next->definition();
    if (definition != nullptr && next->kind() != ValKind::TensorIndex) {
      left.insert(left.end(), definition->inputs().begin(), definition->inputs().end());
    }
  }
  return false;
}

// Visits `root` when all are known that `operands(node, add)` adds of it, and these in the same
// way: without recursion, as there are chains of thousands of operations. What is visited is known
// then.
template <class Node, class IsKnown, class Operands, class Visit>
void visitOperandsFirst(Node root, IsKnown is_known, Operands operands, Visit visit) {
  std::vector<Node> stack{root};
  while (!stack.empty()) {
    const Node top = stack.back();
    const size_t height = stack.size();
    const auto add = [&](Node operand) {
      if (!is_known(operand)) {
        stack.push_back(operand);
      }
    };
    if (!is_known(top)) {
      operands(top, add);
    }
    if (stack.size() == height) {
      stack.pop_back();
      if (!is_known(top)) {
        visit(top);
      }
    }
  }
}

template <class Visit>
void forEachBehind(const Val* v, Visit visit) {
  holdsBehind(v, [&](const Val* each) {
    visit(each);
    return false;
  });
}

// Tensor inputs (each once) and outputs of an expression.
std::vector<TensorView*> tensorInputs(const Expr* e);
std::vector<TensorView*> tensorOutputs(const Expr* e);
// Direct tensor consumers (all registered ones).
std::vector<TensorView*> consumerTvsOf(const TensorView* tv);

// Some expression that depends on the value, directly or not, is such a one.
bool leadsTo(const Val* v, const std::function<bool(const Expr*)>& is_wanted);

} // namespace nvfuser
