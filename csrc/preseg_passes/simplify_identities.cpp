// SPDX-License-Identifier: BSD-3-Clause
// Identities that hold bit by bit, also for -0, infinities and NaN (but for the bits of a NaN).
// Chains of two operations become one or none. A mask with a constant where it is true and another
// one where it is false stays that through arithmetic with constants: 1 - mask, (1 - mask) * -1e4,
// mask == 0.
#include <preseg_passes/canonical_form.h>

#include <base/options.h>
#include <ir/builder.h>
#include <ir/evaluator.h>
#include <ops/elementwise.h>
#include <ops/shape.h>
#include <ops/shape_internal.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>
#include <cmath>

namespace nvfuser {

namespace {

bool isReal(DataType dtype) {
  return isFloatingPoint(dtype) || isIntegral(dtype);
}

// One constant where a mask is true, and one where it is false.
struct Selection {
  Val* mask = nullptr;
  ScalarValue on_true;
  ScalarValue on_false;
};

class Simplifier : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  // Powers of two that are far from what is denormal.
  static constexpr int kLeastScale = 48;

  void rewrite(Expr* e) override {
    unsigned_.visit(e);
    auto* out = e->output(0)->isTensor() ? e->output(0)->as<TensorView>() : nullptr;
    // Operands are seen to be equal if they are one tensor.
    if (out == nullptr || (shares_ && share(e))) {
      return;
    }
    TensorView* by = nullptr;
    switch (e->kind()) {
      case ExprKind::ElementwiseOp:
        by = elementwise(static_cast<ElementwiseOp*>(e));
        break;
      case ExprKind::LoadStoreOp:
        by = copy(static_cast<LoadStoreOp*>(e));
        break;
      case ExprKind::BroadcastOp:
        by = broadcastOf(static_cast<BroadcastOp*>(e));
        break;
      case ExprKind::SqueezeOp:
        by = squeezeOf(static_cast<SqueezeOp*>(e));
        break;
      default:
        break;
    }
    if (by != nullptr) {
      replace(out, by);
    }
  }

  // ---- copies and views

  static TensorView* copy(const LoadStoreOp* e) {
    if (!e->in()->isTensor()) {
      return nullptr;
    }
    auto* in = e->in()->as<TensorView>();
    if (isPlainCopy(e)) {
      return e->out()->isFusionOutput() ? nullptr : in;
    }
    const std::vector<int64_t> outer = permutationOf(e);
    const std::vector<int64_t> inner = permutationOf(in->definition());
    if (outer.empty() || inner.empty()) {
      return nullptr;
    }
    std::vector<int64_t> both;
    for (const int64_t d : outer) {
      both.push_back(inner[static_cast<size_t>(d)]);
    }
    auto* first = in->definition()->input(0)->as<TensorView>();
    return std::is_sorted(both.begin(), both.end()) ? first : ops_utils::permuteTo(first, both);
  }

  static TensorView* broadcastOf(const BroadcastOp* e) {
    const std::vector<bool>& outer = e->isBroadcastDim();
    const Expr* before = e->input(0)->definition();
    if (const auto* inner = tryAs<BroadcastOp>(before)) {
      std::vector<bool> both = outer;
      size_t d = 0;
      for (size_t i = 0; i < outer.size(); ++i) {
        both[i] = outer[i] || inner->isBroadcastDim()[d++];
      }
      return broadcast(inner->input(0)->as<TensorView>(), both);
    }
    const auto* inner = tryAs<SqueezeOp>(before);
    return inner != nullptr && inner->isSqueezeDim() == outer ? inner->input(0)->as<TensorView>()
                                                              : nullptr;
  }

  static TensorView* squeezeOf(const SqueezeOp* e) {
    const auto* inner = tryAs<BroadcastOp>(e->input(0)->definition());
    if (inner == nullptr) {
      return nullptr;
    }
    std::vector<bool> left;
    for (size_t d = 0; d < e->isSqueezeDim().size(); ++d) {
      if (e->isSqueezeDim()[d] && !inner->isBroadcastDim()[d]) {
        return nullptr;
      }
      if (!e->isSqueezeDim()[d]) {
        left.push_back(inner->isBroadcastDim()[d]);
      }
    }
    auto* first = inner->input(0)->as<TensorView>();
    const bool is_all = std::none_of(left.begin(), left.end(), [](bool b) { return b; });
    return is_all ? first : broadcast(first, left);
  }

