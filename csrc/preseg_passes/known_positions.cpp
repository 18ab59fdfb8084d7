// SPDX-License-Identifier: BSD-3-Clause
// See known_positions.h.
#include <preseg_passes/known_positions.h>

#include <ir/exprs.h>
#include <ops/utils.h>

#include <algorithm>
#include <optional>

namespace nvfuser {

namespace {

using Runs = std::vector<Run>;

constexpr size_t kMostRuns = 2;
// Of all values on the way to a position, so that nothing overflows.
constexpr int64_t kLargest = int64_t{1} << 30;

bool isSmall(int64_t value) {
  return value >= -kLargest && value <= kLargest;
}

class KnownPositions {
 public:
  static Runs of(const TensorView* tv) {
    Runs runs = tv->definition() == nullptr ? Runs{} : made(tv->definition());
    const bool small = std::all_of(runs.begin(), runs.end(), [](const Run& run) {
      return isSmall(run.first) && isSmall(run.last());
    });
    return small && runs.size() <= kMostRuns ? runs : Runs{};
  }

 private:
  static Runs made(const Expr* e) {
    switch (e->kind()) {
      case ExprKind::IotaOp:
        return counted(static_cast<const IotaOp*>(e));
      case ExprKind::LoadStoreOp:
        return static_cast<const LoadStoreOp*>(e)->type() == LoadStoreOpType::Set
                   ? of(e->input(0)->as<TensorView>())
                   : Runs{};
      case ExprKind::ElementwiseOp:
        return computed(static_cast<const ElementwiseOp*>(e));
      default:
        return {};
    }
  }

  static Runs counted(const IotaOp* op) {
    const auto count = constInt(op->length());
    const auto first = constInt(op->start());
    const auto step = constInt(op->step());
    const bool known = count.has_value() && first.has_value() && step.has_value();
    return known && *count > 0 && isSmall(*count) && isSmall(*first) && isSmall(*step) &&
                   isSmall(*count * *step)
               ? Runs{{*first, *count, *step}}
               : Runs{};
  }

  static bool isInteger(const Val* v) {
    return v->dtype() == DataType::Int || v->dtype() == DataType::Int32;
  }

  static Runs computed(const ElementwiseOp* op) {
    if (!isInteger(op->out()) || !op->in(0)->isTensor() || !isInteger(op->in(0))) {
      return {};
    }
    Runs runs = of(op->in(0)->as<TensorView>());
    if (op->op() == OpType::Cast) {
      return runs;
    }
    const auto constant = op->inputs().size() == 2 ? constInt(op->in(1)) : std::nullopt;
    if (!constant.has_value() || !isSmall(*constant)) {
      return {};
    }
    switch (op->op()) {
      case OpType::Add:
      case OpType::Sub:
        for (Run& run : runs) {
          run.first += op->op() == OpType::Add ? *constant : -*constant;
        }
        return runs;
      case OpType::Fmod:
      case OpType::Mod:
      case OpType::Remainder:
        return remainders(runs, *constant, op->op() == OpType::Remainder);
      default:
        return {};
    }
  }

  // `of_negative`: those are known, too: not negative.
  static Runs remainders(const Runs& runs, int64_t divisor, bool of_negative) {
    Runs out;
    for (Run run : runs) {
      if (divisor <= 0 || run.step != 1 || (run.first < 0 && !of_negative)) {
        return {};
      }
      while (run.count > 0 && out.size() <= kMostRuns) {
        const int64_t first = (run.first % divisor + divisor) % divisor;
        const int64_t count = std::min(run.count, divisor - first);
        out.push_back({first, count, 1});
        run.first += count;
        run.count -= count;
      }
    }
    return out;
  }
};

} // namespace

std::vector<Run> knownPositions(const TensorView* tv) {
  return KnownPositions::of(tv);
}

} // namespace nvfuser
