// SPDX-License-Identifier: BSD-3-Clause
// Small float formats on the host, in software without branches, so that loops over them vectorize.
// (Compilers vectorize the CPU's conversions of half only where it computes in half.)
#pragma once

//@ piece nvf::toFloat with __half
namespace nvf {
template <>
NVF_FN float toFloat<__half>(__half x) {
  // Exponent and mantissa moved to float's place are 2^-112 of the value, for subnormals too;
  // infinity and NaN (which land at 2^16 and above) then need the largest exponent.
  const unsigned sign = (x.bits & 0x8000u) << 16;
  const float scaled = nvf::bitsOf<float>((x.bits & 0x7fffu) << 13) * 5.192296858534828e33f;
  const unsigned bits = nvf::bitsOf<unsigned>(scaled);
  return nvf::bitsOf<float>(sign | bits | (bits >= 0x47800000u ? 0x7f800000u : 0u));
}
} // namespace nvf

//@ piece nvf::fromFloat with __half
namespace nvf {
template <>
NVF_FN __half fromFloat<__half>(float x) {
  const unsigned bits = nvf::bitsOf<unsigned>(x);
  const unsigned magnitude = bits & 0x7fffffffu;
  const unsigned sign = (bits >> 16) & 0x8000u;
  // From 65520 on (midpoint of the largest value and 65536) the nearest is infinity.
  const unsigned special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const unsigned finite = nvf::roundToSmall<10, 15>(x);
  return {static_cast<unsigned short>(sign | (magnitude >= 0x477ff000u ? special : finite))};
}
} // namespace nvf

//@ piece nvf::toFloat with __bfloat
namespace nvf {
template <>
NVF_FN float toFloat<__bfloat>(__bfloat x) {
  return nvf::bitsOf<float>(static_cast<unsigned>(x.bits) << 16);
}
} // namespace nvf

//@ piece nvf::fromFloat with __bfloat
namespace nvf {
template <>
NVF_FN __bfloat fromFloat<__bfloat>(float x) {
  const unsigned bits = nvf::bitsOf<unsigned>(x);
  const unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return {static_cast<unsigned short>(x != x ? 0x7fc0u : rounded)};
}
} // namespace nvf

//@ piece nvf::pack with __bfloat
namespace nvf {
template <>
NVF_FN __bfloat pack<__bfloat>(float x) {
  return {static_cast<unsigned short>(nvf::bitsOf<unsigned>(x) >> 16)};
}
} // namespace nvf

//@ piece nvf::roundTo with __bfloat
namespace nvf {
template <>
NVF_FN float roundTo<__bfloat>(float x) {
  const unsigned bits = nvf::bitsOf<unsigned>(x);
  const unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  return nvf::bitsOf<float>(x != x ? 0x7fc00000u : rounded);
}
} // namespace nvf

//@ piece nvf::floatAt
// Element i of an array. (On a GPU it is taken out of the word that it lies in.)
namespace nvf {
template <class T, int N, int Align>
NVF_FN float floatAt(const Array<T, N, Align>& registers, int i) {
  return nvf::toFloat(registers[i]);
}
} // namespace nvf

//@ piece nvf::toFloat with __e4m3
namespace nvf {
template <>
NVF_FN float toFloat<__e4m3>(__e4m3 x) {
  return nvf::e4m3ToFloatSoftware(x.bits);
}
} // namespace nvf

//@ piece nvf::fromFloat with __e4m3
namespace nvf {
template <>
NVF_FN __e4m3 fromFloat<__e4m3>(float x) {
  return {nvf::e4m3FromFloatSoftware(x)};
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
  return {nvf::e5m2FromFloatSoftware(x)};
}
} // namespace nvf

//@ piece nvf::fromFloat with __e2m1
namespace nvf {
template <>
NVF_FN __e2m1 fromFloat<__e2m1>(float x) {
  return {nvf::e2m1FromFloatSoftware(x)};
}
} // namespace nvf
