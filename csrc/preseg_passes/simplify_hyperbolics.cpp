// SPDX-License-Identifier: BSD-3-Clause
// Hyperbolic tangents that are only moved into the range of a gate, as in gelu and its gradient:
// 1 + tanh(x) is 2 * sigmoid(2 * x), and 1 - tanh(x)^2 is sech2(x), which shares its exponential
// with that sigmoid. Both are nearer to what they stand for where the tangent is nearly 1, and take
// fewer instructions. The 2 of the sigmoid meets the 1/2 that such a gate is multiplied by.
//
// docs/canonical_form.md has the bounds.
#include <preseg_passes/canonical_form.h>

#include <ir/builder.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace nvfuser {

namespace {

class HyperbolicSimplifier : public ElementwiseRewriter {
 public:
  using ElementwiseRewriter::ElementwiseRewriter;

 private:
  TensorView* simpler(const ElementwiseOp* op) override {
    const DataType type = op->out()->dtype();
    if (type != DataType::Float && type != DataType::Double) {
      return nullptr;
    }
    switch (op->op()) {
      case OpType::Tanh:
        if (isFloatingPoint(op->in(0)->dtype()) && isOnlyGate(op->out())) {
          gates_.insert(op->out());
        }
        return nullptr;
      case OpType::Add:
      case OpType::Sub:
        return gateOf(op);
      case OpType::Mul:
        return withoutScales(op);
      default:
        return nullptr;
    }
  }

  // ---- what reads a tangent

  // k + k * v, and k - k * v. `product`: k * v, or v if k is 1.
  static bool addsItsFactor(const Expr* e, const Val* product, double k) {
    const auto* sum = tryAs<ElementwiseOp>(e);
    const bool is_sum = sum != nullptr && (sum->op() == OpType::Add || sum->op() == OpType::Sub);
    const auto split = is_sum ? splitConstant(sum) : std::nullopt;
    return split.has_value() && split->constant == k && split->other == product &&
           (sum->op() == OpType::Add || sum->in(1) == product) &&
           sum->out()->dtype() == product->dtype();
  }

  static bool isDifference(const Expr* e) {
    return static_cast<const ElementwiseOp*>(e)->op() == OpType::Sub;
  }

  bool isReadOnlyBy(const Val* v, const auto& reads) const {
    const std::vector<Expr*> uses = fusion_->liveUses(v);
    return !v->isFusionOutput() && !uses.empty() && std::ranges::all_of(uses, reads);
  }

  // Whether k is added to k times v, for one k or another, or that is subtracted from k.
  bool isMoved(const Val* v, const Expr* use, bool only_subtracted) const {
    const auto fits = [&](const Expr* e, const Val* product, double k) {
      return addsItsFactor(e, product, k) && (isDifference(e) || !only_subtracted);
    };
    if (fits(use, v, 1)) {
      return true;
    }
    const auto* product = tryAs<ElementwiseOp>(use);
    const auto split =
        product == nullptr || product->op() != OpType::Mul ? std::nullopt : splitConstant(product);
    return split.has_value() && isReadOnlyBy(product->out(), [&](const Expr* sum) {
             return fits(sum, product->out(), split->constant);
           });
  }

  static bool isSquare(const Expr* e) {
    const auto* op = tryAs<ElementwiseOp>(e);
    return op != nullptr && op->op() == OpType::Mul && op->in(0) == op->in(1);
  }

  bool isOnlyGate(const Val* tanh) const {
    return isReadOnlyBy(tanh, [&](const Expr* use) {
      return isMoved(tanh, use, false) ||
             (isSquare(use) && isReadOnlyBy(use->output(0), [&](const Expr* sum) {
                return isMoved(use->output(0), sum, true);
              }));
    });
  }

  // ---- what it becomes