  // ---- elementwise

  TensorView* elementwise(ElementwiseOp* e) {
    if (TensorView* selected = ofMask(e)) {
      return selected;
    }
    const DataType dtype = e->out()->dtype();
    switch (e->op()) {
      case OpType::Cast:
        return castOf(e);
      case OpType::Where:
        return whereOf(e);
      case OpType::LogicalNot:
        return inputOf(e, OpType::LogicalNot);
      case OpType::Eq:
      case OpType::Ne:
        return oppositeOf(e);
      case OpType::LogicalAnd:
      case OpType::LogicalOr:
      case OpType::Minimum:
      case OpType::Maximum:
        return e->in(0) == e->in(1) ? tensor(e->in(0)) : nullptr;
      case OpType::Neg:
        return inputOf(e, OpType::Neg);
      case OpType::Abs: {
        Val* before = under(OpType::Abs, under(OpType::Neg, e->in(0)));
        return before == e->in(0) || isComplex(before->dtype()) ? nullptr
                                                                : made(e, OpType::Abs, {before});
      }
      case OpType::Add:
      case OpType::Sub:
        return isReal(dtype) ? sumOf(e) : nullptr;
      case OpType::Mul:
        return isReal(dtype) ? productOf(e) : nullptr;
      case OpType::Div:
      case OpType::TrueDiv:
        return isFloatingPoint(dtype) ? quotientOf(e) : nullptr;
      case OpType::Pow:
        return isReal(dtype) && realConstant(e->in(1)) == 1.0 ? tensor(e->in(0)) : nullptr;
      default:
        return nullptr;
    }
  }

  // Of a comparison where the other one of == and != is there too: every kernel can compute the one
  // that is no output.
  TensorView* oppositeOf(const ElementwiseOp* e) {
    if (!e->in(0)->isTensor()) {
      return nullptr;
    }
    const bool is_equal = e->op() == OpType::Eq;
    for (const Expr* use : e->in(0)->uses()) {
      const auto* other = tryAs<ElementwiseOp>(use);
      if (other == nullptr || other->op() != (is_equal ? OpType::Ne : OpType::Eq) ||
          other->in(0) != e->in(0) || !other->in(1)->sameAs(e->in(1))) {
        continue;
      }
      const bool is_output = e->out()->isFusionOutput();
      const bool goes = is_output == other->out()->isFusionOutput() ? !is_equal : is_output;
      return goes ? made(e, OpType::LogicalNot, {other->output(0)}) : nullptr;
    }
    return nullptr;
  }

  static TensorView* tensor(Val* v) {
    return v->isTensor() ? v->as<TensorView>() : nullptr;
  }

  TensorView* made(const ElementwiseOp* e, OpType op, const std::vector<Val*>& operands) {
    return make(op, e->out()->dtype(), operands, e->out()->as<TensorView>())->as<TensorView>();
  }

  // What the operand was made of by an operation of this kind, else the operand.
  static Val* under(OpType op, Val* v) {
    const ElementwiseOp* before = definedBy(v, op);
    return before == nullptr ? v : before->in(0);
  }

  // Of an operation that undoes itself.
  static TensorView* inputOf(const ElementwiseOp* e, OpType op) {
    const ElementwiseOp* before = definedBy(e->in(0), op);
    const bool keeps_type = before != nullptr && before->in(0)->dtype() == e->out()->dtype();
    return keeps_type ? tensor(before->in(0)) : nullptr;
  }

  TensorView* castOf(const ElementwiseOp* e) {
    const ElementwiseOp* before = definedBy(e->in(0), OpType::Cast);
    if (before == nullptr || !holdsAll(before->in(0)->dtype(), before->out()->dtype())) {
      return nullptr;
    }
    Val* first = before->in(0);
    if (first->dtype() == e->out()->dtype()) {
      return tensor(first);
    }
    return holdsAll(first->dtype(), e->out()->dtype()) ? made(e, OpType::Cast, {first}) : nullptr;
  }

