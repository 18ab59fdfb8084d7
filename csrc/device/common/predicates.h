// SPDX-License-Identifier: BSD-3-Clause
// Questions about one number. Comparisons and bit tests only, so that NaN is answered, not
// propagated.
#pragma once

//@ piece nvf::infinity
// For kernel texts too, which cannot spell it portably.
namespace nvf {
template <class T>
NVF_FN T infinity() {
  if constexpr (nvf::IsSame<T, float>) {
    return nvf::bitsOf<float>(0x7f800000u);
  } else {
    return nvf::bitsOf<double>(0x7ff0000000000000ull);
  }
}
} // namespace nvf

//@ piece nvf::quietNan
namespace nvf {
template <class T>
NVF_FN T quietNan() {
  if constexpr (nvf::IsSame<T, float>) {
    return nvf::bitsOf<float>(0x7fc00000u);
  } else {
    return nvf::bitsOf<double>(0x7ff8000000000000ull);
  }
}
} // namespace nvf

//@ piece nvf::isnan
namespace nvf {
template <class T, nvf::If<nvf::IsFloating<T>> = 0>
NVF_FN bool isnan(T x) {
  return x != x;
}
template <class T, nvf::If<nvf::IsInteger<T>> = 0>
NVF_FN bool isnan(T) {
  return false;
}
} // namespace nvf

//@ piece nvf::isnan with nvf::IfSmallFloat
namespace nvf {
template <class T, nvf::IfSmallFloat<T> = 0>
NVF_FN bool isnan(T x) {
  return nvf::isnan(nvf::toFloat(x));
}
} // namespace nvf

//@ piece nvf::isnan with nvf::complex
namespace nvf {
template <class T>
NVF_FN bool isnan(nvf::complex<T> x) {
  return nvf::isnan(x.re) || nvf::isnan(x.im);
}
} // namespace nvf

//@ piece nvf::isinf
namespace nvf {
template <class T, nvf::If<nvf::IsFloating<T>> = 0>
NVF_FN bool isinf(T x) {
  return x == nvf::infinity<T>() || x == -nvf::infinity<T>();
}
template <class T, nvf::If<nvf::IsInteger<T>> = 0>
NVF_FN bool isinf(T) {
  return false;
}
} // namespace nvf

//@ piece nvf::isinf with nvf::IfSmallFloat
namespace nvf {
template <class T, nvf::IfSmallFloat<T> = 0>
NVF_FN bool isinf(T x) {
  return nvf::isinf(nvf::toFloat(x));
}
} // namespace nvf

//@ piece nvf::isinf with nvf::complex
namespace nvf {
template <class T>
NVF_FN bool isinf(nvf::complex<T> x) {
  return nvf::isinf(x.re) || nvf::isinf(x.im);
}
} // namespace nvf

//@ piece nvf::isfinite
// inf - inf and NaN - NaN are NaN.
namespace nvf {
template <class T, nvf::If<nvf::IsFloating<T>> = 0>
NVF_FN bool isfinite(T x) {
  return x - x == 0;
}
template <class T, nvf::If<nvf::IsInteger<T>> = 0>
NVF_FN bool isfinite(T) {
  return true;
}
} // namespace nvf

//@ piece nvf::isfinite with nvf::IfSmallFloat
namespace nvf {
template <class T, nvf::IfSmallFloat<T> = 0>
NVF_FN bool isfinite(T x) {
  return nvf::isfinite(nvf::toFloat(x));
}
} // namespace nvf

//@ piece nvf::isfinite with nvf::complex
namespace nvf {
template <class T>
NVF_FN bool isfinite(nvf::complex<T> x) {
  return nvf::isfinite(x.re) && nvf::isfinite(x.im);
}
} // namespace nvf

//@ piece nvf::isposinf
namespace nvf {
template <class T, nvf::If<nvf::IsFloating<T>> = 0>
NVF_FN bool isposinf(T x) {
  return x == nvf::infinity<T>();
}
template <class T, nvf::If<nvf::IsInteger<T>> = 0>
NVF_FN bool isposinf(T) {
  return false;
}
} // namespace nvf

//@ piece nvf::isposinf with nvf::IfSmallFloat
namespace nvf {
template <class T, nvf::IfSmallFloat<T> = 0>
NVF_FN bool isposinf(T x) {
  return nvf::isposinf(nvf::toFloat(x));
}
} // namespace nvf

//@ piece nvf::isneginf
namespace nvf {
template <class T, nvf::If<nvf::IsFloating<T>> = 0>
NVF_FN bool isneginf(T x) {
  return x == -nvf::infinity<T>();
}
template <class T, nvf::If<nvf::IsInteger<T>> = 0>
NVF_FN bool isneginf(T) {
  return false;
}
} // namespace nvf

//@ piece nvf::isneginf with nvf::IfSmallFloat
namespace nvf {
template <class T, nvf::IfSmallFloat<T> = 0>
NVF_FN bool isneginf(T x) {
  return nvf::isneginf(nvf::toFloat(x));
}
} // namespace nvf

//@ piece nvf::isreal
namespace nvf {
template <class T>
NVF_FN bool isreal(T) {
  return true;
}
} // namespace nvf

//@ piece nvf::isreal with nvf::complex
namespace nvf {
template <class T>
NVF_FN bool isreal(nvf::complex<T> x) {
  return x.im == 0;
}
} // namespace nvf

//@ piece nvf::signbit
// Of floats the bit itself: true for -0.0 and negative NaN.
namespace nvf {
NVF_FN bool signbit(float x) {
  return nvf::bitsOf<int>(x) < 0;
}
NVF_FN bool signbit(double x) {
  return nvf::bitsOf<long long>(x) < 0;
}
template <class T, nvf::If<nvf::IsInteger<T>> = 0>
NVF_FN bool signbit(T x) {
  return x < T(0);
}
} // namespace nvf

//@ piece nvf::signbit with nvf::IfSmallFloat
namespace nvf {
template <class T, nvf::IfSmallFloat<T> = 0>
NVF_FN bool signbit(T x) {
  // Not through float: conversions make every NaN positive.
  if constexpr (sizeof(T) == 2) {
    return (x.bits >> 15) != 0;
  } else {
    return nvf::signbit(nvf::toFloat(x));
  }
}
} // namespace nvf
