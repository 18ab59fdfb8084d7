// SPDX-License-Identifier: BSD-3-Clause
// See meet_reductions.h.
#include <preseg_passes/meet_reductions.h>

#include <ir/exprs.h>
#include <ir/visitor.h>

#include <algorithm>
#include <vector>

namespace nvfuser {

std::unordered_set<const TensorView*> meetReductions(const Fusion* fusion) {
  const std::vector<Expr*>& exprs = fusion->exprs();
  std::unordered_set<const TensorView*> out;
  const auto isAny = [&](const std::vector<TensorView*>& tvs) {
    return std::any_of(tvs.begin(), tvs.end(), [&](auto* tv) { return out.count(tv) != 0; });
  };
  for (const Expr* e : exprs) {
    if (isReduction(e) || isAny(tensorInputs(e))) {
      const auto outs = tensorOutputs(e);
      out.insert(outs.begin(), outs.end());
    }
  }
  for (size_t i = exprs.size(); i-- > 0;) {
    if (isReduction(exprs[i]) || isAny(tensorOutputs(exprs[i]))) {
      const auto ins = tensorInputs(exprs[i]);
      out.insert(ins.begin(), ins.end());
    }
  }
  return out;
}

bool isBroadcastLater(const TensorView* tv) {
  return leadsTo(tv, [](const Expr* e) { return e->kind() == ExprKind::BroadcastOp; });
}

} // namespace nvfuser
