// SPDX-License-Identifier: BSD-3-Clause
// The elementwise table computed on constant scalars, and conversion of scalars between dtypes.
// Results follow the device library: C semantics for integers, float arithmetic for Float and the
// smaller floats, torch's conventions for NaN.
#include <ir/evaluator.h>

#include <base/error.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace nvfuser {
namespace {

using Operands = std::vector<ScalarValue>;

// ---- Reading a value as a C++ type

bool toBool(const ScalarValue& v) {
  return std::visit(
      [](const auto& x) -> bool {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          NVF_THROW("An unknown scalar has no value");
        } else {
          return x != T(0);
        }
      },
      v);
}

int64_t saturateToInt(double x) {
  if (std::isnan(x)) {
    return 0;
  }
  // 2^63 is the first double that int64_t cannot hold.
  if (x >= 0x1p63) {
    return std::numeric_limits<int64_t>::max();
  }
  if (x < -0x1p63) {
    return std::numeric_limits<int64_t>::min();
  }
  return static_cast<int64_t>(x);
}

int64_t toInt(const ScalarValue& v) {
  return std::visit(
      [](const auto& x) -> int64_t {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          NVF_THROW("An unknown scalar has no value");
        } else if constexpr (std::is_same_v<T, double>) {
          return saturateToInt(x);
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
          return saturateToInt(x.real());
        } else {
          return static_cast<int64_t>(x);
        }
      },
      v);
}

double toDouble(const ScalarValue& v) {
  return std::visit(
      [](const auto& x) -> double {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          NVF_THROW("An unknown scalar has no value");
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
          return x.real();
        } else {
          return static_cast<double>(x);
        }
      },
      v);
}

std::complex<double> toComplex(const ScalarValue& v) {
  if (const auto* c = std::get_if<std::complex<double>>(&v)) {
    return *c;
  }
  return {toDouble(v), 0.0};
}

bool holdsComplex(const ScalarValue& v) {
  return std::holds_alternative<std::complex<double>>(v);
}
bool holdsDouble(const ScalarValue& v) {
  return std::holds_alternative<double>(v);
}

// ---- Rounding to small formats

// A binary format with `mantissa` stored bits whose smallest normal number is 2^min_exponent.
// Rounds to nearest even, with gradual underflow; overflow is the caller's business.
double roundToFormat(double x, int mantissa, int min_exponent) {
  if (x == 0.0 || !std::isfinite(x)) {
    return x;
  }
  int exponent = 0;
  std::frexp(x, &exponent); // |x| in [2^(exponent-1), 2^exponent)
  const int unit = std::max(exponent - 1, min_exponent) - mantissa;
  return std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
}

double roundToHalf(double x) {
  const double r = roundToFormat(static_cast<float>(x), 10, -14);
  return std::abs(r) > 65504.0 ? std::copysign(HUGE_VAL, r) : r;
}

double roundToBFloat16(double x) {
  const double r = roundToFormat(static_cast<float>(x), 7, -126);
  return std::abs(r) > 0x1.FEp127 ? std::copysign(HUGE_VAL, r) : r;
}

// 448 is the largest number; there is no infinity.
double roundToE4m3(double x) {
  const double r = roundToFormat(static_cast<float>(x), 3, -6);
  return std::abs(r) > 448.0 ? std::copysign(std::nan(""), r) : r;
}

double roundToE5m2(double x) {
  const double r = roundToFormat(static_cast<float>(x), 2, -14);
  return std::abs(r) > 57344.0 ? std::copysign(HUGE_VAL, r) : r;
}

// Powers of two, 2^-127 .. 2^127: the biased exponent of the float, rounded to nearest with ties
// away from the denormals' implied zero, as torch does. The sign is dropped.
double roundToE8m0(double x) {
  const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  uint32_t exponent = (bits >> 23) & 0xff;
  if (exponent == 0xff) {
    return std::nan("");
  }
  const bool guard = (bits & 0x400000) != 0;
  const bool rest = (bits & 0x3fffff) != 0;
  if (guard && (rest || exponent > 0)) {
    ++exponent;
  }
  return exponent == 0xff ? std::nan("") : std::ldexp(1.0, static_cast<int>(exponent) - 127);
}

