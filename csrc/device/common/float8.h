// SPDX-License-Identifier: BSD-3-Clause
// The 8-bit and 4-bit float formats in software, by bit manipulation, for the host and for GPUs
// without the instruction. Formats: OCP "8-bit Floating Point Specification" 1.0 and "Microscaling
// Formats" 1.0. Rounding is to nearest, ties to even; what does not fit becomes what torch makes of
// it: the largest value for e4m3 (as the hardware; torch before 2.13 made NaN) and e2m1, infinity
// for e5m2, NaN for e8m0.
#pragma once

//@ piece nvf::roundToSmall
// Rounds |x| to a format with MantissaBits bits and exponent bias Bias; returns the magnitude's
// encoding, unbounded above (the caller handles overflow). x must not be NaN or infinite.
namespace nvf {
template <int MantissaBits, int Bias>
NVF_FN unsigned roundToSmall(float x) {
  constexpr int kShift = 23 - MantissaBits;
  constexpr unsigned kSmallestNormal = (128u - Bias) << 23;
  const unsigned bits = nvf::bitsOf<unsigned>(x) & 0x7fffffffu;
  // Normal results: drop kShift bits of the mantissa; the carry runs into the exponent as it
  // should.
  const unsigned odd = (bits >> kShift) & 1u;
  const unsigned normal =
      (bits - ((127u - Bias) << 23) + odd + ((1u << (kShift - 1)) - 1u)) >> kShift;
  // Subnormal results: adding a number whose last bit is worth one unit makes the adder round.
  constexpr unsigned kMagic = static_cast<unsigned>(127 - Bias + 1 + kShift) << 23;
  const float sum = nvf::bitsOf<float>(bits) + nvf::bitsOf<float>(kMagic);
  const unsigned subnormal = nvf::bitsOf<unsigned>(sum) - kMagic;
  return bits < kSmallestNormal ? subnormal : normal;
}
} // namespace nvf

//@ piece nvf::e4m3FromFloatSoftware
namespace nvf {
NVF_FN unsigned char e4m3FromFloatSoftware(float x) {
  const unsigned bits = nvf::bitsOf<unsigned>(x);
  const unsigned sign = (bits >> 24) & 0x80u;
  const unsigned magnitude = bits & 0x7fffffffu;
  // 448 is the largest value.
  const unsigned rounded = magnitude >= 0x43e00000u ? (magnitude > 0x7f800000u ? 0x7fu : 0x7eu)
                                                    : nvf::roundToSmall<3, 7>(x);
  return static_cast<unsigned char>(sign | rounded);
}
} // namespace nvf

//@ piece nvf::e4m3ToFloatSoftware
namespace nvf {
NVF_FN float e4m3ToFloatSoftware(unsigned char bits) {
  // With the exponent field in place of float's the value is 2^-120 of the right one, for
  // subnormals too.
  const unsigned magnitude = bits & 0x7fu;
  const float scaled = nvf::bitsOf<float>(magnitude << 20) * 1.329227995784916e36f;
  const unsigned result = magnitude == 0x7fu ? 0x7fc00000u : nvf::bitsOf<unsigned>(scaled);
  return nvf::bitsOf<float>(result | ((bits & 0x80u) << 24));
}
} // namespace nvf

//@ piece nvf::e5m2FromFloatSoftware
namespace nvf {
NVF_FN unsigned char e5m2FromFloatSoftware(float x) {
  const unsigned bits = nvf::bitsOf<unsigned>(x);
  const unsigned magnitude = bits & 0x7fffffffu;
  const unsigned sign = (bits >> 24) & 0x80u;
  // From 61440 on (midpoint of the largest value 57344 and 65536) the nearest is infinity.
  const unsigned rounded = magnitude >= 0x47700000u ? (magnitude > 0x7f800000u ? 0x7fu : 0x7cu)
                                                    : nvf::roundToSmall<2, 15>(x);
  return static_cast<unsigned char>(sign | rounded);
}
} // namespace nvf

//@ piece nvf::toFloat with __e8m0
namespace nvf {
template <>
NVF_FN float toFloat<__e8m0>(__e8m0 x) {
  const unsigned bits = x.bits;
  // 2^-127 is a subnormal float; NaN needs the same bit.
  const unsigned upper = (bits == 0u) | (bits == 255u) ? 0x00400000u : 0u;
  return nvf::bitsOf<float>(bits << 23 | upper);
}
} // namespace nvf

//@ piece nvf::fromFloat with __e8m0
namespace nvf {
template <>
NVF_FN __e8m0 fromFloat<__e8m0>(float x) {
  // The sign is dropped; mantissa 1.5 and above rounds up; below 2^-126 only what is above the
  // midpoint does.
  const unsigned bits = nvf::bitsOf<unsigned>(x) & 0x7fffffffu;
  const unsigned exponent = bits >> 23;
  const unsigned mantissa = bits & 0x7fffffu;
  const bool up =
      exponent != 255u && (exponent > 0u ? mantissa >= 0x400000u : mantissa > 0x400000u);
  return {static_cast<unsigned char>(exponent + (up ? 1u : 0u))};
}
} // namespace nvf

//@ piece nvf::toFloat with __e2m1
namespace nvf {
template <>
NVF_FN float toFloat<__e2m1>(__e2m1 x) {
  // As in e4m3ToFloatSoftware: 2^126 makes up for the difference of the biases 127 and 1.
  const float magnitude = nvf::bitsOf<float>((x.bits & 7u) << 22) * 8.507059173023462e37f;
  return nvf::bitsOf<float>(nvf::bitsOf<unsigned>(magnitude) | ((x.bits & 8u) << 28));
}
} // namespace nvf

//@ piece nvf::e2m1FromFloatSoftware
namespace nvf {
NVF_FN unsigned char e2m1FromFloatSoftware(float x) {
  // As cvt.rn.satfinite.e2m1x2.f32 (PTX ISA): saturates at 6, NaN becomes +6.
  const unsigned bits = nvf::bitsOf<unsigned>(x);
  const unsigned magnitude = bits & 0x7fffffffu;
  const unsigned sign = magnitude > 0x7f800000u ? 0u : (bits >> 28) & 8u;
  return static_cast<unsigned char>(sign |
                                    (magnitude >= 0x40c00000u ? 7u : nvf::roundToSmall<1, 1>(x)));
}
} // namespace nvf
