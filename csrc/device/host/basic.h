// Host half of cuda/basic.h: NaN-propagating minimum and maximum, reciprocals.
#pragma once

//@ piece nvf::maximumFloat
namespace nvf {
NVF_FN float maximumFloat(float a, float b) {
  return a > b || a != a ? a : b;
}
}  // namespace nvf

//@ piece nvf::minimumFloat
namespace nvf {
NVF_FN float minimumFloat(float a, float b) {
  return a < b || a != a ? a : b;
}
}  // namespace nvf

//@ piece nvf::fastReciprocal
namespace nvf {
NVF_FN float fastReciprocal(float x) {
  return 1.0f / x;
}
}  // namespace nvf

//@ piece nvf::reciprocalSqrt
namespace nvf {
NVF_FN float reciprocalSqrt(float x) {
  return 1.0f / ::sqrtf(x);
}
NVF_FN double reciprocalSqrt(double x) {
  return 1.0 / ::sqrt(x);
}
}  // namespace nvf
