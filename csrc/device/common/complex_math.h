// SPDX-License-Identifier: BSD-3-Clause
// Functions of complex numbers, computed in double for both widths: they are rare, and this way the
// float ones need no care against cancellation and overflow. Formulas and branch cuts: W. Kahan,
// "Branch Cuts for Complex Elementary Functions, or Much Ado About Nothing's Sign Bit" (1987);
// results for zeros, infinities and NaN as C99 Annex G asks.
#pragma once

//@ piece nvf::abs with nvf::complex
namespace nvf {
template <class T>
NVF_FN T abs(complex<T> z) {
  return static_cast<T>(::hypot(static_cast<double>(z.re), static_cast<double>(z.im)));
}
} // namespace nvf

//@ piece nvf::sign with nvf::complex
// z / |z|, as torch.sgn.
namespace nvf {
template <class T>
NVF_FN complex<T> sign(complex<T> z) {
  const T length = nvf::abs(z);
  return length == 0 ? complex<T>(0) : complex<T>(z.re / length, z.im / length);
}
} // namespace nvf

//@ piece nvf::timesZeroIsZero
// A product in which a factor that is exactly 0 wins over infinity and NaN.
namespace nvf {
NVF_FN double timesZeroIsZero(double a, double b) {
  return a == 0 || b == 0 ? ::copysign(::copysign(0.0, a), ::copysign(1.0, a) * b) : a * b;
}
} // namespace nvf

//@ piece nvf::scaled with nvf::complex
// A complex number times a real one: a full product would make NaN of infinity times 0.
namespace nvf {
NVF_FN complex<double> scaled(complex<double> z, double factor) {
  return {z.re * factor, z.im * factor};
}
} // namespace nvf