  TensorView* whereOf(const ElementwiseOp* e) {
    if (e->in(1) == e->in(2)) {
      return tensor(e->in(1));
    }
    const ElementwiseOp* inverted = definedBy(e->in(0), OpType::LogicalNot);
    return inverted != nullptr && isBoolean(inverted->in(0)->dtype())
               ? made(e, OpType::Where, {inverted->in(0), e->in(2), e->in(1)})
               : nullptr;
  }

  TensorView* sumOf(const ElementwiseOp* e) {
    const bool is_sum = e->op() == OpType::Add;
    const bool is_float = isFloatingPoint(e->out()->dtype());
    Val* x = e->in(0);
    Val* y = e->in(1);
    if (const auto constant = splitConstant(e)) {
      const bool is_second = constant->other == x;
      // x - 0 and x + -0 are x, x + 0 makes 0 of -0, and 0 - x is not -x either.
      const bool keeps_zeros = !is_float || std::signbit(constant->constant) == is_sum ||
                               (is_sum && unsigned_.holds(constant->other));
      const bool is_same = constant->constant == 0 && keeps_zeros && (is_sum || is_second);
      return is_same ? tensor(constant->other) : nullptr;
    }
    const OpType opposite = is_sum ? OpType::Sub : OpType::Add;
    if (Val* negated = under(OpType::Neg, y); negated != y) {
      return made(e, opposite, {x, negated});
    }
    if (Val* negated = under(OpType::Neg, x); negated != x && is_sum) {
      return made(e, OpType::Sub, {y, negated});
    }
    return is_sum && x == y && is_float ? made(e, OpType::Mul, {x, constantOf(2, x->dtype())})
                                        : nullptr;
  }

  TensorView* productOf(const ElementwiseOp* e) {
    if (const auto constant = splitConstant(e)) {
      TensorView* by = scaled(e, *constant);
      return by == nullptr ? scaledSum(e, *constant) : by;
    }
    Val* x = under(OpType::Neg, e->in(0));
    Val* y = under(OpType::Neg, e->in(1));
    if (x != e->in(0) && y != e->in(1)) {
      return made(e, OpType::Mul, {x, y});
    }
    if (e->in(0) == e->in(1)) {
      Val* whole = under(OpType::Abs, e->in(0));
      return whole != e->in(0) && isReal(whole->dtype()) ? made(e, OpType::Mul, {whole, whole})
                                                         : nullptr;
    }
    return nullptr;
  }

  TensorView* quotientOf(const ElementwiseOp* e) {
    const auto constant = splitConstant(e);
    return constant.has_value() && constant->other == e->in(0) ? scaled(e, *constant) : nullptr;
  }

  // A power of two below 1 times x + constant: the product with x is rounded nowhere and added in
  // one operation. (One above 1 may overflow.)
  TensorView* scaledSum(const ElementwiseOp* e, const WithConstant& factor) {
    const auto* sum = tryAs<ElementwiseOp>(factor.other->definition());
    const DataType dtype = e->out()->dtype();
    if (sum == nullptr || (sum->op() != OpType::Add && sum->op() != OpType::Sub) ||
        (dtype != DataType::Float && dtype != DataType::Double)) {
      return nullptr;
    }
    const auto split = splitConstant(sum);
    const auto exponent = factor.constant > 0 ? exponentOf(factor.constant) : std::nullopt;
    const bool fits = split.has_value() && split->other->dtype() == dtype && exponent.has_value() &&
                      *exponent < 0 && *exponent >= -kLeastScale &&
                      std::abs(split->constant) > std::ldexp(1, -kLeastScale);
    if (!fits) {
      return nullptr;
    }
    Val* scale = constantOf(factor.constant, dtype);
    Val* constant = constantOf(factor.constant * split->constant, dtype);
    Val* product = made(e, OpType::Mul, {split->other, scale});
    return split->other == sum->in(0) ? made(e, sum->op(), {product, constant})
                                      : made(e, sum->op(), {constant, product});
  }

  // By 1 or -1.
  TensorView* scaled(const ElementwiseOp* e, const WithConstant& split) {
    if (split.constant == 1) {
      return tensor(split.other);
    }
    return split.constant == -1 ? made(e, OpType::Neg, {split.other}) : nullptr;
  }

  // ---- masks

