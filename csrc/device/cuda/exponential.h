// SPDX-License-Identifier: BSD-3-Clause
// Exponentials, logarithms and what is made of them: CUDA's functions, whose float versions are
// within 2 ulp and free of divergent branches. float and double; operands of other types are cast
// before (type rule "F"). host/exponential.h is the other half.
#pragma once

//@ piece nvf::exp
namespace nvf {
NVF_FN float exp(float x) {
  return ::expf(x);
}
NVF_FN double exp(double x) {
  return ::exp(x);
}
} // namespace nvf

//@ piece nvf::exp2
namespace nvf {
NVF_FN float exp2(float x) {
  return ::exp2f(x);
}
NVF_FN double exp2(double x) {
  return ::exp2(x);
}
} // namespace nvf

//@ piece nvf::expm1
namespace nvf {
NVF_FN float expm1(float x) {
  return ::expm1f(x);
}
NVF_FN double expm1(double x) {
  return ::expm1(x);
}
} // namespace nvf

//@ piece nvf::log
namespace nvf {
NVF_FN float log(float x) {
  return ::logf(x);
}
NVF_FN double log(double x) {
  return ::log(x);
}
} // namespace nvf

//@ piece nvf::log2
namespace nvf {
NVF_FN float log2(float x) {
  return ::log2f(x);
}
NVF_FN double log2(double x) {
  return ::log2(x);
}
} // namespace nvf

//@ piece nvf::log10
namespace nvf {
NVF_FN float log10(float x) {
  return ::log10f(x);
}
NVF_FN double log10(double x) {
  return ::log10(x);
}
} // namespace nvf

//@ piece nvf::log1p
namespace nvf {
NVF_FN float log1p(float x) {
  return ::log1pf(x);
}
NVF_FN double log1p(double x) {
  return ::log1p(x);
}
} // namespace nvf

//@ piece nvf::sigmoid
// Of exp(-|x|), so that what is divided by lies between 1 and 2: one instruction within 1 ulp in
// place of a division (3.5 ulp in all).
namespace nvf {
NVF_FN float sigmoid(float x) {
  const float small = ::expf(-::fabsf(x));
  const float large = nvf::fastReciprocal(1.0f + small);
  return x < 0.0f ? small * large : large;
}
NVF_FN double sigmoid(double x) {
  return 1.0 / (1.0 + ::exp(-x));
}
} // namespace nvf

//@ piece nvf::sech2
// 4 s / (1 + s)^2 with s = exp(-|2 x|), so that what is divided by lies between 1 and 2. A sigmoid
// of 2 x computes the same.
namespace nvf {
NVF_FN float sech2(float x) {
  const float small = ::expf(-::fabsf(2.0f * x));
  const float part = nvf::fastReciprocal(1.0f + small);
  return 4.0f * (small * part) * part;
}
NVF_FN double sech2(double x) {
  const double small = ::exp(-2.0 * ::fabs(x));
  return 4.0 * small / ((1.0 + small) * (1.0 + small));
}
} // namespace nvf

//@ piece nvf::silu
// x * sigmoid(x). One division, so that the result is right where sigmoid is subnormal or 0.
namespace nvf {
NVF_FN float silu(float x) {
  return nvf::divideFloats(x, 1.0f + ::expf(-x));
}
NVF_FN double silu(double x) {
  return x / (1.0 + ::exp(-x));
}
} // namespace nvf

//@ piece nvf::powFloat
namespace nvf {
NVF_FN float powFloat(float a, float b) {
  return ::powf(a, b);
}
} // namespace nvf
