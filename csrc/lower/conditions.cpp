// SPDX-License-Identifier: BSD-3-Clause
// See conditions.h.
#include <lower/conditions.h>

#include <ir/builder.h>

#include <algorithm>

namespace nvfuser {

bool has(const Conditions& list, const Val* c) {
  return std::any_of(list.begin(), list.end(), [&](auto* x) { return x->sameAs(c); });
}

void addTo(Conditions& list, Val* c) {
  if (!has(list, c)) {
    list.push_back(c);
  }
}

Conditions without(const Conditions& list, const Conditions& remove) {
  Conditions out;
  for (Val* c : list) {
    if (!has(remove, c)) {
      out.push_back(c);
    }
  }
  return out;
}

bool sameSet(const Conditions& a, const Conditions& b) {
  return a.size() == b.size() &&
         std::all_of(a.begin(), a.end(), [&](auto* c) { return has(b, c); });
}

bool growsWith(const Val* v, const std::vector<const ForLoop*>& loops) {
  const bool depends =
      std::any_of(loops.begin(), loops.end(), [&](auto* l) { return dependsOn(v, l->index()); });
  const auto* def = tryAs<ElementwiseOp>(v->definition());
  if (!depends || def == nullptr) {
    return true;
  }
  switch (def->op()) {
    case OpType::Add:
      return growsWith(def->in(0), loops) && growsWith(def->in(1), loops);
    case OpType::Mul:
      return growsWith(def->in(0), loops) && growsWith(def->in(1), loops) &&
             !(def->in(0)->isConstInt() && def->in(0)->intValue() < 0) &&
             !(def->in(1)->isConstInt() && def->in(1)->intValue() < 0);
    case OpType::Div:
      return growsWith(def->in(0), loops) && !std::any_of(loops.begin(), loops.end(), [&](auto* l) {
               return dependsOn(def->in(1), l->index());
             });
    default:
      return false;
  }
}

Val* substitute(Val* v, const std::vector<const ForLoop*>& loops, bool last) {
  return IrBuilder::replaced(v, [&](Val* x) -> Val* {
    for (const ForLoop* l : loops) {
      if (!l->index()->isConst() && x->sameAs(l->index())) {
        // A vector is guarded as a whole through its first element: it never straddles the end.
        return l->parallelType() == ParallelType::Vectorize ? x
               : last ? IrBuilder::subExpr(l->extent(), IrBuilder::index(1))
                      : IrBuilder::index(0);
      }
    }
    return nullptr;
  });
}

} // namespace nvfuser