  // Nullopt where there is no mask. `or_itself`: a bool is true where it is true.
  static std::optional<Selection> selectionOf(Val* v, bool or_itself) {
    if (!v->isTensor()) {
      return std::nullopt;
    }
    const auto number = [&](int64_t x) { return convertScalar(ScalarValue(x), v->dtype()); };
    if (const ElementwiseOp* cast = definedBy(v, OpType::Cast);
        cast != nullptr && isBoolean(cast->in(0)->dtype()) && isReal(v->dtype())) {
      return Selection{cast->in(0), number(1), number(0)};
    }
    if (const ElementwiseOp* where = definedBy(v, OpType::Where);
        where != nullptr && where->in(1)->isConst() && where->in(2)->isConst() &&
        where->in(0)->isTensor()) {
      return Selection{where->in(0), where->in(1)->value(), where->in(2)->value()};
    }
    return or_itself && isBoolean(v->dtype()) ? std::optional(Selection{v, true, false})
                                              : std::nullopt;
  }

  // Computed alike by whatever computes it.
  static bool isExact(OpType op) {
    switch (op) {
      case OpType::Neg:
      case OpType::Abs:
      case OpType::Add:
      case OpType::Sub:
      case OpType::Mul:
      case OpType::Cast:
      case OpType::LogicalNot:
      case OpType::LogicalAnd:
      case OpType::LogicalOr:
      case OpType::Eq:
      case OpType::Ne:
      case OpType::Ge:
      case OpType::Gt:
      case OpType::Le:
      case OpType::Lt:
        return true;
      default:
        return false;
    }
  }

  // An operation on a selection and constants is a selection.
  TensorView* ofMask(const ElementwiseOp* e) {
    const DataType dtype = e->out()->dtype();
    if (!isExact(e->op()) || (!isReal(dtype) && !isBoolean(dtype))) {
      return nullptr;
    }
    const bool is_bool = isBoolean(dtype) && e->inputs().size() == 2;
    const auto& operands = e->inputs();
    const auto first = std::find_if(operands.begin(), operands.end(),
                                    [](const Val* in) { return in->isTensor(); });
    std::optional<Selection> of;
    std::vector<ScalarValue> on_true;
    std::vector<ScalarValue> on_false;
    for (Val* in : operands) {
      if (in->isConst()) {
        on_true.push_back(convertScalar(in->value(), (*first)->dtype()));
        on_false.push_back(on_true.back());
      } else if (auto selection = selectionOf(in, is_bool); selection.has_value() && !of) {
        of = selection;
        on_true.push_back(selection->on_true);
        on_false.push_back(selection->on_false);
      } else {
        return nullptr;
      }
    }
    if (!of.has_value()) {
      return nullptr;
    }
    const auto yes = evaluateOp(e->op(), dtype, on_true);
    const auto no = evaluateOp(e->op(), dtype, on_false);
    return yes.has_value() && no.has_value() ? selected(e, of->mask, *yes, *no) : nullptr;
  }

  TensorView* selected(const ElementwiseOp* e, Val* mask, const ScalarValue& yes,
                       const ScalarValue& no) {
    const DataType dtype = e->out()->dtype();
    const auto isNumber = [&](const ScalarValue& v, int64_t number) {
      return v == convertScalar(ScalarValue(number), dtype);
    };
    const auto* zero = std::get_if<double>(&no);
    const bool is_cast = isNumber(yes, 1) && isNumber(no, 0) && (!zero || !std::signbit(*zero));
    if (is_cast && isBoolean(dtype)) {
      return tensor(mask);
    }
    if (is_cast) {
      // Already, if this is the cast.
      return e->op() == OpType::Cast && e->in(0) == mask ? nullptr : made(e, OpType::Cast, {mask});
    }
    if (isBoolean(dtype)) {
      const bool is_inverse = isNumber(yes, 0) && isNumber(no, 1);
      return is_inverse && e->op() != OpType::LogicalNot ? made(e, OpType::LogicalNot, {mask})
                                                         : nullptr;
    }
    return made(e, OpType::Where,
                {mask, IrBuilder::create<Val>(yes, dtype), IrBuilder::create<Val>(no, dtype)});
  }

  const bool shares_ = !isOptionDisabled(DisableOption::ShareCommonExpressions);
  Unsigned unsigned_;
};

} // namespace

void simplifyIdentities(Fusion* fusion) {
  Simplifier(fusion).run();
}

} // namespace nvfuser
