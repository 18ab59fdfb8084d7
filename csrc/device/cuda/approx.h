// SPDX-License-Identifier: BSD-3-Clause
// Approximate functions for results that are rounded to 16 bits: a few instructions on the special
// function unit each (PTX ISA "ex2.approx", "rcp.approx", "tanh.approx"). Errors are relative to
// the result unless said otherwise. bf16 keeps 8 bits and fp16 11.
#pragma once

//@ piece nvf::approx::exp2
// 2 ulp; subnormal results become 0.
namespace nvf::approx {
NVF_FN float exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
} // namespace nvf::approx

//@ piece nvf::approx::exp
// About (2 + 1.2 |x|) ulp: 2^-16 at worst.
namespace nvf::approx {
NVF_FN float exp(float x) {
  return nvf::approx::exp2(x * 1.4426950408889634f);
}
} // namespace nvf::approx

//@ piece nvf::approx::expm1
// Near 0 four terms of the series, which is right to 2^-19; elsewhere as exact as exp, of which the
// difference leaves an eighth: 2^-16 at worst. Ten instructions: CUDA's expm1f takes twenty-five.
namespace nvf::approx {
NVF_FN float expm1(float x) {
  const float series = x * (1.0f + x * (0.5f + x * (0.166666667f + x * 0.0416666667f)));
  return ::fabsf(x) < 0.125f ? series : nvf::approx::exp(x) - 1.0f;
}
} // namespace nvf::approx

//@ piece nvf::approx::log1p
// Likewise, five terms of the series or lg2.approx, which is right to 2^-22 near 1.
namespace nvf::approx {
NVF_FN float log1p(float x) {
  const float series = x * (1.0f + x * (-0.5f + x * (0.333333333f + x * (-0.25f + x * 0.2f))));
  float logarithm;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(logarithm) : "f"(1.0f + x));
  return ::fabsf(x) < 0.0625f ? series : logarithm * 0.693147181f;
}
} // namespace nvf::approx

//@ piece nvf::approx::cosh
// The mean of e^|x| and its reciprocal: as exact as exp.
namespace nvf::approx {
NVF_FN float cosh(float x) {
  const float half = nvf::approx::exp2(::fabsf(x) * 1.4426950408889634f - 1.0f);
  return half + 0.25f * nvf::fastReciprocal(half);
}
} // namespace nvf::approx

//@ piece nvf::approx::reciprocal
// 1 ulp; subnormal results become 0.
namespace nvf::approx {
NVF_FN float reciprocal(float x) {
  return nvf::fastReciprocal(x);
}
} // namespace nvf::approx

//@ piece nvf::approx::div
// 3 ulp. Everything but two products depends on the divisor alone, which is often the same for a
// whole row. It is scaled so that neither it nor its reciprocal is subnormal.
namespace nvf::approx {
NVF_FN float div(float a, float b) {
  const float magnitude = ::fabsf(b);
  const float scale = magnitude > 0x1p126f ? 0x1p-32f : magnitude < 0x1p-126f ? 0x1p32f : 1.0f;
  return (a * scale) * nvf::fastReciprocal(b * scale);
}
} // namespace nvf::approx

//@ piece nvf::approx::truediv
namespace nvf::approx {
NVF_FN float truediv(float a, float b) {
  return nvf::approx::div(a, b);
}
} // namespace nvf::approx

//@ piece nvf::approx::sqrt
// 1 ulp.
namespace nvf::approx {
NVF_FN float sqrt(float x) {
  float result;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
} // namespace nvf::approx

//@ piece nvf::approx::rsqrt
// 2 ulp.
namespace nvf::approx {
NVF_FN float rsqrt(float x) {
  return ::rsqrtf(x);
}
} // namespace nvf::approx

//@ piece nvf::approx::sigmoid
// About as exact as exp.
namespace nvf::approx {
NVF_FN float sigmoid(float x) {
  return nvf::fastReciprocal(1.0f + nvf::approx::exp(-x));
}
} // namespace nvf::approx

//@ piece nvf::approx::silu
namespace nvf::approx {
NVF_FN float silu(float x) {
  return x * nvf::fastReciprocal(1.0f + nvf::approx::exp(-x));
}
} // namespace nvf::approx

//@ piece nvf::approx::tanh
// 1 - 2 / (exp(2x) + 1) has an absolute error of 2e-7, so that 1 + tanh(x), as in gelu, stays right
// in its tail; where that is too much for a small result, tanh(x) = x to 16 bits. Relative error
// 2^-15 at worst, and seven instructions: CUDA's tanhf takes twenty, and a bias_gelu at full memory
// speed has time for 29 in all.
namespace nvf::approx {
NVF_FN float tanh(float x) {
  const float exponential = nvf::approx::exp2(x * 2.8853900817779268f);
  const float result = ::fmaf(-2.0f, nvf::fastReciprocal(exponential + 1.0f), 1.0f);
  return ::fabsf(x) < 0.0078125f ? x : result;
}
} // namespace nvf::approx

//@ piece nvf::approx::sech2
// 4 s (1 - s) with s = sigmoid(2x), which is computed once where both are needed; 1 - s is exp(-2x)
// s where s is near 1. About as exact as exp.
namespace nvf::approx {
NVF_FN float sech2(float x) {
  const float exponential = nvf::approx::exp(-(2.0f * x));
  const float part = nvf::fastReciprocal(1.0f + exponential);
  return 4.0f * part * (x > 0.0f ? exponential * part : 1.0f - part);
}
} // namespace nvf::approx

//@ piece nvf::approx::tanhFast
// One instruction, 2^-11: enough where tanh itself is the 16-bit result, too little for 1 +
// tanh(x).
namespace nvf::approx {
NVF_FN float tanhFast(float x) {
  float result;
  asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
} // namespace nvf::approx

//@ piece nvf::approx::erf
// CUDA's erff is a polynomial and one ex2.approx already.
namespace nvf::approx {
NVF_FN float erf(float x) {
  return ::erff(x);
}
} // namespace nvf::approx
