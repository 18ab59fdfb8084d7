// SPDX-License-Identifier: BSD-3-Clause
// Error functions without branches (polynomial.h), and special functions that CUDA has and the C
// library has not (or not in a thread-safe form).
#pragma once

//@ piece nvf::erf
// x + x P(x^2) up to 0.92, 1 - 2^P(|x|) above. From 4 on that is 1.
namespace nvf {
NVF_FN float erf(float x) {
  const float size = __builtin_fabsf(x), square = x * x;
  const float near =
      nvf::polynomial(square, 0.128379166f, -0.376126349f, 0.112836957f, -0.0268593989f,
                      0.00520103239f, -8.14270345e-4f, 8.3700972e-5f);
  const float bounded = size > 4.0f ? 4.0f : size;
  const float log = nvf::polynomial(bounded, 2.32755498e-4f, -1.62943614f, -0.913993835f,
                                    -0.155848905f, 0.0359322503f, -0.00585573446f, 5.74648147e-4f,
                                    -2.10343187e-5f, -7.25248128e-7f);
  const float whole = __builtin_rintf(log);
  const float p = nvf::polynomial(log - whole, 1.0f, 0.693147004f, 0.240222424f, 0.0555073358f,
                                  0.00967151206f, 0.00132647238f);
  const float far = 1.0f - p * nvf::powerOfTwo<float>(static_cast<int>(whole));
  const float result = size < 0.921875f ? nvf::multiplyAdd(near, size, size) : far;
  return nvf::withSign(result, x);
}
NVF_FN double erf(double x) {
  return ::erf(x);
}
} // namespace nvf

//@ piece nvf::erfc
// In double: exp(-x^2) needs the whole square. exp(x^2) erfc(|x|) is smooth; (|x| - 2) / (|x| + 2)
// makes a short interval of its domain.
namespace nvf {
NVF_FN float erfc(float x) {
  const double wide = static_cast<double>(x), size = __builtin_fabs(wide);
  const double bounded = size > 10.1 ? 10.1 : size;
  const double w = (bounded - 2.0) / (bounded + 2.0);
  const double scaled = nvf::polynomial(
      w, 0.25539567631915194, -0.4271858476422713, 0.24165819329902638, -0.078978569110101662,
      0.0037329107630904553, 0.006997290606127189, -8.4730773006131083e-4, -9.8093151971419485e-4,
      4.4444484562458473e-5, 1.7126223280416027e-4, 2.4640489551710867e-5, -2.3300461646661471e-5,
      -8.9410018596796682e-6, -2.8742226320978837e-7);
  int n;
  const double rest = nvf::multiplesOfLn2(-bounded * bounded, n);
  const double tail = scaled * nvf::expOfRest(rest) * nvf::powerOfTwo<double>(n);
  return static_cast<float>(x < 0.0f ? 2.0 - tail : tail);
}
NVF_FN double erfc(double x) {
  return ::erfc(x);
}
} // namespace nvf

//@ piece nvf::erfinvGuess
// M. Giles, "Approximating the erfinv function", GPU Computing Gems Jade (2011), single precision
// form; w = -log((1 - x) (1 + x)). Relative error about 1e-7.
namespace nvf {
NVF_FN double erfinvGuess(double x, double w) {
  double p;
  if (w < 5.0) {
    w -= 2.5;
    p = 2.81022636e-08;
    p = 3.43273939e-07 + p * w;
    p = -3.5233877e-06 + p * w;
    p = -4.39150654e-06 + p * w;
    p = 0.00021858087 + p * w;
    p = -0.00125372503 + p * w;
    p = -0.00417768164 + p * w;
    p = 0.246640727 + p * w;
    p = 1.50140941 + p * w;
  } else {
    w = ::sqrt(w) - 3.0;
    p = -0.000200214257;
    p = 0.000100950558 + p * w;
    p = 0.00134934322 + p * w;
    p = -0.00367342844 + p * w;
    p = 0.00573950773 + p * w;
    p = -0.0076224613 + p * w;
    p = 0.00943887047 + p * w;
    p = 1.00167406 + p * w;
    p = 2.83297682 + p * w;
  }
  return p * x;
}
} // namespace nvf

//@ piece nvf::refineErfcinv
// Halley steps on erfc(y) = c (for y > 0, where erfc keeps its relative precision): the derivative
// is -2/sqrt(pi) exp(-y^2), and f''/f' = -2y. Written relative to c, so that nothing overflows.
namespace nvf {
NVF_FN double refineErfcinv(double y, double c) {
  const double log_c = ::log(c);
  for (int i = 0; i < 3; ++i) {
    const double step = (::erfc(y) / c - 1.0) * 0.8862269254527580 * ::exp(y * y + log_c);
    y += step / (1.0 - y * step);
  }
  return y;
}
} // namespace nvf

//@ piece nvf::erfinv
namespace nvf {
inline double erfinv(double x) {
  const double magnitude = ::fabs(x);
  if (!(magnitude < 1.0)) {
    return magnitude == 1.0 ? x * nvf::infinity<double>() : nvf::quietNan<double>();
  }
  double y = nvf::erfinvGuess(magnitude, -::log1p(-x * x));
  if (magnitude > 0.5) {
    y = nvf::refineErfcinv(y, 1.0 - magnitude); // the difference is exact here
  } else {
    for (int i = 0; i < 2; ++i) {
      const double step = (::erf(y) - magnitude) * 0.8862269254527580 * ::exp(y * y);
      y -= step / (1.0 + y * step);
    }
  }
  return ::copysign(y, x);
}
inline float erfinv(float x) {
  return static_cast<float>(erfinv(static_cast<double>(x)));
}
} // namespace nvf

//@ piece nvf::erfcinv
namespace nvf {
inline double erfcinv(double x) {
  if (x >= 0.5) {
    return nvf::erfinv(1.0 - x); // the difference is exact up to 2, the end of the domain
  }
  if (!(x > 0.0)) {
    return x == 0.0 ? nvf::infinity<double>() : nvf::quietNan<double>();
  }
  const double w = -::log(x * (2.0 - x));
  // Far out: erfc(y) is about exp(-y^2) / (y sqrt(pi)).
  const double guess =
      w < 16.0 ? nvf::erfinvGuess(1.0 - x, w) : ::sqrt(w - 0.5 * ::log(3.141592653589793 * w));
  return nvf::refineErfcinv(guess, x);
}
inline float erfcinv(float x) {
  return static_cast<float>(erfcinv(static_cast<double>(x)));
}
} // namespace nvf

//@ piece nvf::lgamma
namespace nvf {
NVF_FN float lgamma(float x) {
  int sign;
  return ::lgammaf_r(x, &sign);
}
NVF_FN double lgamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}
} // namespace nvf
