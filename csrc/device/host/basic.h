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

//@ piece nvf::multiplyWide
namespace nvf {
NVF_FN unsigned long long multiplyWide(unsigned int a, unsigned int b) {
  return static_cast<unsigned long long>(a) * b;
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

//@ piece nvf::sinPi nvf::cosPi
// sin and cos of pi * turns, for small arguments.
namespace nvf {
NVF_FN float sinPi(float turns) {
  return ::sinf(3.14159265358979323846f * turns);
}
NVF_FN double sinPi(double turns) {
  return ::sin(3.14159265358979323846 * turns);
}
NVF_FN float cosPi(float turns) {
  return ::cosf(3.14159265358979323846f * turns);
}
NVF_FN double cosPi(double turns) {
  return ::cos(3.14159265358979323846 * turns);
}
} // namespace nvf
