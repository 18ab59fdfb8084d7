// SPDX-License-Identifier: BSD-3-Clause
// Trigonometric and hyperbolic functions. float without branches (polynomial.h), double of the C
// library but for tanh; operands of other types are cast before (type rule "F").
#pragma once

//@ piece nvf::quarterTurns
// x = (4 k + quadrant + t) quarter turns, |t| <= 1/2. x / (2 pi) modulo 1, in double: 1 / (2 pi)
// has three parts of 29 bits, whose products with a float are exact, and a fourth, and of each
// product whole turns are dropped (M. Payne and R. Hanek, "Radian reduction for trigonometric
// functions", 1983). From 2^82 on x is a multiple of 2^59 and what the upper bits of 1 / (2 pi)
// make of it are whole turns: other parts come in. No float is closer to a multiple of a quarter
// turn than 2^-30, which the parts hold to 2^-60.
namespace nvf {
NVF_FN double quarterTurns(float x, int& quadrant) {
  const bool is_large = __builtin_fabsf(x) >= 0x1p82f;
  const double wide = static_cast<double>(x);
  const double first = wide * (is_large ? 0x1.4fe13abp-61 : 0x1.45f306dp-3);
  const double second = wide * (is_large ? 0x1.d1f534dp-90 : 0x1.9391054p-32);
  const double third = wide * (is_large ? 0x1.b81b6c5p-119 : 0x1.4fe13abp-61);
  const double fourth = wide * (is_large ? 0x1.5993c439041fep-150 : 0x1.d1f534ddc0db6p-90);
  double rest = 4.0 * (first - __builtin_rint(first)), whole = __builtin_rint(rest), sum = whole;
  rest = (rest - whole) + 4.0 * (second - __builtin_rint(second));
  whole = __builtin_rint(rest);
  sum += whole;
  rest = (rest - whole) + 4.0 * (third - __builtin_rint(third));
  whole = __builtin_rint(rest);
  sum += whole;
  rest = (rest - whole) + 4.0 * fourth;
  whole = __builtin_rint(rest);
  quadrant = static_cast<int>(sum + whole);
  return rest - whole;
}
} // namespace nvf

//@ piece nvf::sinOfQuarter nvf::cosOfQuarter
// Of t quarter turns, |t| <= 1/2, to 2^-34.
namespace nvf {
NVF_FN double sinOfQuarter(double t) {
  return t * nvf::polynomial(t * t, 1.5707963267877352, -0.64596409610012262, 0.079692581789014103,
                             -0.0046812602311090586, 1.5819417718724251e-4);
}
NVF_FN double cosOfQuarter(double t) {
  return nvf::polynomial(t * t, 0.99999999994381839, -1.2337005395472165, 0.25366918219487677,
                         -0.020859933133240478, 9.0335652795257588e-4);
}
} // namespace nvf

//@ piece nvf::sinOfTurns
// sin(t) in quadrant 0, cos(t) in 1, and so on.
namespace nvf {
NVF_FN float sinOfTurns(double t, int quadrant) {
  const double value = (quadrant & 1) != 0 ? nvf::cosOfQuarter(t) : nvf::sinOfQuarter(t);
  return static_cast<float>((quadrant & 2) != 0 ? -value : value);
}
} // namespace nvf

//@ piece nvf::sin
namespace nvf {
NVF_FN float sin(float x) {
  int quadrant;
  const double t = nvf::quarterTurns(x, quadrant);
  const float result = nvf::sinOfTurns(t, quadrant);
  return x == 0.0f ? x : result;
}
NVF_FN double sin(double x) {
  return ::sin(x);
}
} // namespace nvf

//@ piece nvf::cos
namespace nvf {
NVF_FN float cos(float x) {
  int quadrant;
  const double t = nvf::quarterTurns(x, quadrant);
  return nvf::sinOfTurns(t, quadrant + 1);
}
NVF_FN double cos(double x) {
  return ::cos(x);
}
} // namespace nvf

//@ piece nvf::tan
namespace nvf {
NVF_FN float tan(float x) {
  int quadrant;
  const double t = nvf::quarterTurns(x, quadrant);
  const double sine = nvf::sinOfQuarter(t), cosine = nvf::cosOfQuarter(t);
  const bool is_odd = (quadrant & 1) != 0;
  const double result = (is_odd ? -cosine : sine) / (is_odd ? sine : cosine);
  return x == 0.0f ? x : static_cast<float>(result);
}
NVF_FN double tan(double x) {
  return ::tan(x);
}
} // namespace nvf

