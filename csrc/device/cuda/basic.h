// SPDX-License-Identifier: BSD-3-Clause
// Small float helpers that the GPU has an instruction for: NaN-propagating minimum and maximum,
// reciprocals.
#pragma once

//@ piece nvf::maximumFloat
namespace nvf {
NVF_FN float maximumFloat(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
} // namespace nvf

//@ piece nvf::minimumFloat
namespace nvf {
NVF_FN float minimumFloat(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
} // namespace nvf

//@ piece nvf::opaque
// The same number, which the assembler knows nothing of. From CUDA 12.6 to 13.3 it makes one
// instruction of two minima or maxima of 32-bit integers (VIMNMX3, sm_90 and above) and forgets
// that the first operand was negated: max(max(a, -b), -c) came out as max(a, b, -c).
namespace nvf {
template <class T>
NVF_FN T opaque(T x) {
  return x;
}
NVF_FN int opaque(int x) {
#if __CUDA_ARCH__ >= 900
  int same;
  asm("prmt.b32 %0, %1, 0, 0x3210;" : "=r"(same) : "r"(x)); // lop3 crashes NVRTC
  return same;
#else
  return x;
#endif
}
} // namespace nvf

//@ piece nvf::multiplyWide
// All 64 bits of a product in one instruction; a product of widened operands takes an addition
// more.
namespace nvf {
NVF_FN unsigned long long multiplyWide(unsigned int a, unsigned int b) {
  unsigned long long result;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(result) : "r"(a), "r"(b));
  return result;
}
} // namespace nvf

//@ piece nvf::quotient
// C's division where it is defined.
namespace nvf {
template <class T>
NVF_FN T quotient(T a, T b) {
  return static_cast<T>(a / b);
}
} // namespace nvf

//@ piece nvf::restOfDivision
namespace nvf {
template <class T>
NVF_FN T restOfDivision(T a, T b) {
  return static_cast<T>(a % b);
}
} // namespace nvf

//@ piece nvf::fmodFloat
namespace nvf {
NVF_FN float fmodFloat(float a, float b) {
  return ::fmodf(a, b);
}
} // namespace nvf

//@ piece nvf::fastReciprocal
// One instruction, within 1 ulp, subnormal operands and results taken as 0 (PTX ISA "rcp"); an IEEE
// division takes about ten and a branch.
namespace nvf {
NVF_FN float fastReciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
NVF_FN double fastReciprocal(double x) {
  return 1.0 / x;
}
} // namespace nvf

//@ piece nvf::divideFloats
// What IEEE division gives, but within 3 ulp where the dividend is below 2^-100 (of 10^9 pairs of
// operands between 2^-27 and 2^28 all are the same). Without a branch: C's division leaves its fast
// path where an operand is very small or large, which a floor of 1e-38 makes of most of a tensor.
// Both operands are scaled so that the reciprocal is no subnormal number. The remainder is smaller
// than the dividend unless the quotient is infinite, NaN or 0: there is nothing to correct then,
// and a 0 would lose its sign.
namespace nvf {
NVF_FN float divideFloats(float a, float b) {
  const float size = ::fabsf(b);
  const float scale = size > 0x1p64f ? 0x1p-64f : (size < 0x1p-64f ? 0x1p64f : 1.0f);
  const float dividend = a * scale;
  const float divisor = b * scale;
  const float factor = nvf::fastReciprocal(divisor);
  const float near = dividend * factor;
  const float rest = ::fmaf(-divisor, near, dividend);
  return ::fabsf(rest) < ::fabsf(dividend) ? ::fmaf(rest, factor, near) : near;
}
} // namespace nvf

//@ piece nvf::subtractRounded
// a - b of operands that were rounded: a product among them is not contracted with the subtraction.
namespace nvf {
NVF_FN float subtractRounded(float a, float b) {
  return __fsub_rn(a, b);
}
NVF_FN double subtractRounded(double a, double b) {
  return __dsub_rn(a, b);
}
} // namespace nvf

//@ piece nvf::reciprocalSqrt
namespace nvf {
NVF_FN float reciprocalSqrt(float x) {
  return ::rsqrtf(x);
}
NVF_FN double reciprocalSqrt(double x) {
  return ::rsqrt(x);
}
} // namespace nvf

//@ piece nvf::sinOrCosPi
// sin (which = 0) or cos (1) of pi * turns: no slow path for large arguments.
namespace nvf {
NVF_FN float sinOrCosPi(float turns, int which) {
  return which == 0 ? ::sinpif(turns) : ::cospif(turns);
}
NVF_FN double sinOrCosPi(double turns, int which) {
  return which == 0 ? ::sinpi(turns) : ::cospi(turns);
}
} // namespace nvf
