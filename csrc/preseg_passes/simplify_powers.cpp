// SPDX-License-Identifier: BSD-3-Clause
// Powers, roots, reciprocals and quotients of real numbers as the cheapest operations that compute
// them. A power with a small integral or half-integral exponent is a product of its base, its root
// and its reciprocal; of two such operations one after the other one is left where a single one
// computes both, 2^(x * log2(e)) is e^x, and pow(2, x) is exp2(x); the exponential of a log-softmax
// is the softmax; a quotient whose divisor is a root becomes a product with the reciprocal root,
// which is computed before the divisor's broadcast: the root of a number is never so small or so
// large that its reciprocal overflows. The reciprocal of a squared hyperbolic cosine, as in a
// gradient of gelu, is one function.
//
// Zeros, infinities and NaN give what they gave. What is rounded less often or later may differ in
// the last places, and where a reciprocal overflowed on the way the result is what it should be
// (docs/canonical_form.md has the bounds).
#include <preseg_passes/canonical_form.h>

#include <ir/builder.h>
#include <ops/elementwise.h>
#include <ops/shape.h>
#include <preseg_passes/input_bits.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace nvfuser {

namespace {

// Each factor may be rounded, and a reciprocal is rounded before that.
constexpr double kLargestExponent = 8;
constexpr double kLeastExponent = -4;

class PowerSimplifier : public ElementwiseRewriter {
 public:
  using ElementwiseRewriter::ElementwiseRewriter;

 private:
  void rewrite(Expr* e) override {
    unsigned_.visit(e);
    ElementwiseRewriter::rewrite(e);
  }

  TensorView* simpler(const ElementwiseOp* op) override {
    if (op->op() == OpType::Pow) {
      return powerOf(op);
    }
    if (!isFloatingPoint(op->out()->dtype())) {
      return nullptr;
    }
    switch (op->op()) {
      case OpType::Sqrt:
        return rootOf(op->in(0));
      case OpType::Rsqrt:
        return reciprocalRootOf(op->in(0));
      case OpType::Reciprocal:
        return reciprocalOf(op->in(0));
      case OpType::Div:
      case OpType::TrueDiv:
        return quotientOf(op);
      case OpType::Mul:
        return op->in(0) == op->in(1) ? squareOf(op->in(0)) : logarithmOf(op);
      case OpType::Exp2:
        return exponentialOf(op, OpType::Log2, OpType::Exp, std::numbers::log2e);
      case OpType::Exp:
        return exponentialOf(op, OpType::Log, OpType::Exp2, std::numbers::ln2);
      default:
        return nullptr;
    }
  }

  static const ElementwiseOp* quotientBefore(const Val* v) {
    const ElementwiseOp* div = definedBy(v, OpType::Div);
    return div != nullptr ? div : definedBy(v, OpType::TrueDiv);
  }

  // x of x * x.
  static Val* squared(const Val* v) {
    const ElementwiseOp* mul = definedBy(v, OpType::Mul);
    return mul != nullptr && mul->in(0) == mul->in(1) ? mul->in(0) : nullptr;
  }

  TensorView* rootOf(Val* x) {
    if (Val* base = squared(x)) {
      return made(OpType::Abs, {base});
    }
    const ElementwiseOp* reciprocal = definedBy(x, OpType::Reciprocal);
    // The reciprocal of -0 is -inf, which has no root.
    return reciprocal != nullptr && unsigned_.holds(reciprocal->in(0))
               ? made(OpType::Rsqrt, {reciprocal->in(0)})
               : nullptr;
  }

  TensorView* reciprocalRootOf(Val* x) {
    if (Val* base = squared(x)) {
      return made(OpType::Reciprocal, {made(OpType::Abs, {base})});
    }
    const ElementwiseOp* reciprocal = definedBy(x, OpType::Reciprocal);
    return reciprocal != nullptr && unsigned_.holds(reciprocal->in(0))
               ? made(OpType::Sqrt, {reciprocal->in(0)})
               : nullptr;
  }

