// SPDX-License-Identifier: BSD-3-Clause
// What the host's elementary functions are made of. They are written without branches, calls and
// tables, so that compilers vectorize the loops they stand in: integer and float arithmetic,
// selections, roundings and conversions between int and float. Coefficients are minimax fits, made
// by tools/fit_polynomials.py; docs/measurements/host_vector_math.md has the errors over all
// floats.
#pragma once

//@ piece nvf::multiplyAdd
// a b + c, in one instruction and one rounding where the machine has it. No function may rely on
// the single rounding.
namespace nvf {
NVF_FN float multiplyAdd(float a, float b, float c) {
#if defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
NVF_FN double multiplyAdd(double a, double b, double c) {
#if defined(__FP_FAST_FMA) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}
} // namespace nvf

//@ piece nvf::polynomial
// The coefficients from the lowest power on (W. G. Horner's scheme).
namespace nvf {
template <class T>
NVF_FN T polynomial(T, T last) {
  return last;
}
template <class T, class... Rest>
NVF_FN T polynomial(T x, T first, Rest... rest) {
  return nvf::multiplyAdd(nvf::polynomial(x, rest...), x, first);
}
} // namespace nvf

//@ piece nvf::withSign
namespace nvf {
NVF_FN float withSign(float magnitude, float sign) {
  return __builtin_copysignf(magnitude, sign);
}
NVF_FN double withSign(double magnitude, double sign) {
  return __builtin_copysign(magnitude, sign);
}
} // namespace nvf

//@ piece nvf::between
// x, at least low and at most high; NaN stays.
namespace nvf {
template <class T>
NVF_FN T between(T low, T x, T high) {
  const T raised = x < low ? low : x;
  return raised > high ? high : raised;
}
} // namespace nvf

//@ piece nvf::withLimits
// `result` between the bounds, beyond them 0 or infinity; NaN stays. Bounds of a result make fewer
// instructions than bounds of an argument.
namespace nvf {
template <class T>
NVF_FN T withLimits(T x, T zero_below, T result, T infinite_above) {
  const T bounded = x > infinite_above ? nvf::infinity<T>() : result;
  return x < zero_below ? T(0) : bounded;
}
} // namespace nvf

//@ piece nvf::powerOfTwo
// 2^n where it is normal; 0 and infinity one step beyond.
namespace nvf {
template <class T>
NVF_FN T powerOfTwo(int n) {
  if constexpr (sizeof(T) == 4) {
    return nvf::bitsOf<T>((n + 127) << 23);
  } else {
    return nvf::bitsOf<T>(static_cast<long long>(n + 1023) << 52);
  }
}
} // namespace nvf

//@ piece nvf::scaleByPowerOfTwo
// p 2^n for p near 1, rounded once where the result is subnormal: n in two halves. The first is
// added to the exponent of p, the second has a power of two. Of a NaN and the n that was converted
// from it (0 or the least int), the bits that are added are 0.
namespace nvf {
template <class T>
NVF_FN T scaleByPowerOfTwo(T p, int n) {
  const int half = n >> 1;
  if constexpr (sizeof(T) == 4) {
    return nvf::bitsOf<T>(nvf::bitsOf<int>(p) + (half << 23)) * nvf::powerOfTwo<T>(n - half);
  } else {
    return nvf::bitsOf<T>(nvf::bitsOf<long long>(p) + (static_cast<long long>(half) << 52)) *
           nvf::powerOfTwo<T>(n - half);
  }
}
} // namespace nvf
