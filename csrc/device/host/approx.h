// SPDX-License-Identifier: BSD-3-Clause
// Host half of cuda/approx.h: the functions of exponential.h with shorter polynomials and without
// the steps for subnormal results, where that is measurably faster, with the errors that
// cuda/approx.h allows; elsewhere the accurate ones.
#pragma once

//@ piece nvf::approx::exp2
// 2 ulp; subnormal results become 0.
namespace nvf::approx {
NVF_FN float exp2(float x) {
  const float whole = __builtin_floorf(x);
  const float p = nvf::polynomial(x - whole, 1.0f, 0.693147063f, 0.240229309f, 0.0554852821f,
                                  0.00967545062f, 0.00124678586f, 2.16128727e-4f);
  const float result = p * nvf::powerOfTwo<float>(static_cast<int>(whole));
  return nvf::withLimits(x, -126.0f, result, 127.999992f);
}
} // namespace nvf::approx

//@ piece nvf::approx::exp
// About (2 + 1.2 |x|) ulp.
namespace nvf::approx {
NVF_FN float exp(float x) {
  return nvf::approx::exp2(x * 1.44269504f);
}
} // namespace nvf::approx

//@ piece nvf::approx::expm1
// The formula of cuda/approx.h.
namespace nvf::approx {
NVF_FN float expm1(float x) {
  const float series = x * (1.0f + x * (0.5f + x * (0.166666667f + x * 0.0416666667f)));
  return __builtin_fabsf(x) < 0.125f ? series : nvf::approx::exp(x) - 1.0f;
}
} // namespace nvf::approx

//@ piece nvf::approx::log1p
namespace nvf::approx {
NVF_FN float log1p(float x) {
  return nvf::log1p(x);
}
} // namespace nvf::approx

//@ piece nvf::approx::cosh
namespace nvf::approx {
NVF_FN float cosh(float x) {
  const float half = nvf::approx::exp2(__builtin_fabsf(x) * 1.44269504f - 1.0f);
  return half + 0.25f / half;
}
} // namespace nvf::approx

//@ piece nvf::approx::reciprocal
namespace nvf::approx {
NVF_FN float reciprocal(float x) {
  return 1.0f / x;
}
} // namespace nvf::approx

//@ piece nvf::approx::sqrt
namespace nvf::approx {
NVF_FN float sqrt(float x) {
  return ::sqrtf(x);
}
} // namespace nvf::approx

//@ piece nvf::approx::rsqrt
namespace nvf::approx {
NVF_FN float rsqrt(float x) {
  return 1.0f / ::sqrtf(x);
}
} // namespace nvf::approx

//@ piece nvf::approx::sigmoid
// About as exact as exp.
namespace nvf::approx {
NVF_FN float sigmoid(float x) {
  return 1.0f / (1.0f + nvf::approx::exp2(x * -1.44269504f));
}
} // namespace nvf::approx

//@ piece nvf::approx::silu
namespace nvf::approx {
NVF_FN float silu(float x) {
  return x / (1.0f + nvf::approx::exp2(x * -1.44269504f));
}
} // namespace nvf::approx

//@ piece nvf::approx::tanh
// The formula of cuda/approx.h: relative error 2^-15 at worst, absolute error 2e-7.
namespace nvf::approx {
NVF_FN float tanh(float x) {
  const float result = 1.0f - 2.0f / (nvf::approx::exp2(x * 2.88539008f) + 1.0f);
  return __builtin_fabsf(x) < 0.0078125f ? x : result;
}
} // namespace nvf::approx

//@ piece nvf::approx::sech2
// The formula of cuda/approx.h.
namespace nvf::approx {
NVF_FN float sech2(float x) {
  const float exponential = nvf::approx::exp2(2.0f * x * -1.44269504f);
  const float part = 1.0f / (1.0f + exponential);
  return 4.0f * part * (x > 0.0f ? exponential * part : 1.0f - part);
}
} // namespace nvf::approx

//@ piece nvf::approx::tanhFast
namespace nvf::approx {
NVF_FN float tanhFast(float x) {
  return nvf::approx::tanh(x);
}
} // namespace nvf::approx

//@ piece nvf::approx::erf
// 1 + erf(x), as in gelu, has to be right in its tail.
namespace nvf::approx {
NVF_FN float erf(float x) {
  return nvf::erf(x);
}
} // namespace nvf::approx

//@ piece nvf::approx::div
namespace nvf::approx {
NVF_FN float div(float a, float b) {
  return a / b;
}
} // namespace nvf::approx

//@ piece nvf::approx::truediv
namespace nvf::approx {
NVF_FN float truediv(float a, float b) {
  return a / b;
}
} // namespace nvf::approx