  // 1 / cosh(x)^2, which takes one exponential that tanh(x) has too, where nothing else reads the
  // cosine and what lies between: its square or its reciprocal.
  TensorView* secantOf(const Val* cosine, const Val* between) {
    const ElementwiseOp* cosh = cosine == nullptr ? nullptr : definedBy(cosine, OpType::Cosh);
    if (cosh == nullptr || isComplex(cosine->dtype())) {
      return nullptr;
    }
    // What reads it may be made just now, and have no readers itself.
    const auto is_read_once = [&](const Val* v) {
      return !v->isFusionOutput() && fusion_->liveUses(v).size() <= 1;
    };
    return is_read_once(cosine) && is_read_once(between) ? made(OpType::Sech2, {cosh->in(0)})
                                                         : nullptr;
  }

  TensorView* squareOf(const Val* x) {
    const ElementwiseOp* reciprocal = definedBy(x, OpType::Reciprocal);
    return reciprocal == nullptr ? nullptr : secantOf(reciprocal->in(0), x);
  }

  TensorView* reciprocalOf(Val* x) {
    if (TensorView* secant = secantOf(squared(x), x)) {
      return secant;
    }
    if (const ElementwiseOp* before = definedBy(x, OpType::Sqrt)) {
      return made(OpType::Rsqrt, {before->in(0)});
    }
    if (const ElementwiseOp* before = definedBy(x, OpType::Rsqrt)) {
      return made(OpType::Sqrt, {before->in(0)});
    }
    if (const ElementwiseOp* before = definedBy(x, OpType::Reciprocal)) {
      return before->in(0)->as<TensorView>();
    }
    const ElementwiseOp* div = quotientBefore(x);
    return div == nullptr ? nullptr : made(div->op(), {div->in(1), div->in(0)});
  }

  // The operand behind broadcasts, with the operations that lead back.
  static Val* beforeBroadcasts(Val* v, std::vector<const BroadcastOp*>& path) {
    while (v->isTensor() && v->definition() != nullptr &&
           v->definition()->kind() == ExprKind::BroadcastOp) {
      path.push_back(static_cast<const BroadcastOp*>(v->definition()));
      v = v->definition()->input(0);
    }
    return v;
  }

  static Val* broadcastAgain(Val* v, const std::vector<const BroadcastOp*>& path) {
    for (auto it = path.rbegin(); it != path.rend(); ++it) {
      v = broadcast(v->as<TensorView>(), (*it)->isBroadcastDim());
    }
    return v;
  }

  TensorView* quotientOf(const ElementwiseOp* op) {
    Val* x = op->in(0);
    if (!op->in(1)->isTensor()) {
      const auto divisor = realConstant(op->in(1));
      return divisor.has_value() && hasExactReciprocal(*divisor, out_->dtype())
                 ? made(OpType::Mul, {x, constantOf(1 / *divisor, out_->dtype())})
                 : nullptr;
    }
    if (realConstant(x) == 1.0) {
      return made(OpType::Reciprocal, {op->in(1)});
    }
    std::vector<const BroadcastOp*> path;
    Val* divisor = beforeBroadcasts(op->in(1), path);
    if (const ElementwiseOp* root = definedBy(divisor, OpType::Sqrt)) {
      return made(OpType::Mul, {x, broadcastAgain(made(OpType::Rsqrt, {root->in(0)}), path)});
    }
    if (const ElementwiseOp* root = definedBy(divisor, OpType::Rsqrt)) {
      return made(OpType::Mul, {x, broadcastAgain(made(OpType::Sqrt, {root->in(0)}), path)});
    }
    const ElementwiseOp* reciprocal = definedBy(divisor, OpType::Reciprocal);
    return reciprocal == nullptr ? nullptr
                                 : made(OpType::Mul, {x, broadcastAgain(reciprocal->in(0), path)});
  }

  // A power of two whose reciprocal is a normal number too.
  static bool hasExactReciprocal(double x, DataType dtype) {
    const auto exponent = exponentOf(x);
    const int most = dtype == DataType::Double ? std::numeric_limits<double>::max_exponent
                                               : std::numeric_limits<float>::max_exponent;
    return exponent.has_value() && std::abs(*exponent) < most - 1;
  }

