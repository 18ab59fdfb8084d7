// SPDX-License-Identifier: BSD-3-Clause
// Host half of cuda/basic.h: NaN-propagating minimum and maximum (with | so that there is no
// branch), reciprocal square roots.
#pragma once

//@ piece nvf::maximumFloat
namespace nvf {
NVF_FN float maximumFloat(float a, float b) {
  return (a > b) | (a != a) ? a : b;
}
} // namespace nvf

//@ piece nvf::minimumFloat
namespace nvf {
NVF_FN float minimumFloat(float a, float b) {
  return (a < b) | (a != a) ? a : b;
}
} // namespace nvf

//@ piece nvf::opaque
namespace nvf {
template <class T>
NVF_FN T opaque(T x) {
  return x;
}
} // namespace nvf

//@ piece nvf::multiplyWide
namespace nvf {
NVF_FN unsigned long long multiplyWide(unsigned int a, unsigned int b) {
  return static_cast<unsigned long long>(a) * b;
}
} // namespace nvf

//@ piece nvf::quotient
// C's division where it is defined. Numbers of 32 bits are divided in double, for which there are
// vector instructions: a quotient of them is no closer to the next integer than 2^-32 of itself,
// unless it is one. The range covers divisors whose result is not used.
namespace nvf {
template <class T>
NVF_FN T quotient(T a, T b) {
  if constexpr (sizeof(T) <= 4) {
    return static_cast<T>(static_cast<double>(a) / static_cast<double>(b));
  } else {
    return static_cast<T>(a / b);
  }
}
} // namespace nvf

//@ piece nvf::divideFloats
namespace nvf {
NVF_FN float divideFloats(float a, float b) {
  return a / b;
}
} // namespace nvf

//@ piece nvf::restOfDivision
namespace nvf {
template <class T>
NVF_FN T restOfDivision(T a, T b) {
  if constexpr (sizeof(T) <= 4) {
    return static_cast<T>(a - nvf::quotient(a, b) * b);
  } else {
    return static_cast<T>(a % b);
  }
}
} // namespace nvf

//@ piece nvf::fmodFloat
// A long division in double: a quotient of floats has up to 277 bits, and a step takes 51 of them
// away. What is left after a step is a number of few bits, so that the fused operation is exact.
namespace nvf {
NVF_FN float fmodFloat(float a, float b) {
#if defined(__FP_FAST_FMA) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  const double divisor = __builtin_fabs(static_cast<double>(b)), inverse = 1.0 / divisor;
  double rest = __builtin_fabs(static_cast<double>(a));
#pragma unroll
  for (int i = 0; i < 6; ++i) {
    rest = nvf::multiplyAdd(-__builtin_trunc(rest * inverse), divisor, rest);
  }
  rest = rest < 0.0 ? rest + divisor : rest;
  rest = rest >= divisor ? rest - divisor : rest;
  const float magnitude = static_cast<float>(rest);
  return __builtin_fabsf(b) == nvf::infinity<float>() ? a - (a - a) : nvf::withSign(magnitude, a);
#else
  return ::fmodf(a, b);
#endif
}
} // namespace nvf

//@ piece nvf::fastReciprocal
namespace nvf {
NVF_FN float fastReciprocal(float x) {
  return 1.0f / x;
}
NVF_FN double fastReciprocal(double x) {
  return 1.0 / x;
}
} // namespace nvf

//@ piece nvf::subtractRounded
// Compilers contract a product with what it is subtracted from, through any barrier that a loop can
// be vectorized over, but not with a multiplication. Where there is no fused instruction there is
// nothing to contract.
namespace nvf {
NVF_FN float subtractRounded(float a, float b) {
#if defined(__clang__)
#pragma clang fp contract(off)
  return __arithmetic_fence(a) - __arithmetic_fence(b);
#elif defined(__FP_FAST_FMAF)
  return __builtin_fmaf(a, 1.0f, -b);
#else
  return a - b;
#endif
}
NVF_FN double subtractRounded(double a, double b) {
#if defined(__clang__)
#pragma clang fp contract(off)
  return __arithmetic_fence(a) - __arithmetic_fence(b);
#elif defined(__FP_FAST_FMA)
  return __builtin_fma(a, 1.0, -b);
#else
  return a - b;
#endif
}
} // namespace nvf

//@ piece nvf::reciprocalSqrt
namespace nvf {
NVF_FN float reciprocalSqrt(float x) {
  return 1.0f / ::sqrtf(x);
}
NVF_FN double reciprocalSqrt(double x) {
  return 1.0 / ::sqrt(x);
}
} // namespace nvf
