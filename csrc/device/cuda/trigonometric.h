// SPDX-License-Identifier: BSD-3-Clause
// Trigonometric and hyperbolic functions: CUDA's. float and double; operands of other types are
// cast before (type rule "F"). host/trigonometric.h is the other half.
#pragma once

//@ piece nvf::sin
namespace nvf {
NVF_FN float sin(float x) {
  return ::sinf(x);
}
NVF_FN double sin(double x) {
  return ::sin(x);
}
} // namespace nvf

//@ piece nvf::cos
namespace nvf {
NVF_FN float cos(float x) {
  return ::cosf(x);
}
NVF_FN double cos(double x) {
  return ::cos(x);
}
} // namespace nvf

//@ piece nvf::tan
namespace nvf {
NVF_FN float tan(float x) {
  return ::tanf(x);
}
NVF_FN double tan(double x) {
  return ::tan(x);
}
} // namespace nvf

//@ piece nvf::asin
namespace nvf {
NVF_FN float asin(float x) {
  return ::asinf(x);
}
NVF_FN double asin(double x) {
  return ::asin(x);
}
} // namespace nvf

//@ piece nvf::acos
namespace nvf {
NVF_FN float acos(float x) {
  return ::acosf(x);
}
NVF_FN double acos(double x) {
  return ::acos(x);
}
} // namespace nvf

//@ piece nvf::atan
namespace nvf {
NVF_FN float atan(float x) {
  return ::atanf(x);
}
NVF_FN double atan(double x) {
  return ::atan(x);
}
} // namespace nvf

//@ piece nvf::sinh
namespace nvf {
NVF_FN float sinh(float x) {
  return ::sinhf(x);
}
NVF_FN double sinh(double x) {
  return ::sinh(x);
}
} // namespace nvf

//@ piece nvf::cosh
namespace nvf {
NVF_FN float cosh(float x) {
  return ::coshf(x);
}
NVF_FN double cosh(double x) {
  return ::cosh(x);
}
} // namespace nvf

//@ piece nvf::tanh
namespace nvf {
NVF_FN float tanh(float x) {
  return ::tanhf(x);
}
NVF_FN double tanh(double x) {
  return ::tanh(x);
}
} // namespace nvf

//@ piece nvf::asinh
namespace nvf {
NVF_FN float asinh(float x) {
  return ::asinhf(x);
}
NVF_FN double asinh(double x) {
  return ::asinh(x);
}
} // namespace nvf

//@ piece nvf::acosh
namespace nvf {
NVF_FN float acosh(float x) {
  return ::acoshf(x);
}
NVF_FN double acosh(double x) {
  return ::acosh(x);
}
} // namespace nvf

//@ piece nvf::atanh
namespace nvf {
NVF_FN float atanh(float x) {
  return ::atanhf(x);
}
NVF_FN double atanh(double x) {
  return ::atanh(x);
}
} // namespace nvf

//@ piece nvf::atan2
namespace nvf {
template <class A, class B>
NVF_FN auto atan2(A y, B x) {
  using T = nvf::Common<A, B>;
  if constexpr (nvf::IsSame<T, float>) {
    return ::atan2f(y, x);
  } else {
    return ::atan2(static_cast<double>(y), static_cast<double>(x));
  }
}
} // namespace nvf
