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
