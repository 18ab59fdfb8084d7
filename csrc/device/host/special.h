// Special functions that CUDA has and the C library has not (or not in a thread-safe form).
#pragma once

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