// Saturates at 6.
double roundToE2m1(double x) {
  if (std::isnan(x)) {
    return 6.0;
  }
  const double r = roundToFormat(static_cast<float>(x), 1, 0);
  return std::abs(r) > 6.0 ? std::copysign(6.0, r) : r;
}

double roundToDtype(double x, DataType dtype) {
  switch (dtype) {
    case DataType::Float:
    case DataType::ComplexFloat:
      return static_cast<float>(x);
    case DataType::Half:
      return roundToHalf(x);
    case DataType::BFloat16:
      return roundToBFloat16(x);
    case DataType::Float8_e4m3fn:
      return roundToE4m3(x);
    case DataType::Float8_e5m2:
      return roundToE5m2(x);
    case DataType::Float8_e8m0fnu:
      return roundToE8m0(x);
    case DataType::Float4_e2m1fn:
    case DataType::Float4_e2m1fn_x2:
      return roundToE2m1(x);
    default:
      return x;
  }
}

int64_t wrapToDtype(int64_t x, DataType dtype) {
  switch (dtype) {
    case DataType::Int32:
      return static_cast<int32_t>(x);
    case DataType::Int16:
      return static_cast<int16_t>(x);
    case DataType::Int8:
      return static_cast<int8_t>(x);
    case DataType::UInt32:
      return static_cast<uint32_t>(x);
    case DataType::UInt16:
      return static_cast<uint16_t>(x);
    case DataType::UInt8:
      return static_cast<uint8_t>(x);
    default:
      return x;
  }
}

// Float to a narrow integer saturates at that integer's limits, as the GPU's conversions do.
int64_t saturateToDtype(int64_t x, DataType dtype) {
  auto clampTo = [x]<class T>(T) {
    const auto lo = static_cast<int64_t>(std::numeric_limits<T>::min());
    const auto hi = static_cast<int64_t>(std::numeric_limits<T>::max());
    return std::min(std::max(x, lo), hi);
  };
  return dtype == DataType::Int32 ? clampTo(int32_t{}) : wrapToDtype(x, dtype);
}

// ---- Integers

int64_t wrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrapSub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t wrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t asSigned(uint64_t x) {
  return static_cast<int64_t>(x);
}

// Truncating. b is not zero; the most negative number divided by -1 wraps.
int64_t divide(int64_t a, int64_t b, bool is_unsigned) {
  if (is_unsigned) {
    return asSigned(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
  }
  return b == -1 ? wrapSub(0, a) : a / b;
}
int64_t modulo(int64_t a, int64_t b, bool is_unsigned) {
  return wrapSub(a, wrapMul(divide(a, b, is_unsigned), b));
}

// Negative exponents as torch: only 1 and -1 have integer inverses, everything else gives 0.
int64_t powInt(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) {
      return 1;
    }
    return base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  }
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) {
      result = wrapMul(result, base);
    }
    base = wrapMul(base, base);
  }
  return result;
}

int64_t gcdInt(int64_t a, int64_t b) {
  uint64_t x = a < 0 ? 0 - static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
  uint64_t y = b < 0 ? 0 - static_cast<uint64_t>(b) : static_cast<uint64_t>(b);
  return asSigned(std::gcd(x, y));
}

int bitWidth(DataType dtype) {
  switch (dtype) {
    case DataType::Int32:
    case DataType::UInt32:
      return 32;
    case DataType::Int16:
    case DataType::UInt16:
      return 16;
    case DataType::Int8:
    case DataType::UInt8:
      return 8;
    default:
      return 64;
  }
}