//@ piece nvf::sinOrCosPi
// sin (which = 0) or cos (1) of pi * turns, for small arguments.
namespace nvf {
NVF_FN float sinOrCosPi(float turns, int which) {
  const float quarters = 2.0f * turns, whole = __builtin_rintf(quarters);
  return nvf::sinOfTurns(quarters - whole, static_cast<int>(whole) + which);
}
NVF_FN double sinOrCosPi(double turns, int which) {
  const double angle = 3.14159265358979323846 * turns;
  return which == 0 ? ::sin(angle) : ::cos(angle);
}
} // namespace nvf

//@ piece nvf::atanOfUnit
// atan(z) for z from 0 to 1.
namespace nvf {
NVF_FN float atanOfUnit(float z) {
  const float square = z * z;
  const float p = nvf::polynomial(square, -0.333332986f, 0.199985489f, -0.142642424f, 0.109521911f,
                                  -0.0840346664f, 0.0579578802f, -0.0311781447f, 0.0109147718f,
                                  -0.00179366022f);
  return nvf::multiplyAdd(square * z, p, z);
}
} // namespace nvf

//@ piece nvf::fromRightAngle
// pi / 2 - x, with pi / 2 in two parts.
namespace nvf {
NVF_FN float fromRightAngle(float x) {
  return 1.57079637f - (x + 4.37113901e-8f);
}
} // namespace nvf

//@ piece nvf::atan
namespace nvf {
NVF_FN float atan(float x) {
  const float size = __builtin_fabsf(x);
  const bool is_large = size > 1.0f;
  const float result = nvf::atanOfUnit(is_large ? 1.0f / size : size);
  return nvf::withSign(is_large ? nvf::fromRightAngle(result) : result, x);
}
NVF_FN double atan(double x) {
  return ::atan(x);
}
} // namespace nvf

//@ piece nvf::atan2Float
// Zeros and infinities of both sizes are at the angles of 0 and of 1.
namespace nvf {
NVF_FN float atan2Float(float y, float x) {
  const float width = __builtin_fabsf(x), height = __builtin_fabsf(y);
  const bool is_steep = height > width;
  const float ratio = is_steep ? width / height : height / width;
  const float same = width == 0.0f ? 0.0f : 1.0f;
  const float angle = nvf::atanOfUnit(width == height ? same : ratio);
  const float first = is_steep ? nvf::fromRightAngle(angle) : angle;
  const float other = 3.14159274f - (first + 8.74227766e-8f);
  const float result = nvf::withSign(nvf::bitsOf<int>(x) < 0 ? other : first, y);
  return x != x ? x : result;
}
} // namespace nvf

//@ piece nvf::atan2
namespace nvf {
template <class A, class B>
NVF_FN auto atan2(A y, B x) {
  using T = nvf::Common<A, B>;
  if constexpr (nvf::IsSame<T, float>) {
    return nvf::atan2Float(y, x);
  } else {
    return ::atan2(static_cast<double>(y), static_cast<double>(x));
  }
}
} // namespace nvf

//@ piece nvf::asinOfSmall
// asin(s) for s from 0 to 0.5625, and its square. (Up to 1/2 only, what is subtracted from a right
// angle would come to more than 1, in coarser units than the result.)
namespace nvf {
NVF_FN float asinOfSmall(float s, float square) {
  const float p = nvf::polynomial(square, 0.166666314f, 0.0750211328f, 0.044230286f, 0.034021426f,
                                  0.00671470771f, 0.0475115366f);
  return nvf::multiplyAdd(square * s, p, s);
}
} // namespace nvf

//@ piece nvf::asin
// Above that by asin(x) = pi / 2 - 2 asin(sqrt((1 - x) / 2)).
namespace nvf {
NVF_FN float asin(float x) {
  const float size = __builtin_fabsf(x);
  const bool is_large = size > 0.5625f;
  const float square = is_large ? 0.5f * (1.0f - size) : x * x;
  const float result = nvf::asinOfSmall(is_large ? ::sqrtf(square) : size, square);
  return nvf::withSign(is_large ? nvf::fromRightAngle(result + result) : result, x);
}
NVF_FN double asin(double x) {
  return ::asin(x);
}
} // namespace nvf

