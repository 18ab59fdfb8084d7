// SPDX-License-Identifier: BSD-3-Clause
// Rounding to integers. Integers are their own rounding.
#pragma once

//@ piece nvf::ceil
namespace nvf {
NVF_FN float ceil(float x) {
  return ::ceilf(x);
}
NVF_FN double ceil(double x) {
  return ::ceil(x);
}
template <class T, nvf::If<nvf::IsInteger<T>> = 0>
NVF_FN T ceil(T x) {
  return x;
}
} // namespace nvf

//@ piece nvf::ceil with nvf::IfSmallFloat
namespace nvf {
template <class T, nvf::IfSmallFloat<T> = 0>
NVF_FN T ceil(T x) {
  return nvf::fromFloat<T>(nvf::ceil(nvf::toFloat(x)));
}
} // namespace nvf

//@ piece nvf::floor
namespace nvf {
NVF_FN float floor(float x) {
  return ::floorf(x);
}
NVF_FN double floor(double x) {
  return ::floor(x);
}
template <class T, nvf::If<nvf::IsInteger<T>> = 0>
NVF_FN T floor(T x) {
  return x;
}
} // namespace nvf

//@ piece nvf::floor with nvf::IfSmallFloat
namespace nvf {
template <class T, nvf::IfSmallFloat<T> = 0>
NVF_FN T floor(T x) {
  return nvf::fromFloat<T>(nvf::floor(nvf::toFloat(x)));
}
} // namespace nvf

//@ piece nvf::trunc
namespace nvf {
NVF_FN float trunc(float x) {
  return ::truncf(x);
}
NVF_FN double trunc(double x) {
  return ::trunc(x);
}
template <class T, nvf::If<nvf::IsInteger<T>> = 0>
NVF_FN T trunc(T x) {
  return x;
}
} // namespace nvf

//@ piece nvf::trunc with nvf::IfSmallFloat
namespace nvf {
template <class T, nvf::IfSmallFloat<T> = 0>
NVF_FN T trunc(T x) {
  return nvf::fromFloat<T>(nvf::trunc(nvf::toFloat(x)));
}
} // namespace nvf

//@ piece nvf::round
// To nearest, ties to even.
namespace nvf {
NVF_FN float round(float x) {
  return ::rintf(x);
}
NVF_FN double round(double x) {
  return ::rint(x);
}
template <class T, nvf::If<nvf::IsInteger<T>> = 0>
NVF_FN T round(T x) {
  return x;
}
} // namespace nvf

//@ piece nvf::round with nvf::IfSmallFloat
namespace nvf {
template <class T, nvf::IfSmallFloat<T> = 0>
NVF_FN T round(T x) {
  return nvf::fromFloat<T>(nvf::round(nvf::toFloat(x)));
}
} // namespace nvf

//@ piece nvf::frac
// The fraction with the sign of x; frac(inf) is NaN, as torch.frac.
namespace nvf {
NVF_FN float frac(float x) {
  return x - ::truncf(x);
}
NVF_FN double frac(double x) {
  return x - ::trunc(x);
}
template <class T, nvf::If<nvf::IsInteger<T>> = 0>
NVF_FN T frac(T) {
  return 0;
}
} // namespace nvf

//@ piece nvf::frac with nvf::IfSmallFloat
namespace nvf {
template <class T, nvf::IfSmallFloat<T> = 0>
NVF_FN T frac(T x) {
  return nvf::fromFloat<T>(nvf::frac(nvf::toFloat(x)));
}
} // namespace nvf