int64_t shiftLeft(int64_t a, int64_t b, DataType dtype) {
  return b < 0 || b >= bitWidth(dtype) ? 0 : asSigned(static_cast<uint64_t>(a) << b);
}
int64_t shiftRight(int64_t a, int64_t b, DataType dtype) {
  const bool out_of_range = b < 0 || b >= bitWidth(dtype);
  if (dtype == DataType::UInt64) {
    return out_of_range ? 0 : asSigned(static_cast<uint64_t>(a) >> b);
  }
  return a >> (out_of_range ? 63 : b);
}

std::optional<int64_t> intOp(OpType op, DataType dtype, const Operands& v) {
  const bool is_unsigned = dtype == DataType::UInt64;
  const int64_t a = toInt(v[0]);
  const int64_t b = v.size() > 1 ? toInt(v[1]) : 0;
  const int64_t c = v.size() > 2 ? toInt(v[2]) : 0;
  const bool a_less_b = is_unsigned ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
  switch (op) {
    case OpType::Abs:
      return a < 0 && !is_unsigned ? wrapSub(0, a) : a;
    case OpType::BitwiseNot:
      return dtype == DataType::Bool ? static_cast<int64_t>(a == 0) : ~a;
    case OpType::Neg:
      return wrapSub(0, a);
    case OpType::Sign:
      return static_cast<int64_t>(a > 0) - static_cast<int64_t>(a < 0);
    case OpType::Relu:
      return std::max<int64_t>(a, 0);
    case OpType::Ceil:
    case OpType::Floor:
    case OpType::Round:
    case OpType::Trunc:
    case OpType::Real:
      return a;
    case OpType::Frac:
      return 0;
    case OpType::Add:
      return wrapAdd(a, b);
    case OpType::Sub:
      return wrapSub(a, b);
    case OpType::Mul:
      return wrapMul(a, b);
    case OpType::Div:
      return b == 0 ? std::nullopt : std::optional(divide(a, b, is_unsigned));
    case OpType::Mod:
    case OpType::Fmod:
      return b == 0 ? std::nullopt : std::optional(modulo(a, b, is_unsigned));
    case OpType::Remainder: {
      if (b == 0) {
        return std::nullopt;
      }
      const int64_t r = modulo(a, b, is_unsigned);
      return !is_unsigned && r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
    }
    case OpType::CeilDiv: {
      if (b == 0) {
        return 0;
      }
      const int64_t q = divide(a, b, is_unsigned);
      const int64_t r = wrapSub(a, wrapMul(q, b));
      return r != 0 && (is_unsigned || (r < 0) == (b < 0)) ? q + 1 : q;
    }
    case OpType::Pow:
      return powInt(a, b);
    case OpType::Minimum:
      return a_less_b ? a : b;
    case OpType::Maximum:
      return a_less_b ? b : a;
    case OpType::BitwiseAnd:
      return a & b;
    case OpType::BitwiseOr:
      return a | b;
    case OpType::BitwiseXor:
      return a ^ b;
    case OpType::BitwiseLeftShift:
      return shiftLeft(a, b, dtype);
    case OpType::BitwiseRightShift:
      return shiftRight(a, b, dtype);
    case OpType::Gcd:
      return gcdInt(a, b);
    case OpType::Lerp:
      return wrapAdd(a, wrapMul(c, wrapSub(b, a)));
    case OpType::Clamp:
      return std::min(std::max(a, b), c);
    case OpType::Threshold:
      return a <= b ? c : a;
    default:
      return std::nullopt;
  }
}

// ---- Real numbers

