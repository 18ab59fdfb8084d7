// SPDX-License-Identifier: BSD-3-Clause
// The two reductions of a softmax, max(x) and sum(exp(x - max(x))), are one pass over x where
// nothing else reads the exponentials: the loss of a classifier reads its rows once, and a
// log-softmax waits for one reduction instead of two. A softmax itself keeps two: the exponentials
// stay in registers, while one pass would compute them once more, which takes longer
// (docs/measurements/normalizations.md).
#include <preseg_passes/passes.h>

#include <ir/builder.h>
#include <ir/exprs.h>
#include <ops/elementwise.h>
#include <preseg_passes/rewriter.h>
#include <transform/cache.h>

namespace nvfuser {

namespace {

ReductionOp* reduction(const Val* v, OpType op) {
  auto* e = tryAs<ReductionOp>(v->definition());
  return e != nullptr && e->op() == op ? e : nullptr;
}

// The maximum whose broadcast along the reduced dimensions this is; null if it is none.
ReductionOp* broadcastMaximum(const Val* v) {
  while (v->definition() != nullptr && v->definition()->kind() == ExprKind::ExpandOp) {
    v = v->definition()->input(0);
  }
  const auto* spread = tryAs<BroadcastOp>(v->definition());
  if (spread == nullptr) {
    return nullptr;
  }
  ReductionOp* max = reduction(spread->input(0), OpType::Maximum);
  return max != nullptr && reducedFlags(max->out()) == spread->isBroadcastDim() ? max : nullptr;
}

// max(x), if the reduction is sum(exp(x - max(x))) over the same dimensions.
ReductionOp* maximumOf(const ReductionOp* sum, bool repeat) {
  if (sum->op() != OpType::Add ||
      (sum->out()->dtype() != DataType::Float && sum->out()->dtype() != DataType::Double)) {
    return nullptr;
  }
  // Where the exponentials are read again they are better kept than computed twice.
  if (sum->in()->isFusionOutput() || (sum->in()->uses().size() > 1 && !repeat)) {
    return nullptr;
  }
  const ElementwiseOp* power = definedBy(sum->in(), OpType::Exp);
  const ElementwiseOp* difference =
      power == nullptr ? nullptr : definedBy(power->input(0), OpType::Sub);
  if (difference == nullptr || !difference->input(0)->isTensor() ||
      !difference->input(1)->isTensor()) {
    return nullptr;
  }
  ReductionOp* max = broadcastMaximum(difference->input(1));
  const bool fits = max != nullptr && max->in() == difference->input(0) &&
                    max->in()->dtype() == sum->out()->dtype() &&
                    reducedFlags(max->out()) == reducedFlags(sum->out());
  return fits ? max : nullptr;
}

// What else reads the tensor gets a copy of its own.
void separateFrom(Fusion* fusion, const Expr* reader, TensorView* tv) {
  const std::vector<Expr*> uses = tv->uses();
  for (Expr* use : uses) {
    if (use != reader) {
      copyExprWith(fusion, use, {{tv, recompute(tv, tv->definition()->inputs())}});
    }
  }
}

void merge(Fusion* fusion, ReductionOp* max_op, ReductionOp* sum_op) {
  TensorView* x = max_op->in();
  TensorView* max = max_op->out();
  TensorView* sum = sum_op->out();
  fusion->removeExpr(max_op);
  fusion->removeExpr(sum_op);
  auto* total = IrBuilder::create<TensorView>(sum->domain(), sum->dtype());
  IrBuilder::create<OnlineSoftmaxOp>(max, total, x);
  // exp(x - max) is NaN where the maximum is infinite; the running sum is not. Of nothing the sum
  // is 0, though the maximum is infinite.
  Val* count = fusion->oneVal();
  for (const IterDomain* id : max->getLogicalDomain()) {
    if (id->isReduction()) {
      count = IrBuilder::mulExpr(count, id->getMaybeExpandedExtent());
    }
  }
  TensorView* correction = sub(max, max);
  if (!count->isConst() || count->isZeroInt()) {
    Val* is_empty = IrBuilder::eqExpr(count, fusion->zeroVal());
    Val* zero = IrBuilder::create<Val>(0.0, max->dtype());
    correction = where(is_empty, zero, correction)->as<TensorView>();
  }
  sum->setDomain(sum->domain()->copyOfKept());
  IrBuilder::create<ElementwiseOp>(OpType::Add, sum, std::vector<Val*>{total, correction});
}

} // namespace

void mergeSoftmaxStatistics(Fusion* fusion, std::optional<double> repeated) {
  FusionGuard guard(fusion);
  fusion->removeDeadUses();
  const std::vector<Expr*> exprs = fusion->exprs();
  for (Expr* e : exprs) {
    auto* sum = tryAs<ReductionOp>(e);
    const bool repeat = repeated.has_value() && reducedElements(e) >= *repeated;
    if (ReductionOp* max = sum == nullptr ? nullptr : maximumOf(sum, repeat)) {
      separateFrom(fusion, sum, sum->in());
      merge(fusion, max, sum);
    }
  }
}

} // namespace nvfuser
