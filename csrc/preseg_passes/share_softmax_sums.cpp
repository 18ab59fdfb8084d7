// SPDX-License-Identifier: BSD-3-Clause
// An entropy of logits has the sums of a softmax and of a logsumexp, which differ where the maximum
// m is infinite alone: the softmax's is NaN there, the other one 0 or infinite. One of them is
// computed of the other, so that each exponential is taken once:
//
//   where(|m| == inf, max(m, 0), sum(exp(x - m)))   the logsumexp's
//   sum(exp(x - where(|m| == inf, 0, m))) + (m - m)   the softmax's
#include <preseg_passes/canonical_form.h>
#include <preseg_passes/softmax_sums.h>

#include <ir/builder.h>
#include <ops/elementwise.h>
#include <preseg_passes/rewriter.h>

#include <limits>
#include <unordered_map>

namespace nvfuser {

namespace {

// The maximum whose broadcast along the reduced dimensions is subtracted.
std::optional<SoftmaxSum> subtractedMaximum(const Val* v) {
  while (v->definition() != nullptr && v->definition()->kind() == ExprKind::ExpandOp) {
    v = v->definition()->input(0);
  }
  const auto* spread = tryAs<BroadcastOp>(v->definition());
  if (spread == nullptr) {
    return std::nullopt;
  }
  const Val* max = spread->input(0);
  const ElementwiseOp* guard = definedBy(max, OpType::Where);
  if (guard != nullptr) {
    max = guard->in(2);
    const ElementwiseOp* is_infinite = definedBy(guard->in(0), OpType::Eq);
    const ElementwiseOp* size =
        is_infinite == nullptr ? nullptr : definedBy(is_infinite->in(0), OpType::Abs);
    if (size == nullptr || size->in(0) != max || realConstant(guard->in(1)) != 0 ||
        realConstant(is_infinite->in(1)) != std::numeric_limits<double>::infinity()) {
      return std::nullopt;
    }
  }
  auto* op = tryAs<ReductionOp>(max->definition());
  const bool fits = op != nullptr && op->op() == OpType::Maximum &&
                    reducedFlags(op->out()) == spread->isBroadcastDim();
  return fits ? std::optional(SoftmaxSum{op, guard}) : std::nullopt;
}

bool isReadAgain(const ReductionOp* sum) {
  return sum->in()->isFusionOutput() || sum->in()->uses().size() > 1;
}

} // namespace

std::optional<SoftmaxSum> softmaxSumOf(const ReductionOp* sum) {
  const DataType dtype = sum->out()->dtype();
  if (sum->op() != OpType::Add || (dtype != DataType::Float && dtype != DataType::Double)) {
    return std::nullopt;
  }
  const ElementwiseOp* power = definedBy(sum->in(), OpType::Exp);
  const ElementwiseOp* difference =
      power == nullptr ? nullptr : definedBy(power->in(0), OpType::Sub);
  if (difference == nullptr || !difference->in(0)->isTensor() || !difference->in(1)->isTensor()) {
    return std::nullopt;
  }
  const std::optional<SoftmaxSum> out = subtractedMaximum(difference->in(1));
  const bool fits = out.has_value() && out->max->in() == difference->in(0) &&
                    out->max->in()->dtype() == dtype &&
                    reducedFlags(out->max->out()) == reducedFlags(sum->out());
  return fits ? out : std::nullopt;
}

std::vector<Val*> termsOfSoftmaxSum(TensorView* max, TensorView* total) {
  Fusion* fusion = max->fusion();
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
  return {total, correction};
}

void shareSoftmaxSums(Fusion* fusion) {
  const FusionGuard guard(fusion);
  fusion->removeDeadUses();
  struct Sums {
    ReductionOp* plain = nullptr;
    ReductionOp* guarded = nullptr;
    const ElementwiseOp* guard = nullptr;
  };
  std::unordered_map<const ReductionOp*, Sums> sums_of; // of each maximum
  const std::vector<Expr*> exprs = fusion->exprs();
  for (Expr* e : exprs) {
    auto* sum = tryAs<ReductionOp>(e);
    const auto found = sum == nullptr ? std::nullopt : softmaxSumOf(sum);
    if (!found.has_value()) {
      continue;
    }
    auto& [plain, guarded, by] = sums_of[found->max];
    (found->guard == nullptr ? plain : guarded) = sum;
    by = found->guard == nullptr ? by : found->guard;
    if (plain == nullptr || guarded == nullptr) {
      continue;
    }
    TensorView* max = found->max->out();
    if (isReadAgain(guarded)) {
      computeInstead(plain, OpType::Add, termsOfSoftmaxSum(max, guarded->out()));
    } else {
      Val* limit = maximum(max, constantOf(0.0, max->dtype()));
      computeInstead(guarded, OpType::Where, {by->in(0), limit, plain->out()});
    }
    plain = guarded = nullptr;
  }
}

} // namespace nvfuser