// Newton's method on erf from Giles' approximation ("Approximating the erfinv function", 2012).
double erfinv(double x) {
  if (std::isnan(x) || std::abs(x) > 1.0) {
    return std::nan("");
  }
  if (std::abs(x) == 1.0) {
    return std::copysign(HUGE_VAL, x);
  }
  double w = -std::log((1.0 - x) * (1.0 + x));
  double y = 0.0;
  if (w < 5.0) {
    w -= 2.5;
    for (double c : {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                     -0.00125372503, -0.00417768164, 0.246640727, 1.50140941}) {
      y = y * w + c;
    }
  } else {
    w = std::sqrt(w) - 3.0;
    for (double c : {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                     -0.0076224613, 0.00943887047, 1.00167406, 2.83297682}) {
      y = y * w + c;
    }
  }
  y *= x;
  constexpr double kHalfSqrtPi = 0.886226925452758014;
  for (int i = 0; i < 3; ++i) {
    // 1 - |x| is taken through erfc where erf has no digits left.
    const double error =
        std::abs(y) < 1.0 ? std::erf(y) - x
                          : ((1.0 - std::abs(x)) - std::erfc(std::abs(y))) * (x < 0 ? -1.0 : 1.0);
    y -= error * kHalfSqrtPi * std::exp(y * y);
  }
  return y;
}