//@ piece nvf::acos
namespace nvf {
NVF_FN float acos(float x) {
  const float size = __builtin_fabsf(x);
  const bool is_large = size > 0.5625f;
  const float square = is_large ? 0.5f * (1.0f - size) : x * x;
  const float angle = nvf::asinOfSmall(is_large ? ::sqrtf(square) : size, square);
  const float twice = angle + angle;
  const float far = x < 0.0f ? 3.14159274f - (twice + 8.74227766e-8f) : twice;
  return is_large ? far : nvf::fromRightAngle(nvf::withSign(angle, x));
}
NVF_FN double acos(double x) {
  return ::acos(x);
}
} // namespace nvf

//@ piece nvf::sinh
namespace nvf {
NVF_FN float sinh(float x) {
  const float size = __builtin_fabsf(x), square = x * x;
  const float p =
      nvf::polynomial(square, 0.166666672f, 0.0083333496f, 1.98361595e-4f, 2.81695111e-6f);
  const float quarter = nvf::quarterExp(size);
  const float half = quarter - 0.0625f / quarter;
  const float large = size > 89.4159851f ? nvf::infinity<float>() : half + half;
  return nvf::withSign(size < 1.0f ? nvf::multiplyAdd(square * size, p, size) : large, x);
}
NVF_FN double sinh(double x) {
  return ::sinh(x);
}
} // namespace nvf

//@ piece nvf::cosh
namespace nvf {
NVF_FN float cosh(float x) {
  const float size = __builtin_fabsf(x);
  const float quarter = nvf::quarterExp(size);
  const float half = quarter + 0.0625f / quarter;
  return size > 89.4159851f ? nvf::infinity<float>() : half + half;
}
NVF_FN double cosh(double x) {
  return ::cosh(x);
}
} // namespace nvf

//@ piece nvf::tanh
// float: x + x^3 P(x^2) up to 0.625, and 1 - 2 / (exp(2 |x|) + 1), which is 1 from 9.01 on.
namespace nvf {
NVF_FN float tanh(float x) {
  const float size = __builtin_fabsf(x), square = x * x;
  const float p = nvf::polynomial(square, -0.333332807f, 0.133314416f, -0.0537397154f,
                                  0.0206390917f, -0.00570499199f);
  const float far = 1.0f - 0.5f / nvf::quarterOfOnePlusExp(size + size);
  const float result = size < 0.625f ? nvf::multiplyAdd(square * size, p, size) : far;
  return nvf::withSign(result, x);
}
NVF_FN double tanh(double x) {
  const double size = __builtin_fabs(x);
  const double twice = nvf::expm1(size > 20.0 ? 40.0 : size + size);
  return nvf::withSign(twice / (twice + 2.0), x);
}
} // namespace nvf

//@ piece nvf::asinh
// In double, where a sum near 1 has enough digits for all but small numbers, which have a series.
namespace nvf {
NVF_FN float asinh(float x) {
  const double size = __builtin_fabs(static_cast<double>(x)), square = size * size;
  const double large = nvf::log(size + ::sqrt(square + 1.0));
  const double small = size * nvf::polynomial(square, 1.0, -0.16666666666666666, 0.075);
  return nvf::withSign(static_cast<float>(size < 0.03125 ? small : large), x);
}
NVF_FN double asinh(double x) {
  return ::asinh(x);
}
} // namespace nvf

//@ piece nvf::acosh
namespace nvf {
NVF_FN float acosh(float x) {
  const double wide = static_cast<double>(x);
  const double result = nvf::log(wide + ::sqrt((wide - 1.0) * (wide + 1.0)));
  return x < 1.0f ? nvf::quietNan<float>() : static_cast<float>(result);
}
NVF_FN double acosh(double x) {
  return ::acosh(x);
}
} // namespace nvf

//@ piece nvf::atanh
namespace nvf {
NVF_FN float atanh(float x) {
  const double size = __builtin_fabs(static_cast<double>(x));
  const double large = 0.5 * nvf::log((1.0 + size) / (1.0 - size));
  const double small = size * nvf::polynomial(size * size, 1.0, 0.3333333333333333, 0.2);
  return nvf::withSign(static_cast<float>(size < 0.03125 ? small : large), x);
}
NVF_FN double atanh(double x) {
  return ::atanh(x);
}
} // namespace nvf
