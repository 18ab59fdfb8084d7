// SPDX-License-Identifier: BSD-3-Clause
// Conversions of the small floating-point formats (IEEE 754 binary16, bfloat16, and the OCP formats
// of "8-bit Floating Point Specification" and "Microscaling Formats").
#include <tensor/small_float.h>

#include <base/error.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace nvfuser {

namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity; // the largest exponent is for infinity and NaN, as in IEEE 754
  bool has_nan;
};

Format formatOf(DataType dtype) {
  switch (dtype) {
    case DataType::Half:
      return {5, 10, true, true};
    case DataType::BFloat16:
      return {8, 7, true, true};
    case DataType::Float8_e5m2:
      return {5, 2, true, true};
    case DataType::Float8_e4m3fn:
      return {4, 3, false, true}; // only all ones is NaN
    case DataType::Float4_e2m1fn:
      return {2, 1, false, false};
    default:
      NVF_THROW("not a small floating-point format: ", dtype);
  }
}

constexpr uint32_t kE8m0Nan = 255;
constexpr int kE8m0Bias = 127;

} // namespace

double decodeSmallFloat(uint32_t bits, DataType dtype) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (dtype == DataType::Float8_e8m0fnu) {
    return bits == kE8m0Nan ? nan : std::ldexp(1.0, int(bits) - kE8m0Bias);
  }
  const Format f = formatOf(dtype);
  const uint32_t mantissa = bits & ((1U << f.mantissa_bits) - 1);
  const uint32_t top = (1U << f.exponent_bits) - 1;
  const uint32_t exponent = (bits >> f.mantissa_bits) & top;
  const bool negative = ((bits >> (f.mantissa_bits + f.exponent_bits)) & 1) != 0;
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  double value = 0;
  if (exponent == top && f.has_infinity) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : nan;
  } else if (exponent == top && f.has_nan && mantissa == (1U << f.mantissa_bits) - 1) {
    value = nan;
  } else if (exponent == 0) {
    value = std::ldexp(double(mantissa), 1 - bias - f.mantissa_bits);
  } else {
    value = std::ldexp(double(mantissa + (1U << f.mantissa_bits)),
                       int(exponent) - bias - f.mantissa_bits);
  }
  return negative ? -value : value;
}

uint32_t encodeSmallFloat(double value, DataType dtype) {
  if (dtype == DataType::Float8_e8m0fnu) {
    if (std::isnan(value)) {
      return kE8m0Nan;
    }
    // Powers of two only, no sign, no zero: the nearest one, ties up.
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(value), &exponent); // in [0.5, 1)
    if (std::isinf(value)) {
      return kE8m0Nan;
    }
    const int rounded = exponent - 1 + (fraction >= 0.75 ? 1 : 0) + kE8m0Bias;
    return value == 0 || rounded < 0 ? 0 : uint32_t(std::min(rounded, int(kE8m0Nan)));
  }
  const Format f = formatOf(dtype);
  const uint32_t sign = std::signbit(value) ? 1U << (f.mantissa_bits + f.exponent_bits) : 0;
  const uint32_t top = (1U << f.exponent_bits) - 1;
  const uint32_t ones = (1U << f.mantissa_bits) - 1;
  const uint32_t infinity = top << f.mantissa_bits;
  // The largest finite pattern, and what overflow becomes.
  const uint32_t largest = f.has_infinity ? infinity - 1 : infinity + ones - (f.has_nan ? 1 : 0);
  const uint32_t overflow = f.has_infinity ? infinity : f.has_nan ? infinity + ones : largest;
  if (std::isnan(value)) {
    const uint32_t quiet = f.has_infinity ? infinity | (1U << (f.mantissa_bits - 1)) : overflow;
    return f.has_nan ? sign | quiet : overflow;
  }
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) {
    return sign | overflow;
  }
  if (magnitude == 0) {
    return sign;
  }
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  exponent = std::max(exponent - 1, 1 - bias); // subnormals share the smallest exponent
  // In units of the last place this is exact, and nearbyint rounds ties to even.
  const double units = std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - exponent));
  // A mantissa that rounds up to the next power of two carries into the exponent by itself.
  const uint64_t hidden = 1ULL << f.mantissa_bits;
  uint64_t bits = 0;
  if (units < double(hidden)) {
    bits = uint64_t(units);
  } else {
    bits = (uint64_t(exponent + bias) << f.mantissa_bits) + (uint64_t(units) - hidden);
  }
  return sign | (bits > largest ? overflow : uint32_t(bits));
}

} // namespace nvfuser