  // Whether a scalar is this number, as the type rounds it at worst.
  bool isNumber(double scalar, double number) const {
    const double epsilon = out_->dtype() == DataType::Double
                               ? std::numeric_limits<double>::epsilon()
                               : std::numeric_limits<float>::epsilon();
    return std::abs(scalar - number) <= number * epsilon / 2;
  }

  // A power of `scale` * x that is another base's of x.
  TensorView* powerOfScaled(const ElementwiseOp* op, OpType other_base, double scale) {
    const ElementwiseOp* product = definedBy(op->in(0), OpType::Mul);
    const auto split = product == nullptr ? std::nullopt : splitConstant(product);
    const bool fits = split.has_value() && isNumber(split->constant, scale) &&
                      split->other->dtype() == out_->dtype();
    return fits ? made(other_base, {split->other}) : nullptr;
  }

  // A logarithm to one base times that base's to the other one.
  TensorView* logarithmOf(const ElementwiseOp* op) {
    const auto split = splitConstant(op);
    if (!split.has_value()) {
      return nullptr;
    }
    if (const ElementwiseOp* log = definedBy(split->other, OpType::Log2)) {
      return isNumber(split->constant, std::numbers::ln2) ? made(OpType::Log, {log->in(0)})
                                                          : nullptr;
    }
    const ElementwiseOp* log = definedBy(split->other, OpType::Log);
    return log != nullptr && isNumber(split->constant, std::numbers::log2e)
               ? made(OpType::Log2, {log->in(0)})
               : nullptr;
  }

  TensorView* exponentialOf(const ElementwiseOp* op, OpType logarithm, OpType other_base,
                            double scale) {
    TensorView* softmax = softmaxOf(op, logarithm);
    return softmax != nullptr ? softmax : powerOfScaled(op, other_base, scale);
  }

  // ---- softmax

  // The tensor minus its maximum along dimensions, which these are: no element is above 0.
  static const ReductionOp* maximumTakenOff(const Val* v) {
    const ElementwiseOp* sub = definedBy(v, OpType::Sub);
    std::vector<const BroadcastOp*> path;
    const Val* taken =
        sub == nullptr ? nullptr : behindWidening(beforeBroadcasts(sub->in(1), path));
    const auto* max = taken == nullptr ? nullptr : tryAs<ReductionOp>(taken->definition());
    return max != nullptr && max->op() == OpType::Maximum &&
                   behindWidening(max->in()) == behindWidening(sub->in(0)) &&
                   isBroadcastOf(path, max)
               ? max
               : nullptr;
  }

  // Before casts to a type that holds each value.
  static const Val* behindWidening(const Val* v) {
    while (v->definition() != nullptr && isWideningCast(v->definition())) {
      v = v->definition()->input(0);
    }
    return v;
  }

  // What is left of the reduced dimensions are the only ones that are broadcast.
  static bool isBroadcastOf(const std::vector<const BroadcastOp*>& path, const ReductionOp* op) {
    return path.size() == 1 && path.front()->isBroadcastDim() == reducedFlags(op->out());
  }

  // e^(a - log(s)) is e^a / s where s is the sum of e^a, and where the largest a of each sum is 0:
  // s is at least 1 then and at most as many as there are terms.
  TensorView* softmaxOf(const ElementwiseOp* op, OpType logarithm) {
    const ElementwiseOp* sub = definedBy(op->in(0), OpType::Sub);
    if (sub == nullptr || !sub->in(0)->isTensor()) {
      return nullptr;
    }
    std::vector<const BroadcastOp*> path;
    const ElementwiseOp* log = definedBy(beforeBroadcasts(sub->in(1), path), logarithm);
    const auto* sum = log == nullptr ? nullptr : tryAs<ReductionOp>(log->in(0)->definition());
    if (sum == nullptr || sum->op() != OpType::Add || sum->out()->dtype() != out_->dtype()) {
      return nullptr;
    }
    const ElementwiseOp* exponential = definedBy(sum->in(), op->op());
    const ReductionOp* max = maximumTakenOff(sub->in(0));
    const bool fits = exponential != nullptr && exponential->in(0) == sub->in(0) &&
                      max != nullptr && reducedFlags(max->out()) == reducedFlags(sum->out());
    return fits && isBroadcastOf(path, sum)
               ? made(OpType::Div, {sum->in(), broadcastAgain(log->in(0), path)})
               : nullptr;
  }

