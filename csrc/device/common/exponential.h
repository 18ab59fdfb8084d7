// SPDX-License-Identifier: BSD-3-Clause
// Roots, and silu of types that are not computed in.
#pragma once

//@ piece nvf::sqrt
namespace nvf {
NVF_FN float sqrt(float x) {
  return ::sqrtf(x);
}
NVF_FN double sqrt(double x) {
  return ::sqrt(x);
}
} // namespace nvf

//@ piece nvf::rsqrt
namespace nvf {
NVF_FN float rsqrt(float x) {
  return nvf::reciprocalSqrt(x);
}
NVF_FN double rsqrt(double x) {
  return nvf::reciprocalSqrt(x);
}
} // namespace nvf

//@ piece nvf::silu
namespace nvf {
template <class T, nvf::If<nvf::IsInteger<T>> = 0>
NVF_FN T silu(T x) {
  return static_cast<T>(nvf::silu(static_cast<double>(x)));
}
} // namespace nvf

//@ piece nvf::silu with nvf::IfSmallFloat
namespace nvf {
template <class T, nvf::IfSmallFloat<T> = 0>
NVF_FN T silu(T x) {
  return nvf::fromFloat<T>(nvf::silu(nvf::toFloat(x)));
}
} // namespace nvf
