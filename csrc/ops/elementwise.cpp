// SPDX-License-Identifier: BSD-3-Clause
// See elementwise.h.
#include <ops/elementwise.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/evaluator.h>
#include <ops/type_promotion.h>
#include <ops/utils.h>

#include <algorithm>
#include <limits>

namespace nvfuser {

using namespace ops_utils;

namespace {

bool anyTensor(const std::vector<Val*>& operands) {
  return std::any_of(operands.begin(), operands.end(), [](const Val* v) { return v->isTensor(); });
}

// Ops that have no meaning for complex numbers.
bool rejectsComplex(OpType op) {
  switch (op) {
    case OpType::Ceil:
    case OpType::Floor:
    case OpType::Round:
    case OpType::Trunc:
    case OpType::Frac:
    case OpType::Relu:
    case OpType::Sign:
    case OpType::Signbit:
    case OpType::Erf:
    case OpType::Erfc:
    case OpType::Erfinv:
    case OpType::Erfcinv:
    case OpType::Lgamma:
    case OpType::IsNegInf:
    case OpType::IsPosInf:
    case OpType::Fmod:
    case OpType::Mod:
    case OpType::Remainder:
    case OpType::Minimum:
    case OpType::Maximum:
    case OpType::Atan2:
    case OpType::Ge:
    case OpType::Gt:
    case OpType::Le:
    case OpType::Lt:
    case OpType::Clamp:
    case OpType::Threshold:
      return true;
    default:
      return false;
  }
}

// Bools have logical ops where integers have bitwise ones.
OpType opOnBools(OpType op) {
  switch (op) {
    case OpType::BitwiseNot:
      return OpType::LogicalNot;
    case OpType::BitwiseAnd:
      return OpType::LogicalAnd;
    case OpType::BitwiseOr:
      return OpType::LogicalOr;
    case OpType::BitwiseXor:
      return OpType::Ne;
    default:
      return op;
  }
}

// Rounding an integer gives itself.
bool isIdentityOnIntegers(OpType op) {
  return op == OpType::Ceil || op == OpType::Floor || op == OpType::Round || op == OpType::Trunc;
}

// Ops that keep 16-bit floats, but have no form for smaller ones (and sign, which is computed in
// Float): they are computed in Float and cast back.
bool computesInFloat(OpType op, TypeRule rule, DataType dtype) {
  const bool keeps = rule == TypeRule::Same || rule == TypeRule::Abs ||
                     rule == TypeRule::Predicate || rule == TypeRule::LikeFirst;
  return keeps &&
         (isFloat8(dtype) || isFloat4(dtype) || (op == OpType::Sign && isLowPrecision(dtype)));
}

// Bounds that clamp nothing for those that are absent.
void fillBounds(std::vector<Val*>& operands) {
  for (size_t i = 1; i < operands.size(); ++i) {
    if (operands[i] == nullptr && operands[0] != nullptr) {
      const DataType dtype = operands[0]->dtype();
      operands[i] = IrBuilder::create<Val>(boundOf(dtype, i == 2),
                                           isFloatingPoint(dtype) ? DataType::Double : dtype);
    }
  }
}

// Tensors get exactly the dtype. Scalars of the same category are left as they are, for the
// generated code to convert, but where the code has no mixed form: that of integer scalars has one.
Val* convertOperand(TypeRule rule, Val* v, DataType dtype, bool all_scalars = false) {
  if (v->isTensor()) {
    return v->dtype() == dtype ? v : castOp(dtype, v);
  }
  const bool exact = isLowPrecision(dtype) || rule == TypeRule::LikeFirst ||
                     (rule == TypeRule::Where && !(all_scalars && isIntegral(dtype)));
  return castScalar(v, dtype, exact);
}

} // namespace

Val* elementwiseAsIs(OpType op, DataType result, const std::vector<Val*>& operands) {
  const char* name = opInfo(op).name;
  if (anyTensor(operands)) {
    auto* out = makeTensor(elementwiseDomain(name, operands), result);
    IrBuilder::create<ElementwiseOp>(op, out, operands);
    return out;
  }
  const bool foldable =
      (isIntegral(result) || isBoolean(result)) &&
      std::all_of(operands.begin(), operands.end(), [](const Val* v) { return v->isConst(); });
  if (foldable) {
    std::vector<ScalarValue> values;
    for (const Val* v : operands) {
      values.push_back(v->value());
    }
    if (const auto folded = evaluateOp(op, result, values)) {
      return IrBuilder::create<Val>(*folded, result);
    }
  }
  Val* out = IrBuilder::create<Val>(result);
  IrBuilder::create<ElementwiseOp>(op, out, operands);
  return out;
}

Val* elementwise(OpType op, std::vector<Val*> operands) {
  const OpInfo& info = opInfo(op);
  NVF_CHECK(op != OpType::Cast, "cast: the dtype to convert to is missing.");
  NVF_CHECK(static_cast<int>(operands.size()) == info.arity, info.name, ": takes ", info.arity,
            " operands, but got ", operands.size(), ".");
  if (op == OpType::Clamp) {
    fillBounds(operands);
  }
  checkOperands(info.name, operands);
  const DataType first = operands[0]->dtype();
  if (rejectsComplex(op)) {
    for (const Val* v : operands) {
      NVF_CHECK(!isComplex(v->dtype()), info.name, ": complex operands are not supported.");
    }
  }
  if (info.rule == TypeRule::LikeFirst) {
    NVF_CHECK(!operands[1]->isTensor() && !operands[2]->isTensor(), info.name,
              ": the second and third operand must be scalars.");
  }
  if (info.rule == TypeRule::RealPart && !isComplex(first)) {
    return set(operands[0]);
  }
  if (isIdentityOnIntegers(op) && (isIntegral(first) || isBoolean(first))) {
    return set(operands[0]);
  }
  if (computesInFloat(op, info.rule, first)) {
    std::vector<Val*> wide = operands;
    wide[0] = castOp(DataType::Float, operands[0]);
    Val* result = elementwise(op, wide);
    return info.rule == TypeRule::Predicate ? result : castOp(first, result);
  }
  const PromotedTypes types = promoteOperands(info.rule, info.name, operands);
  if (isBoolean(types.result) && info.rule == TypeRule::Bitwise) {
    op = opOnBools(op);
  }
  const bool all_scalars = !anyTensor(operands);
  for (size_t i = 0; i < operands.size(); ++i) {
    operands[i] = convertOperand(info.rule, operands[i], types.operands[i], all_scalars);
  }
  return elementwiseAsIs(op, types.result, broadcastToEqualRank(std::move(operands)));
}

Val* castOp(DataType dtype, Val* x) {
  checkOperand("cast", x);
  NVF_CHECK(isLegalCast(x->dtype(), dtype), "cast: Illegal cast from ", x->dtype(), " to ", dtype,
            ".");
  if (x->dtype() == dtype) {
    return set(x);
  }
  if (!x->isTensor() && x->isConst()) {
    return IrBuilder::create<Val>(convertScalar(x->value(), dtype), dtype);
  }
  return elementwiseAsIs(OpType::Cast, dtype, {x});
}

TensorView* castOp(DataType dtype, TensorView* x) {
  return castOp(dtype, static_cast<Val*>(x))->as<TensorView>();
}

namespace {

Val* copyAs(LoadStoreOpType type, const char* name, Val* x) {
  checkOperand(name, x);
  if (!x->isTensor()) {
    if (x->isConst()) {
      return x;
    }
    Val* out = IrBuilder::create<Val>(x->dtype());
    IrBuilder::create<LoadStoreOp>(type, out, x);
    return out;
  }
  auto* tv = x->as<TensorView>();
  auto* out = makeTensor(copyDimensions(logicalIds(tv)), tv->dtype());
  IrBuilder::create<LoadStoreOp>(type, out, tv);
  return out;
}

} // namespace

Val* set(Val* x) {
  return copyAs(LoadStoreOpType::Set, "set", x);
}
TensorView* set(TensorView* x) {
  return set(static_cast<Val*>(x))->as<TensorView>();
}
Val* segment_set(Val* x) {
  return copyAs(LoadStoreOpType::SegmenterSet, "segment_set", x);
}
TensorView* segment_set(TensorView* x) {
  return segment_set(static_cast<Val*>(x))->as<TensorView>();
}

Val* logical_right_shift(Val* x, Val* y) {
  constexpr const char* kName = "logical_right_shift";
  checkOperands(kName, {x, y});
  const DataType dtype = promoteOperands(TypeRule::BitwiseInt, kName, {x, y}).result;
  x = x->dtype() == dtype ? x : castOp(dtype, x);
  y = y->dtype() == dtype ? y : castOp(dtype, y);
  const auto constant = [&](int64_t value) { return IrBuilder::create<Val>(value, dtype); };
  const bool is_wide = dtype != DataType::Int32 && dtype != DataType::UInt32;
  const int64_t width = is_wide ? 64 : 32;
  // An arithmetic shift by one and a mask clear the sign bit; what is left of the shift fills with
  // zeros.
  Val* without_sign =
      elementwise(OpType::BitwiseAnd, {elementwise(OpType::BitwiseRightShift, {x, constant(1)}),
                                       constant(is_wide ? std::numeric_limits<int64_t>::max()
                                                        : std::numeric_limits<int32_t>::max())});
  Val* rest = elementwise(
      OpType::Minimum,
      {elementwise(OpType::Maximum, {elementwise(OpType::Sub, {y, constant(1)}), constant(0)}),
       constant(width - 1)});
  Val* shifted = elementwise(OpType::BitwiseRightShift, {without_sign, rest});
  Val* in_range =
      elementwise(OpType::Where, {elementwise(OpType::Eq, {y, constant(0)}), x, shifted});
  return elementwise(OpType::Where,
                     {elementwise(OpType::Ge, {y, constant(width)}), constant(0), in_range});
}

Val* addcmul(Val* a, Val* b, Val* c, Val* alpha) {
  checkOperands("addcmul", {a, b, c, alpha});
  NVF_CHECK(!alpha->isTensor(), "addcmul: alpha must be a scalar.");
  const DataType dtype = promoteOperands(TypeRule::Default, "addcmul", {a, b, c}).result;
  const auto convert = [&](Val* v) { return convertOperand(TypeRule::Default, v, dtype); };
  Val* product = elementwise(OpType::Mul, {convert(b), convert(c)});
  product = elementwise(OpType::Mul, {product, castScalar(alpha, dtype)});
  return elementwise(OpType::Add, {convert(a), product});
}

TensorView* addcmul(TensorView* a, TensorView* b, TensorView* c, Val* alpha) {
  return addcmul(static_cast<Val*>(a), b, c, alpha)->as<TensorView>();
}

// ---- One overload set per row. `TV` marks the parameters that are tensors.

#define NVF_BINARY_TV(name, X, Y, call) \
  TensorView* name(X* x, Y* y) {        \
    return call->as<TensorView>();      \
  }
#define NVF_TERNARY_TV(name, X, Y, Z, call) \
  TensorView* name(X* x, Y* y, Z* z) {      \
    return call->as<TensorView>();          \
  }
#define NVF_DEFINE_1(name, call)    \
  Val* name(Val* x) {               \
    return call;                    \
  }                                 \
  TensorView* name(TensorView* x) { \
    return call->as<TensorView>();  \
  }
#define NVF_DEFINE_2(name, call)             \
  Val* name(Val* x, Val* y) {                \
    return call;                             \
  }                                          \
  NVF_BINARY_TV(name, TensorView, Val, call) \
  NVF_BINARY_TV(name, Val, TensorView, call) \
  NVF_BINARY_TV(name, TensorView, TensorView, call)
#define NVF_DEFINE_3(name, call)                          \
  Val* name(Val* x, Val* y, Val* z) {                     \
    return call;                                          \
  }                                                       \
  NVF_TERNARY_TV(name, TensorView, Val, Val, call)        \
  NVF_TERNARY_TV(name, Val, TensorView, Val, call)        \
  NVF_TERNARY_TV(name, Val, Val, TensorView, call)        \
  NVF_TERNARY_TV(name, TensorView, TensorView, Val, call) \
  NVF_TERNARY_TV(name, TensorView, Val, TensorView, call) \
  NVF_TERNARY_TV(name, Val, TensorView, TensorView, call) \
  NVF_TERNARY_TV(name, TensorView, TensorView, TensorView, call)
#define NVF_CALL_1(Enum) elementwise(OpType::Enum, {x})
#define NVF_CALL_2(Enum) elementwise(OpType::Enum, {x, y})
#define NVF_CALL_3(Enum) elementwise(OpType::Enum, {x, y, z})
#define NVF_DEFINE(Enum, name, arity, rule, infix, doc) \
  NVF_DEFINE_##arity(name, NVF_CALL_##arity(Enum))
NVF_ELEMENTWISE_FUNCTIONS(NVF_DEFINE)

TensorView* logical_right_shift(TensorView* x, Val* y) {
  return logical_right_shift(static_cast<Val*>(x), y)->as<TensorView>();
}
TensorView* logical_right_shift(Val* x, TensorView* y) {
  return logical_right_shift(x, static_cast<Val*>(y))->as<TensorView>();
}
TensorView* logical_right_shift(TensorView* x, TensorView* y) {
  return logical_right_shift(static_cast<Val*>(x), static_cast<Val*>(y))->as<TensorView>();
}

} // namespace nvfuser
