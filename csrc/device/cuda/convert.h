// SPDX-License-Identifier: BSD-3-Clause
// Small float formats on the GPU: one conversion instruction where the architecture has it (PTX
// ISA, "cvt"), software (float8.h) where it does not: fp8 below sm_89, fp4 below sm_100.
#pragma once

//@ piece nvf::toFloat with __half
namespace nvf {
template <>
NVF_FN float toFloat<__half>(__half x) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
}
} // namespace nvf

//@ piece nvf::fromFloat with __half
namespace nvf {
template <>
NVF_FN __half fromFloat<__half>(float x) {
  __half result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
}
} // namespace nvf

//@ piece nvf::toFloat with __bfloat
namespace nvf {
template <>
NVF_FN float toFloat<__bfloat>(__bfloat x) {
  // One byte permutation for either half of a word; a shift of the upper half takes two
  // instructions.
  float result;
  asm("mov.b32 %0, {%1, %2};" : "=f"(result) : "h"(static_cast<unsigned short>(0)), "h"(x.bits));
  return result;
}
} // namespace nvf

//@ piece nvf::fromFloat with __bfloat
namespace nvf {
template <>
NVF_FN __bfloat fromFloat<__bfloat>(float x) {
  __bfloat result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
}
} // namespace nvf

//@ piece nvf::roundTo with __bfloat
// Packed into the upper half of a word whose lower half is 0.
namespace nvf {
template <>
NVF_FN float roundTo<__bfloat>(float x) {
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(x), "f"(0.0f));
  return nvf::bitsOf<float>(word);
}
} // namespace nvf

//@ piece nvf::addIn with __bfloat
// Two at once in one instruction: the values in the upper halves of the words, 0 in the lower ones.
namespace nvf {
template <>
NVF_FN float addIn<__bfloat>(float a, float b) {
#if __CUDA_ARCH__ >= 900
  unsigned word;
  asm("add.rn.bf16x2 %0, %1, %2;"
      : "=r"(word)
      : "r"(nvf::bitsOf<unsigned>(a)), "r"(nvf::bitsOf<unsigned>(b)));
  return nvf::bitsOf<float>(word);
#else
  return nvf::roundTo<__bfloat>(a + b);
#endif
}
} // namespace nvf

//@ piece nvf::subIn with __bfloat
namespace nvf {
template <>
NVF_FN float subIn<__bfloat>(float a, float b) {
#if __CUDA_ARCH__ >= 900
  unsigned word;
  asm("sub.rn.bf16x2 %0, %1, %2;"
      : "=r"(word)
      : "r"(nvf::bitsOf<unsigned>(a)), "r"(nvf::bitsOf<unsigned>(b)));
  return nvf::bitsOf<float>(word);
#else
  return nvf::roundTo<__bfloat>(a - b);
#endif
}
} // namespace nvf

//@ piece nvf::mulIn with __bfloat
namespace nvf {
template <>
NVF_FN float mulIn<__bfloat>(float a, float b) {
#if __CUDA_ARCH__ >= 900
  unsigned word;
  asm("mul.rn.bf16x2 %0, %1, %2;"
      : "=r"(word)
      : "r"(nvf::bitsOf<unsigned>(a)), "r"(nvf::bitsOf<unsigned>(b)));
  return nvf::bitsOf<float>(word);
#else
  return nvf::roundTo<__bfloat>(a * b);
#endif
}
} // namespace nvf

//@ piece nvf::halfOfWord
namespace nvf {
template <class T>
NVF_FN float halfOfWord(unsigned word, int half) {
  return nvf::toFloat(T{static_cast<unsigned short>(half == 0 ? word : word >> 16)});
}
} // namespace nvf

//@ piece nvf::halfOfWord with __bfloat
namespace nvf {
template <>
NVF_FN float halfOfWord<__bfloat>(unsigned word, int half) {
  return nvf::bitsOf<float>(half == 0 ? word << 16 : word & 0xffff0000u);
}
} // namespace nvf

//@ piece nvf::floatAt
// Element i of an array, out of the word that it lies in: values that come and go as words stay
// words, also where a branch decides whether they were loaded.
namespace nvf {
template <class T, int N, int Align>
NVF_FN float floatAt(const Array<T, N, Align>& registers, int i) {
  if constexpr (N % 2 == 0 && Align % 2 == 0) {
    const unsigned word = reinterpret_cast<const unsigned*>(&registers.array[0])[i / 2];
    return nvf::halfOfWord<T>(word, i % 2);
  } else {
    return nvf::toFloat(registers[i]);
  }
}
} // namespace nvf

//@ piece nvf::toFloat with __e4m3
namespace nvf {
template <>
NVF_FN float toFloat<__e4m3>(__e4m3 x) {
#if __CUDA_ARCH__ >= 890
  unsigned pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<unsigned short>(x.bits)));
  return nvf::toFloat(__half{static_cast<unsigned short>(pair)});
#else
  return nvf::e4m3ToFloatSoftware(x.bits);
#endif
}
} // namespace nvf

//@ piece nvf::fromFloat with __e4m3
namespace nvf {
template <>
NVF_FN __e4m3 fromFloat<__e4m3>(float x) {
#if __CUDA_ARCH__ >= 890
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return {static_cast<unsigned char>(pair)};
#else
  return {nvf::e4m3FromFloatSoftware(x)};
#endif
}
} // namespace nvf

//@ piece nvf::toFloat with __e5m2
namespace nvf {
template <>
NVF_FN float toFloat<__e5m2>(__e5m2 x) {
  return nvf::toFloat(__half{static_cast<unsigned short>(x.bits << 8)});
}
} // namespace nvf

//@ piece nvf::fromFloat with __e5m2
namespace nvf {
template <>
NVF_FN __e5m2 fromFloat<__e5m2>(float x) {
#if __CUDA_ARCH__ >= 890
  // The instruction saturates; torch gives infinity from 61440 on.
  unsigned short pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  const unsigned bits = nvf::bitsOf<unsigned>(x);
  const unsigned magnitude = bits & 0x7fffffffu;
  const bool overflows = magnitude >= 0x47700000u && magnitude <= 0x7f800000u;
  return {static_cast<unsigned char>(overflows ? 0x7cu | ((bits >> 24) & 0x80u) : pair)};
#else
  return {nvf::e5m2FromFloatSoftware(x)};
#endif
}
} // namespace nvf

//@ piece nvf::fromFloat with __e2m1
namespace nvf {
template <>
NVF_FN __e2m1 fromFloat<__e2m1>(float x) {
#if __CUDA_ARCH__ >= 1000 && \
    (defined(__CUDA_ARCH_SPECIFIC__) || defined(__CUDA_ARCH_FAMILY_SPECIFIC__))
  unsigned result;
  asm("{\n"
      "  .reg .b8 pair;\n"
      "  cvt.rn.satfinite.e2m1x2.f32 pair, %1, %2;\n"
      "  cvt.u32.u8 %0, pair;\n"
      "}"
      : "=r"(result)
      : "f"(0.0f), "f"(x));
  return {static_cast<unsigned char>(result & 15u)};
#else
  return {nvf::e2m1FromFloatSoftware(x)};
#endif
}
} // namespace nvf