//@ piece nvf::exp with nvf::complex
namespace nvf {
NVF_FN complex<double> exp(complex<double> z) {
  const double scale = ::exp(z.re);
  if (scale == nvf::infinity<double>() && !(z.im - z.im == 0)) {
    return {scale, nvf::quietNan<double>()};
  }
  return {nvf::timesZeroIsZero(scale, ::cos(z.im)), nvf::timesZeroIsZero(scale, ::sin(z.im))};
}
NVF_FN complex<float> exp(complex<float> z) {
  return complex<float>(nvf::exp(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::exp2 with nvf::complex
namespace nvf {
NVF_FN complex<double> exp2(complex<double> z) {
  return nvf::exp(nvf::scaled(z, 0.6931471805599453));
}
NVF_FN complex<float> exp2(complex<float> z) {
  return complex<float>(nvf::exp2(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::expm1 with nvf::complex
namespace nvf {
NVF_FN complex<double> expm1(complex<double> z) {
  const double half_sine = ::sin(0.5 * z.im);
  return {::expm1(z.re) * ::cos(z.im) - 2.0 * half_sine * half_sine, ::exp(z.re) * ::sin(z.im)};
}
NVF_FN complex<float> expm1(complex<float> z) {
  return complex<float>(nvf::expm1(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::log with nvf::complex
// Near |z| = 1 the logarithm of the length would lose its digits.
namespace nvf {
NVF_FN complex<double> log(complex<double> z) {
  const double length = ::hypot(z.re, z.im);
  double re;
  if (length > 0.5 && length < 2.0) {
    const double a = ::fabs(z.re), b = ::fabs(z.im);
    const double large = a > b ? a : b, small = a > b ? b : a;
    re = 0.5 * ::log1p((large - 1.0) * (large + 1.0) + small * small);
  } else {
    re = ::log(length);
  }
  return {re, ::atan2(z.im, z.re)};
}
NVF_FN complex<float> log(complex<float> z) {
  return complex<float>(nvf::log(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::log2 with nvf::complex
namespace nvf {
NVF_FN complex<double> log2(complex<double> z) {
  return nvf::scaled(nvf::log(z), 1.4426950408889634);
}
NVF_FN complex<float> log2(complex<float> z) {
  return complex<float>(nvf::log2(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::log10 with nvf::complex
namespace nvf {
NVF_FN complex<double> log10(complex<double> z) {
  return nvf::scaled(nvf::log(z), 0.4342944819032518);
}
NVF_FN complex<float> log10(complex<float> z) {
  return complex<float>(nvf::log10(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::log1p with nvf::complex
namespace nvf {
NVF_FN complex<double> log1p(complex<double> z) {
  const double square = z.re * (2.0 + z.re) + z.im * z.im; // |1 + z|^2 - 1
  if (square < 1.0 && square > -0.5) {
    return {0.5 * ::log1p(square), ::atan2(z.im, 1.0 + z.re)};
  }
  return nvf::log(complex<double>(1.0 + z.re, z.im));
}
NVF_FN complex<float> log1p(complex<float> z) {
  return complex<float>(nvf::log1p(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::sqrt with nvf::complex
namespace nvf {
NVF_FN complex<double> sqrt(complex<double> z) {
  if (z.re == 0 && z.im == 0) {
    return {0.0, z.im};
  }
  if (z.im == nvf::infinity<double>() || z.im == -nvf::infinity<double>()) {
    return {nvf::infinity<double>(), z.im};
  }
  const double root = ::sqrt(0.5 * ::fabs(z.re) + 0.5 * ::hypot(z.re, z.im));
  const double other = 0.5 * z.im / root;
  if (z.re >= 0) {
    return {root, other};
  }
  return {::fabs(other), ::copysign(root, z.im)};
}
NVF_FN complex<float> sqrt(complex<float> z) {
  return complex<float>(nvf::sqrt(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::rsqrt with nvf::complex
namespace nvf {
NVF_FN complex<double> rsqrt(complex<double> z) {
  return complex<double>(1.0) / nvf::sqrt(z);
}
NVF_FN complex<float> rsqrt(complex<float> z) {
  return complex<float>(nvf::rsqrt(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::sigmoid with nvf::complex
namespace nvf {
NVF_FN complex<double> sigmoid(complex<double> z) {
  return complex<double>(1.0) / (complex<double>(1.0) + nvf::exp(-z));
}
NVF_FN complex<float> sigmoid(complex<float> z) {
  return complex<float>(nvf::sigmoid(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::silu with nvf::complex
namespace nvf {
NVF_FN complex<double> silu(complex<double> z) {
  return z / (complex<double>(1.0) + nvf::exp(-z));
}
NVF_FN complex<float> silu(complex<float> z) {
  return complex<float>(nvf::silu(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::sin with nvf::complex
namespace nvf {
NVF_FN complex<double> sin(complex<double> z) {
  return {nvf::timesZeroIsZero(::sin(z.re), ::cosh(z.im)),
          nvf::timesZeroIsZero(::cos(z.re), ::sinh(z.im))};
}
NVF_FN complex<float> sin(complex<float> z) {
  return complex<float>(nvf::sin(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::cos with nvf::complex
namespace nvf {
NVF_FN complex<double> cos(complex<double> z) {
  return {nvf::timesZeroIsZero(::cos(z.re), ::cosh(z.im)),
          nvf::timesZeroIsZero(-::sin(z.re), ::sinh(z.im))};
}
NVF_FN complex<float> cos(complex<float> z) {
  return complex<float>(nvf::cos(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::sinh with nvf::complex
namespace nvf {
NVF_FN complex<double> sinh(complex<double> z) {
  return {nvf::timesZeroIsZero(::sinh(z.re), ::cos(z.im)),
          nvf::timesZeroIsZero(::cosh(z.re), ::sin(z.im))};
}
NVF_FN complex<float> sinh(complex<float> z) {
  return complex<float>(nvf::sinh(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::cosh with nvf::complex
namespace nvf {
NVF_FN complex<double> cosh(complex<double> z) {
  return {nvf::timesZeroIsZero(::cosh(z.re), ::cos(z.im)),
          nvf::timesZeroIsZero(::sinh(z.re), ::sin(z.im))};
}
NVF_FN complex<float> cosh(complex<float> z) {
  return complex<float>(nvf::cosh(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::tanh with nvf::complex
namespace nvf {
NVF_FN complex<double> tanh(complex<double> z) {
  if (::fabs(z.re) > 20.0) {
    const double tiny = ::exp(-2.0 * ::fabs(z.re));
    return {::copysign(1.0, z.re), nvf::timesZeroIsZero(tiny, 4.0 * ::sin(z.im) * ::cos(z.im))};
  }
  if (z.re == 0) {
    return {z.re, ::tan(z.im)};
  }
  const double tangent = ::tan(z.im), beta = 1.0 + tangent * tangent;
  const double sine = ::sinh(z.re), rho = ::sqrt(1.0 + sine * sine);
  const double denominator = 1.0 + beta * sine * sine;
  return {beta * rho * sine / denominator, tangent / denominator};
}
NVF_FN complex<float> tanh(complex<float> z) {
  return complex<float>(nvf::tanh(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::tan with nvf::complex
// tan(z) = -i tanh(iz)
namespace nvf {
NVF_FN complex<double> tan(complex<double> z) {
  const complex<double> w = nvf::tanh(complex<double>(-z.im, z.re));
  return {w.im, -w.re};
}
NVF_FN complex<float> tan(complex<float> z) {
  return complex<float>(nvf::tan(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::isInfinite with nvf::complex
namespace nvf {
NVF_FN bool isInfinite(complex<double> z) {
  const double infinity = nvf::infinity<double>();
  return ::fabs(z.re) == infinity || ::fabs(z.im) == infinity;
}
} // namespace nvf

//@ piece nvf::asin with nvf::complex
namespace nvf {
NVF_FN complex<double> asin(complex<double> z) {
  if (nvf::isInfinite(z)) {
    const complex<double> direction = {z.re - z.re == 0 ? 0.0 : 1.0, z.im - z.im == 0 ? 0.0 : 1.0};
    const double angle = ::atan2(direction.re, direction.im);
    const bool has_angle = z.re == z.re && z.im == z.im;
    return {has_angle ? ::copysign(angle, z.re) : nvf::quietNan<double>(),
            ::copysign(nvf::infinity<double>(), z.im)};
  }
  if (z.re == 0 && !(z.im == z.im)) {
    return z;
  }
  const complex<double> minus = nvf::sqrt(complex<double>(1.0 - z.re, -z.im));
  const complex<double> plus = nvf::sqrt(complex<double>(1.0 + z.re, z.im));
  return {::atan2(z.re, minus.re * plus.re - minus.im * plus.im),
          ::asinh(minus.re * plus.im - minus.im * plus.re)};
}
NVF_FN complex<float> asin(complex<float> z) {
  return complex<float>(nvf::asin(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::acos with nvf::complex
namespace nvf {
NVF_FN complex<double> acos(complex<double> z) {
  if (nvf::isInfinite(z)) {
    const complex<double> w = nvf::asin(z);
    return {1.5707963267948966 - w.re, -w.im};
  }
  if (z.re == 0 && !(z.im == z.im)) {
    return {1.5707963267948966, z.im};
  }
  const complex<double> minus = nvf::sqrt(complex<double>(1.0 - z.re, -z.im));
  const complex<double> plus = nvf::sqrt(complex<double>(1.0 + z.re, z.im));
  return {2.0 * ::atan2(minus.re, plus.re), ::asinh(plus.re * minus.im - plus.im * minus.re)};
}
NVF_FN complex<float> acos(complex<float> z) {
  return complex<float>(nvf::acos(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::acosh with nvf::complex
namespace nvf {
NVF_FN complex<double> acosh(complex<double> z) {
  if (nvf::isInfinite(z)) {
    return {nvf::infinity<double>(), ::copysign(1.5707963267948966 - nvf::asin(z).re, z.im)};
  }
  if (z.re == 0 && !(z.im == z.im)) {
    return {z.im, 1.5707963267948966};
  }
  const complex<double> minus = nvf::sqrt(complex<double>(z.re - 1.0, z.im));
  const complex<double> plus = nvf::sqrt(complex<double>(z.re + 1.0, z.im));
  return {::asinh(minus.re * plus.re + minus.im * plus.im), 2.0 * ::atan2(minus.im, plus.re)};
}
NVF_FN complex<float> acosh(complex<float> z) {
  return complex<float>(nvf::acosh(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::asinh with nvf::complex
// asinh(z) = -i asin(iz)
namespace nvf {
NVF_FN complex<double> asinh(complex<double> z) {
  const complex<double> w = nvf::asin(complex<double>(-z.im, z.re));
  return {w.im, -w.re};
}
NVF_FN complex<float> asinh(complex<float> z) {
  return complex<float>(nvf::asinh(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::atanh with nvf::complex
namespace nvf {
NVF_FN complex<double> atanh(complex<double> z) {
  if (z.re == 0 && !(z.im == z.im)) {
    return z;
  }
  if (::fabs(z.re) > 1e150 || ::fabs(z.im) > 1e150) { // the squares would overflow
    const double re = nvf::isInfinite(z) ? ::copysign(0.0, z.re) : (complex<double>(1.0) / z).re;
    return {re, z.im == z.im ? ::copysign(1.5707963267948966, z.im) : z.im};
  }
  const double square = z.im * z.im, size = ::fabs(z.re), below = 1.0 - size;
  const double re = 0.25 * ::log1p(4.0 * size / (below * below + square));
  return {::copysign(re, z.re), 0.5 * ::atan2(2.0 * z.im, below * (1.0 + size) - square)};
}
NVF_FN complex<float> atanh(complex<float> z) {
  return complex<float>(nvf::atanh(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::atan with nvf::complex
// atan(z) = -i atanh(iz)
namespace nvf {
NVF_FN complex<double> atan(complex<double> z) {
  const complex<double> w = nvf::atanh(complex<double>(-z.im, z.re));
  return {w.im, -w.re};
}
NVF_FN complex<float> atan(complex<float> z) {
  return complex<float>(nvf::atan(complex<double>(z)));
}
} // namespace nvf

//@ piece nvf::powComplex
namespace nvf {
NVF_FN nvf::complex<double> powComplex(nvf::complex<double> base, nvf::complex<double> exponent) {
  if (base.re == 0 && base.im == 0) {
    return exponent.re == 0 && exponent.im == 0 ? nvf::complex<double>(1.0)
                                                : nvf::complex<double>(0.0);
  }
  return nvf::exp(exponent * nvf::log(base));
}
NVF_FN nvf::complex<float> powComplex(nvf::complex<float> base, nvf::complex<float> exponent) {
  return nvf::complex<float>(
      nvf::powComplex(nvf::complex<double>(base), nvf::complex<double>(exponent)));
}
} // namespace nvf
