// SPDX-License-Identifier: BSD-3-Clause
// The one table of elementwise ops. Builder, printer, evaluator hook, Python binding,
// docstring and stub of an op all come from its row.
//
//   F(Enum, python_name, arity, rule, infix, doc)
//
// * python_name also names the device function: nvf::<python_name>(operands).
// * rule: how operand and result dtypes follow (TypeRule below).
// * infix: the C operator to print between (or before) arithmetic operands, or "" for a call.
// * doc: one line for docstrings; `x`, `y`, `z` are the operands.
#pragma once

namespace nvfuser {

enum class TypeRule {
  Same,        // result dtype = operand dtype, no upcast
  Abs,         // as Same, complex gives its real type
  Default,     // class D: promote, 16-bit and smaller floats become Float
  Float,       // class F: class D with integers and bools made Float first
  FullFloat,   // class FO: result must be exactly Float or Double
  Compare,     // class C: operands promoted as D, result Bool
  LogicalBool, // operands cast to Bool, result Bool
  Predicate,   // operand kept, result Bool
  Bitwise,     // integers (promoted) or Bool
  BitwiseInt,  // integers only (promoted)
  RealPart,    // complex to real; real kept
  ImagPart,    // complex to real; anything else is an error
  MakeComplex, // (Float, Float) to ComplexFloat, (Double, Double) to ComplexDouble
  Where,       // (Bool, x, y): x and y promoted without upcast
  LikeFirst,   // result dtype = first operand's; the others are scalars cast to it
  Cast,        // result dtype is given
};

// clang-format off
// Every op that has a builder function of its name and arity; only casts, whose dtype is given, have not.
#define NVF_ELEMENTWISE_FUNCTIONS(F) \
  F(Abs, abs, 1, Abs, "", "Absolute value; modulus of a complex number.") \
  F(Acos, acos, 1, Float, "", "Inverse cosine.") \
  F(Acosh, acosh, 1, Float, "", "Inverse hyperbolic cosine.") \
  F(Asin, asin, 1, Float, "", "Inverse sine.") \
  F(Asinh, asinh, 1, Float, "", "Inverse hyperbolic sine.") \
  F(Atan, atan, 1, Float, "", "Inverse tangent.") \
  F(Atanh, atanh, 1, Float, "", "Inverse hyperbolic tangent.") \
  F(BitwiseNot, bitwise_not, 1, Bitwise, "~", "Bitwise complement; logical not of a bool.") \
  F(Ceil, ceil, 1, Same, "", "Smallest integer not below x.") \
  F(Cos, cos, 1, Float, "", "Cosine.") \
  F(Cosh, cosh, 1, Float, "", "Hyperbolic cosine.") \
  F(Erf, erf, 1, Float, "", "Error function.") \
  F(Erfc, erfc, 1, Float, "", "Complementary error function.") \
  F(Erfcinv, erfcinv, 1, Float, "", "Inverse of erfc: erfinv(1 - x).") \
  F(Erfinv, erfinv, 1, Float, "", "Inverse of erf.") \
  F(Exp, exp, 1, Float, "", "e to the x.") \
  F(Exp2, exp2, 1, Float, "", "2 to the x.") \
  F(Expm1, expm1, 1, Float, "", "e to the x, minus 1, accurate near 0.") \
  F(Floor, floor, 1, Same, "", "Largest integer not above x.") \
  F(Frac, frac, 1, Same, "", "Fractional part, with the sign of x.") \
  F(Imag, imag, 1, ImagPart, "", "Imaginary part of a complex number.") \
  F(IsFinite, isfinite, 1, Predicate, "", "True where x is neither infinite nor NaN.") \
  F(IsInf, isinf, 1, Predicate, "", "True where x is infinite.") \
  F(IsNan, isnan, 1, Predicate, "", "True where x is NaN.") \
  F(IsNegInf, isneginf, 1, Predicate, "", "True where x is -inf.") \
  F(IsPosInf, isposinf, 1, Predicate, "", "True where x is +inf.") \
  F(IsReal, isreal, 1, Predicate, "", "True where the imaginary part is 0.") \
  F(Lgamma, lgamma, 1, Float, "", "Logarithm of the absolute gamma function.") \
  F(Log, log, 1, Float, "", "Natural logarithm.") \
  F(Log10, log10, 1, Float, "", "Logarithm to base 10.") \
  F(Log1p, log1p, 1, Float, "", "log(1 + x), accurate near 0.") \
  F(Log2, log2, 1, Float, "", "Logarithm to base 2.") \
  F(LogicalNot, logical_not, 1, LogicalBool, "!", "True where x is zero.") \
  F(Neg, neg, 1, Default, "-", "Negation.") \
  F(Real, real, 1, RealPart, "", "Real part; a copy for real dtypes.") \
  F(Reciprocal, reciprocal, 1, Float, "", "1 / x.") \
  F(Relu, relu, 1, Same, "", "max(x, 0).") \
  F(Round, round, 1, Same, "", "Nearest integer, ties to even.") \
  F(Rsqrt, rsqrt, 1, Float, "", "1 / sqrt(x).") \
  F(Sigmoid, sigmoid, 1, Float, "", "1 / (1 + exp(-x)).") \
  F(Sign, sign, 1, Same, "", "-1, 0 or 1.") \
  F(Signbit, signbit, 1, Predicate, "", "True where the sign bit is set, -0.0 included.") \
  F(Silu, silu, 1, Same, "", "x * sigmoid(x).") \
  F(Sin, sin, 1, Float, "", "Sine.") \
  F(Sinh, sinh, 1, Float, "", "Hyperbolic sine.") \
  F(Sqrt, sqrt, 1, Float, "", "Square root.") \
  F(Tan, tan, 1, Float, "", "Tangent.") \
  F(Tanh, tanh, 1, Float, "", "Hyperbolic tangent.") \
  F(Trunc, trunc, 1, Same, "", "Rounds toward zero.") \
  F(Add, add, 2, Default, "+", "x + y.") \
  F(Sub, sub, 2, Default, "-", "x - y.") \
  F(Mul, mul, 2, Default, "*", "x * y.") \
  F(Div, div, 2, Default, "/", "x / y; truncating for integers.") \
  F(TrueDiv, truediv, 2, Float, "/", "x / y in floating point.") \
  F(Fmod, fmod, 2, Default, "", "Remainder with the sign of x (C fmod).") \
  F(Mod, mod, 2, Default, "%", "C remainder: x - y * trunc(x / y).") \
  F(Remainder, remainder, 2, Default, "", "Remainder with the sign of y (torch.remainder).") \
  F(Pow, pow, 2, Default, "", "x to the power y.") \
  F(Minimum, minimum, 2, Default, "", "Smaller of x and y; NaN if either is.") \
  F(Maximum, maximum, 2, Default, "", "Larger of x and y; NaN if either is.") \
  F(Atan2, atan2, 2, Float, "", "Angle of the point (y, x).") \
  F(Nextafter, nextafter, 2, FullFloat, "", "Next float after x toward y.") \
  F(Eq, eq, 2, Compare, "==", "x == y.") \
  F(Ne, ne, 2, Compare, "!=", "x != y.") \
  F(Ge, ge, 2, Compare, ">=", "x >= y.") \
  F(Gt, gt, 2, Compare, ">", "x > y.") \
  F(Le, le, 2, Compare, "<=", "x <= y.") \
  F(Lt, lt, 2, Compare, "<", "x < y.") \
  F(LogicalAnd, logical_and, 2, LogicalBool, "&&", "x and y, as bools.") \
  F(LogicalOr, logical_or, 2, LogicalBool, "||", "x or y, as bools.") \
  F(BitwiseAnd, bitwise_and, 2, Bitwise, "&", "Bitwise and.") \
  F(BitwiseOr, bitwise_or, 2, Bitwise, "|", "Bitwise or.") \
  F(BitwiseXor, bitwise_xor, 2, Bitwise, "^", "Bitwise exclusive or.") \
  F(BitwiseLeftShift, bitwise_left_shift, 2, BitwiseInt, "", "x shifted left by y bits.") \
  F(BitwiseRightShift, bitwise_right_shift, 2, BitwiseInt, "", "Arithmetic shift right by y bits.") \
  F(Gcd, gcd, 2, BitwiseInt, "", "Greatest common divisor.") \
  F(Complex, complex, 2, MakeComplex, "", "Complex number from real and imaginary part.") \
  F(CeilDiv, ceilDiv, 2, BitwiseInt, "", "Quotient rounded up.") \
  F(Lerp, lerp, 3, Default, "", "x + z * (y - x).") \
  F(Where, where, 3, Where, "", "y where x is true, z elsewhere.") \
  F(Clamp, clamp, 3, LikeFirst, "", "x limited to [y, z].") \
  F(Threshold, threshold, 3, LikeFirst, "", "z where x <= y, x elsewhere.")

// What only rewrites make: there is no builder function, and no name in Python.
#define NVF_ELEMENTWISE_OPS_OF_REWRITES(F) \
  F(Sech2, sech2, 1, Float, "", "Square of the hyperbolic secant: 1 / cosh(x)^2.")

#define NVF_ELEMENTWISE_OPS(F) \
  NVF_ELEMENTWISE_FUNCTIONS(F) \
  NVF_ELEMENTWISE_OPS_OF_REWRITES(F) \
  F(Cast, cast, 1, Cast, "", "Conversion to another dtype, rounding to nearest even.") \
  F(BitCast, bitcast, 1, Cast, "", "The same bits as another dtype of that size.")
// clang-format on

#define NVF_OP_ENUM(Enum, name, arity, rule, infix, doc) Enum,
enum class OpType { NVF_ELEMENTWISE_OPS(NVF_OP_ENUM) };
#undef NVF_OP_ENUM

// One row of the table.
struct OpInfo {
  OpType op;
  const char* name;
  int arity;
  TypeRule rule;
  const char* infix;
  const char* doc;
};

const OpInfo& opInfo(OpType op);
// Number of rows; rows are indexed by the enum's value.
int numOps();

} // namespace nvfuser
