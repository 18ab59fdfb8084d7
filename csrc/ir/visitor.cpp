// SPDX-License-Identifier: BSD-3-Clause
// Traversal.
#include <ir/visitor.h>

#include <base/small_set.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

std::vector<Expr*> exprsBefore(const std::vector<Val*>& outputs, const std::vector<Val*>& stop_at) {
  SmallSet<const Val*> stop;
  for (const Val* v : stop_at) {
    stop.insert(v);
  }
  SmallSet<const Expr*> seen;
  std::vector<Expr*> out;
  struct Frame {
    Expr* expr;
    size_t next;
  };
  std::vector<Frame> stack;
  auto push = [&](const Val* v) {
    if (v->definition() != nullptr && !stop.contains(v) && seen.insert(v->definition())) {
      stack.push_back({v->definition(), 0});
    }
  };
  for (const Val* v : outputs) {
    push(v);
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next < top.expr->inputs().size()) {
        push(top.expr->inputs()[top.next++]);
      } else {
        out.push_back(top.expr);
        stack.pop_back();
      }
    }
  }
  return out;
}

namespace {

std::vector<TensorView*> tensorsAmong(const std::vector<Val*>& vals) {
  std::vector<TensorView*> out;
  for (Val* v : vals) {
    if (v->isTensor() && std::find(out.begin(), out.end(), v) == out.end()) {
      out.push_back(static_cast<TensorView*>(v));
    }
  }
  return out;
}

} // namespace

std::vector<TensorView*> tensorInputs(const Expr* e) {
  return tensorsAmong(e->inputs());
}

std::vector<TensorView*> tensorOutputs(const Expr* e) {
  return tensorsAmong(e->outputs());
}

// Two uses have no output in common.
std::vector<TensorView*> consumerTvsOf(const TensorView* tv) {
  std::vector<TensorView*> consumers;
  for (const Expr* use : tv->uses()) {
    for (Val* out : use->outputs()) {
      if (out->isTensor()) {
        consumers.push_back(static_cast<TensorView*>(out));
      }
    }
  }
  return consumers;
}

bool leadsTo(const Val* v, const std::function<bool(const Expr*)>& is_wanted) {
  std::vector<const Val*> stack{v};
  std::unordered_set<const Val*> seen{v};
  while (!stack.empty()) {
    const Val* next = stack.back();
    stack.pop_back();
    for (const Expr* use : next->uses()) {
      if (is_wanted(use)) {
        return true;
      }
      for (const Val* out : use->outputs()) {
        if (seen.insert(out).second) {
          stack.push_back(out);
        }
      }
    }
  }
  return false;
}

} // namespace nvfuser
