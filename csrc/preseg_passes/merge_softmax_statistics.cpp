// SPDX-License-Identifier: BSD-3-Clause
// The two reductions of a softmax or logsumexp, max(x) and sum(exp(x - max(x))), are one pass over
// x where nothing else reads the exponentials: the loss of a classifier reads its rows once, and a
// log-softmax waits for one reduction instead of two. A softmax itself keeps two: the exponentials
// stay in registers, while one pass would compute them once more, which takes longer
// (docs/measurements/normalizations.md).
#include <preseg_passes/passes.h>

#include <ir/builder.h>
#include <ir/exprs.h>
#include <ops/elementwise.h>
#include <preseg_passes/rewriter.h>
#include <preseg_passes/softmax_sums.h>
#include <transform/cache.h>

#include <limits>

namespace nvfuser {

namespace {

// The maximum, if the reduction is such a sum that is better made in one pass with it.
std::optional<SoftmaxSum> statisticsOf(const ReductionOp* sum, bool repeat) {
  // Where the exponentials are read again they are better kept than computed twice.
  const bool is_kept = sum->in()->isFusionOutput() || (sum->in()->uses().size() > 1 && !repeat);
  return is_kept ? std::nullopt : softmaxSumOf(sum);
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

void merge(Fusion* fusion, const SoftmaxSum& statistics, ReductionOp* sum_op) {
  ReductionOp* max_op = statistics.max;
  TensorView* x = max_op->in();
  TensorView* max = max_op->out();
  TensorView* sum = sum_op->out();
  fusion->removeExpr(max_op);
  auto* total = IrBuilder::create<TensorView>(sum->domain(), sum->dtype());
  IrBuilder::create<OnlineSoftmaxOp>(max, total, x);
  if (statistics.guard == nullptr) {
    computeInstead(sum_op, OpType::Add, termsOfSoftmaxSum(max, total));
    return;
  }
  // With 0 instead of the maximum the exponential of an infinite element is infinite.
  Val* infinity = constantOf(std::numeric_limits<double>::infinity(), max->dtype());
  computeInstead(sum_op, OpType::Where, {eq(max, infinity), max, total});
}

} // namespace

void mergeSoftmaxStatistics(Fusion* fusion, std::optional<double> repeated) {
  FusionGuard guard(fusion);
  fusion->removeDeadUses();
  const std::vector<Expr*> exprs = fusion->exprs();
  for (Expr* e : exprs) {
    auto* sum = tryAs<ReductionOp>(e);
    const bool repeat = repeated.has_value() && reducedElements(e) >= *repeated;
    const auto statistics = sum == nullptr ? std::nullopt : statisticsOf(sum, repeat);
    if (statistics.has_value()) {
      separateFrom(fusion, sum, sum->in());
      merge(fusion, *statistics, sum);
    }
  }
}

} // namespace nvfuser