  TensorView* gateOf(const ElementwiseOp* sum) {
    const auto split = splitConstant(sum);
    if (!split.has_value() || !addsItsFactor(sum, split->other, split->constant)) {
      return nullptr;
    }
    const double k = split->constant;
    const ElementwiseOp* product = definedBy(split->other, OpType::Mul);
    const auto scaled = product == nullptr ? std::nullopt : splitConstant(product);
    if (scaled.has_value() ? scaled->constant != k : k != 1) {
      return nullptr;
    }
    const Val* moved = scaled.has_value() ? scaled->other : split->other;
    if (gates_.contains(moved)) {
      return sigmoidOf(moved, k, isDifference(sum));
    }
    const ElementwiseOp* square = definedBy(moved, OpType::Mul);
    const bool is_complement = square != nullptr && isSquare(square) && isDifference(sum) &&
                               gates_.contains(square->in(0));
    return is_complement ? times(made(OpType::Sech2, {argumentOf(square->in(0))}), k) : nullptr;
  }

  TensorView* times(TensorView* x, double k) {
    return k == 1 ? x : made(OpType::Mul, {x, constantOf(k, x->dtype())});
  }

  static Val* argumentOf(const Val* tanh) {
    return definedBy(tanh, OpType::Tanh)->in(0);
  }

  // k * (1 + tanh(x)), or of -x.
  TensorView* sigmoidOf(const Val* tanh, double k, bool falls) {
    TensorView* argument = twice(tanh);
    if (falls) {
      argument = made(OpType::Neg, {argument});
    }
    return times(made(OpType::Sigmoid, {argument}), 2 * k);
  }

  // 2 * x, where a constant factor of x takes the 2 if nothing else reads x; sech2 does.
  TensorView* twice(const Val* tanh) {
    Val* x = argumentOf(tanh);
    const ElementwiseOp* product = definedBy(x, OpType::Mul);
    const auto split = product == nullptr ? std::nullopt : splitConstant(product);
    const bool takes = split.has_value() && split->other->isTensor() &&
                       split->other->dtype() == x->dtype() && !x->isFusionOutput() &&
                       fusion_->liveUses(x).size() == 1 &&
                       std::ranges::none_of(fusion_->liveUses(tanh), isSquare);
    return takes ? times(split->other->as<TensorView>(), 2 * split->constant)
                 : times(x->as<TensorView>(), 2);
  }

  // ---- scales that cancel

  // A power of two times what is in no constant.
  static std::optional<WithConstant> scaled(const Val* v) {
    const ElementwiseOp* product = definedBy(v, OpType::Mul);
    auto split = product == nullptr ? std::nullopt : splitConstant(product);
    const bool is_power = split.has_value() && split->constant > 0 &&
                          exponentOf(split->constant).has_value() && split->other->isTensor() &&
                          split->other->dtype() == v->dtype();
    return is_power ? split : std::nullopt;
  }

  // (x * 1/2) * (s * 2), and 1/2 * (x * (s * 2)), of a sigmoid s.
  TensorView* withoutScales(const ElementwiseOp* op) {
    const auto outer = splitConstant(op);
    if (!outer.has_value()) {
      return productOf(op, 1);
    }
    const ElementwiseOp* product = definedBy(outer->other, OpType::Mul);
    return product != nullptr && !product->out()->isFusionOutput() &&
                   fusion_->liveUses(product->out()).size() <= 1
               ? productOf(product, outer->constant)
               : nullptr;
  }

  // Of the two operands, where their scales and this one are 1 together.
  TensorView* productOf(const ElementwiseOp* op, double scale) {
    const auto a = scaled(op->in(0));
    const auto b = scaled(op->in(1));
    const auto isSigmoid = [](const std::optional<WithConstant>& v) {
      return v.has_value() && definedBy(v->other, OpType::Sigmoid) != nullptr;
    };
    const double all =
        scale * (a.has_value() ? a->constant : 1) * (b.has_value() ? b->constant : 1);
    return (isSigmoid(a) || isSigmoid(b)) && all == 1
               ? made(OpType::Mul,
                      {a.has_value() ? a->other : op->in(0), b.has_value() ? b->other : op->in(1)})
               : nullptr;
  }

  std::unordered_set<const Val*> gates_; // tangents that nothing else reads
};

} // namespace

void simplifyHyperbolics(Fusion* fusion) {
  HyperbolicSimplifier(fusion).run();
}

} // namespace nvfuser
