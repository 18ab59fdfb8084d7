// SPDX-License-Identifier: BSD-3-Clause
// See two_pass.h.
#include <scheduler/two_pass.h>

#include <ir/builder.h>
#include <ir/exprs.h>
#include <ops/elementwise.h>
#include <ops/shape.h>

namespace nvfuser {

namespace {

void replace(Fusion* fusion, Expr* welford) {
  auto* x = welford->input(0)->as<TensorView>();
  auto* mean = welford->output(0)->as<TensorView>();
  auto* m2 = welford->output(1)->as<TensorView>();
  const std::vector<bool> reduced = reducedFlags(mean);
  Val* count = fusion->oneVal();
  for (const IterDomain* id : mean->getLogicalDomain()) {
    if (id->isReduction()) {
      count = IrBuilder::mulExpr(count, id->getMaybeExpandedExtent());
    }
  }
  fusion->removeExpr(welford);
  Val* zero = IrBuilder::create<Val>(0.0, x->dtype());
  auto* total = IrBuilder::create<TensorView>(mean->domain(), x->dtype());
  IrBuilder::create<ReductionOp>(OpType::Add, zero, total, x);
  mean->setDomain(mean->domain()->copyOfKept());
  IrBuilder::create<ElementwiseOp>(
      OpType::Div, mean, std::vector<Val*>{total, IrBuilder::castExpr(x->dtype(), count)});
  TensorView* deviation = sub(x, broadcast(mean, reduced));
  IrBuilder::create<ReductionOp>(OpType::Add, zero, m2, mul(deviation, deviation));
}

} // namespace

void replaceWelfordByTwoPasses(Fusion* fusion) {
  FusionGuard guard(fusion);
  std::vector<Expr*> without_count;
  for (Expr* e : fusion->exprs()) {
    if (e->kind() == ExprKind::WelfordOp) {
      const Val* n = e->output(2);
      if (!n->isFusionOutput() && fusion->liveUses(n).empty()) {
        without_count.push_back(e);
      }
    }
  }
  for (Expr* welford : without_count) {
    replace(fusion, welford);
  }
}

} // namespace nvfuser