  // ---- pow

  // Of 2, and of what 2 to a power of two is (4, 1/16, but not 8): no product is rounded.
  TensorView* powerOfTwoOf(const ElementwiseOp* op) {
    const auto base = realConstant(op->in(0));
    Val* x = op->in(1);
    if (!base.has_value() || *base <= 0 || *base == 1 || !x->isTensor() ||
        !isFloatingPoint(x->dtype()) || x->dtype() != out_->dtype()) {
      return nullptr;
    }
    const double factor = std::log2(*base);
    if (std::exp2(factor) != *base || !exponentOf(factor).has_value()) {
      return nullptr;
    }
    return made(OpType::Exp2,
                {factor == 1 ? x : made(OpType::Mul, {x, constantOf(factor, x->dtype())})});
  }

  TensorView* powerOf(const ElementwiseOp* op) {
    if (TensorView* power = powerOfTwoOf(op)) {
      return power;
    }
    const auto exponent = realConstant(op->in(1));
    const DataType dtype = op->out()->dtype();
    if (!exponent.has_value() || !op->in(0)->isTensor() || isComplex(dtype)) {
      return nullptr;
    }
    auto* x = op->in(0)->as<TensorView>();
    const double q = *exponent;
    const double whole = std::trunc(q);
    if (q == 0 || q == 1 || q > kLargestExponent || q < kLeastExponent) {
      return nullptr;
    }
    if (!isFloatingPoint(dtype)) {
      return q > 0 ? product(x, static_cast<int>(q)) : nullptr;
    }
    if (q == whole) {
      // The power of the reciprocal, as the power itself may overflow.
      return product(q > 0 ? x : made(OpType::Reciprocal, {x}), static_cast<int>(std::abs(q)));
    }
    if (std::abs(q - whole) != 0.5) {
      return nullptr;
    }
    TensorView* base = unsigned_.holds(x) ? x : withoutNegativeZero(x);
    TensorView* root = made(q > 0 ? OpType::Sqrt : OpType::Rsqrt, {base});
    if (whole == 0) {
      return root;
    }
    TensorView* factor = q > 0 ? base : made(OpType::Reciprocal, {base});
    return made(OpType::Mul, {product(factor, static_cast<int>(std::abs(whole))), root});
  }

  // The powers of -0 and -inf with an exponent that is no integer are those of 0 and inf; their
  // roots are not.
  TensorView* withoutNegativeZero(TensorView* x) {
    const double inf = std::numeric_limits<double>::infinity();
    const DataType dtype = x->dtype();
    Val* is_least =
        make(OpType::Eq, DataType::Bool, std::vector<Val*>{x, constantOf(-inf, dtype)}, x);
    Val* positive = make(OpType::Where, dtype, {is_least, constantOf(inf, dtype), x}, x);
    return make(OpType::Add, dtype, {positive, constantOf(0, dtype)}, x)->as<TensorView>();
  }

  // x to the power n, by squares.
  TensorView* product(TensorView* x, int n) {
    TensorView* result = nullptr;
    for (TensorView* square = x; n != 0; n >>= 1) {
      if ((n & 1) != 0) {
        result = result == nullptr ? square : made(OpType::Mul, {result, square});
      }
      square = n > 1 ? made(OpType::Mul, {square, square}) : square;
    }
    return result;
  }

  Unsigned unsigned_;
};

} // namespace

void simplifyPowers(Fusion* fusion) {
  PowerSimplifier(fusion).run();
}

} // namespace nvfuser