template <class T>
T remainderOf(T a, T b) {
  T r = std::fmod(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

template <class T>
T minimumOf(T a, T b) {
  return std::isnan(a) || a < b ? a : b;
}
template <class T>
T maximumOf(T a, T b) {
  return std::isnan(a) || a > b ? a : b;
}

// ---- Operations of real and complex numbers alike; nullopt for others. Operands that there are
// not are zero.

template <class T>
std::optional<T> numberOp(OpType op, T a, T b, T c) {
  switch (op) {
    case OpType::Acos:
      return std::acos(a);
    case OpType::Acosh:
      return std::acosh(a);
    case OpType::Asin:
      return std::asin(a);
    case OpType::Asinh:
      return std::asinh(a);
    case OpType::Atan:
      return std::atan(a);
    case OpType::Atanh:
      return std::atanh(a);
    case OpType::Cos:
      return std::cos(a);
    case OpType::Cosh:
      return std::cosh(a);
    case OpType::Exp:
      return std::exp(a);
    case OpType::Log:
      return std::log(a);
    case OpType::Log10:
      return std::log10(a);
    case OpType::Neg:
      return -a;
    case OpType::Reciprocal:
      return T(1) / a;
    case OpType::Rsqrt:
      return T(1) / std::sqrt(a);
    case OpType::Sech2:
      return T(1) / (std::cosh(a) * std::cosh(a));
    case OpType::Sigmoid:
      return T(1) / (T(1) + std::exp(-a));
    case OpType::Silu:
      return a / (T(1) + std::exp(-a));
    case OpType::Sin:
      return std::sin(a);
    case OpType::Sinh:
      return std::sinh(a);
    case OpType::Sqrt:
      return std::sqrt(a);
    case OpType::Tan:
      return std::tan(a);
    case OpType::Tanh:
      return std::tanh(a);
    case OpType::Add:
      return a + b;
    case OpType::Sub:
      return a - b;
    case OpType::Mul:
      return a * b;
    case OpType::Div:
    case OpType::TrueDiv:
      return a / b;
    case OpType::Pow:
      return std::pow(a, b);
    case OpType::Lerp:
      return a + c * (b - a);
    default:
      return std::nullopt;
  }
}

template <class T>
std::optional<T> realUnaryOp(OpType op, T x) {
  switch (op) {
    case OpType::Abs:
      return std::abs(x);
    case OpType::Ceil:
      return std::ceil(x);
    case OpType::Erf:
      return std::erf(x);
    case OpType::Erfc:
      return std::erfc(x);
    case OpType::Erfcinv:
      return static_cast<T>(erfinv(1.0 - static_cast<double>(x)));
    case OpType::Erfinv:
      return static_cast<T>(erfinv(x));
    case OpType::Exp2:
      return std::exp2(x);
    case OpType::Expm1:
      return std::expm1(x);
    case OpType::Floor:
      return std::floor(x);
    case OpType::Frac:
      return x - std::trunc(x);
    case OpType::Lgamma:
      return std::lgamma(x);
    case OpType::Log1p:
      return std::log1p(x);
    case OpType::Log2:
      return std::log2(x);
    case OpType::Real:
      return x;
    case OpType::Relu:
      return x <= T(0) ? T(0) : x;
    case OpType::Round:
      return std::nearbyint(x);
    case OpType::Sign:
      return static_cast<T>(static_cast<int>(x > 0) - static_cast<int>(x < 0));
    case OpType::Trunc:
      return std::trunc(x);
    default:
      return std::nullopt;
  }
}

template <class T>
std::optional<T> realOp(OpType op, const Operands& v) {
  const auto operand = [&](size_t i) {
    return i < v.size() ? static_cast<T>(toDouble(v[i])) : T(0);
  };
  const T a = operand(0);
  const T b = operand(1);
  const T c = operand(2);
  if (const std::optional<T> result = numberOp<T>(op, a, b, c)) {
    return result;
  }
  if (v.size() == 1) {
    return realUnaryOp<T>(op, a);
  }
  switch (op) {
    case OpType::Fmod:
      return std::fmod(a, b);
    case OpType::Mod:
      return a - b * std::trunc(a / b);
    case OpType::Remainder:
      return remainderOf(a, b);
    case OpType::Minimum:
      return minimumOf(a, b);
    case OpType::Maximum:
      return maximumOf(a, b);
    case OpType::Atan2:
      return std::atan2(a, b);
    case OpType::Nextafter:
      return std::nextafter(a, b);
    case OpType::Clamp:
      return std::isnan(a) ? a : minimumOf(maximumOf(a, b), c);
    case OpType::Threshold:
      return a <= b ? c : a;
    default:
      return std::nullopt;
  }
}

// ---- Complex numbers

template <class T>
std::optional<std::complex<T>> complexOp(OpType op, const Operands& v) {
  using C = std::complex<T>;
  const auto operand = [&](size_t i) { return i < v.size() ? C(toComplex(v[i])) : C(); };
  const C a = operand(0);
  const C one(1);
  if (const std::optional<C> result = numberOp<C>(op, a, operand(1), operand(2))) {
    return result;
  }
  switch (op) {
    case OpType::Exp2:
      return std::exp(a * std::numbers::ln2_v<T>);
    case OpType::Expm1:
      return std::exp(a) - one;
    case OpType::Log1p:
      return std::log(one + a);
    case OpType::Log2:
      return std::log(a) / std::numbers::ln2_v<T>;
    case OpType::Sign:
      return a == C() ? a : a / std::abs(a);
    case OpType::Complex:
      return C(static_cast<T>(toDouble(v[0])), static_cast<T>(toDouble(v[1])));
    default:
      return std::nullopt;
  }
}

// ---- Ops with a Bool result

template <class T>
bool compareAs(OpType op, T a, T b) {
  switch (op) {
    case OpType::Ge:
      return a >= b;
    case OpType::Gt:
      return a > b;
    case OpType::Le:
      return a <= b;
    default:
      return a < b;
  }
}

std::optional<bool> compare(OpType op, const ScalarValue& a, const ScalarValue& b) {
  if (op == OpType::Eq || op == OpType::Ne) {
    const bool inexact = holdsComplex(a) || holdsComplex(b) || holdsDouble(a) || holdsDouble(b);
    const bool equal = inexact ? toComplex(a) == toComplex(b) : toInt(a) == toInt(b);
    return equal == (op == OpType::Eq);
  }
  if (holdsComplex(a) || holdsComplex(b)) {
    return std::nullopt;
  }
  return holdsDouble(a) || holdsDouble(b) ? compareAs(op, toDouble(a), toDouble(b))
                                          : compareAs(op, toInt(a), toInt(b));
}

std::optional<bool> predicate(OpType op, const ScalarValue& v) {
  const std::complex<double> z = toComplex(v);
  const double x = z.real();
  switch (op) {
    case OpType::IsFinite:
      return std::isfinite(x) && std::isfinite(z.imag());
    case OpType::IsInf:
      return std::isinf(x) || std::isinf(z.imag());
    case OpType::IsNan:
      return std::isnan(x) || std::isnan(z.imag());
    case OpType::IsNegInf:
      return std::isinf(x) && x < 0;
    case OpType::IsPosInf:
      return std::isinf(x) && x > 0;
    case OpType::IsReal:
      return z.imag() == 0.0;
    case OpType::Signbit:
      return std::signbit(x);
    default:
      return std::nullopt;
  }
}

template <class T>
std::optional<ScalarValue> wrap(std::optional<T> v) {
  return v.has_value() ? std::optional<ScalarValue>(ScalarValue(*v)) : std::nullopt;
}

std::optional<ScalarValue> arithmetic(OpType op, DataType dtype, const Operands& v) {
  if (isComplex(dtype)) {
    if (dtype == DataType::ComplexFloat) {
      const auto z = complexOp<float>(op, v);
      return z ? std::optional<ScalarValue>(std::complex<double>(*z)) : std::nullopt;
    }
    return wrap(complexOp<double>(op, v));
  }
  if (isFloatingPoint(dtype)) {
    if (dtype == DataType::Double) {
      return wrap(realOp<double>(op, v));
    }
    const auto x = realOp<float>(op, v);
    return x ? std::optional<ScalarValue>(static_cast<double>(*x)) : std::nullopt;
  }
  return wrap(intOp(op, dtype, v));
}

} // namespace

ScalarValue convertScalar(const ScalarValue& v, DataType dtype) {
  if (isBoolean(dtype)) {
    return toBool(v);
  }
  if (isIntegral(dtype)) {
    const bool from_float = holdsDouble(v) || holdsComplex(v);
    if (from_float && dtype == DataType::UInt64 && toDouble(v) >= 0x1p63) {
      const double x = toDouble(v);
      return asSigned(x >= 0x1p64 ? ~uint64_t{0} : static_cast<uint64_t>(x));
    }
    const int64_t x = toInt(v);
    return from_float ? saturateToDtype(x, dtype) : wrapToDtype(x, dtype);
  }
  if (isFloatingPoint(dtype)) {
    return roundToDtype(toDouble(v), dtype);
  }
  if (isComplex(dtype)) {
    const std::complex<double> z = toComplex(v);
    return std::complex<double>(roundToDtype(z.real(), dtype), roundToDtype(z.imag(), dtype));
  }
  return v;
}

std::optional<ScalarValue> evaluateOp(OpType op, DataType out_dtype, const Operands& v) {
  std::optional<ScalarValue> result;
  switch (opInfo(op).rule) {
    case TypeRule::Compare:
      result = wrap(compare(op, v[0], v[1]));
      break;
    case TypeRule::Predicate:
      result = wrap(predicate(op, v[0]));
      break;
    case TypeRule::LogicalBool: {
      const bool a = toBool(v[0]);
      result = op == OpType::LogicalNot   ? !a
               : op == OpType::LogicalAnd ? a && toBool(v[1])
                                          : a || toBool(v[1]);
      break;
    }
    case TypeRule::Where:
      result = toBool(v[0]) ? v[1] : v[2];
      break;
    case TypeRule::Cast:
      result = op == OpType::Cast ? std::optional(v[0]) : std::nullopt;
      break;
    case TypeRule::RealPart:
      result = holdsComplex(v[0]) ? ScalarValue(toComplex(v[0]).real()) : v[0];
      break;
    case TypeRule::ImagPart:
      result = toComplex(v[0]).imag();
      break;
    case TypeRule::Abs:
      result = holdsComplex(v[0]) ? std::optional<ScalarValue>(std::abs(toComplex(v[0])))
                                  : arithmetic(op, out_dtype, v);
      break;
    default:
      result = arithmetic(op, out_dtype, v);
  }
  return result ? std::optional(convertScalar(*result, out_dtype)) : std::nullopt;
}

} // namespace nvfuser
