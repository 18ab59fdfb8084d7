// SPDX-License-Identifier: BSD-3-Clause
// Exponentials, logarithms and what is made of them, without branches (polynomial.h). float and
// double; operands of other types are cast before (type rule "F"). The largest errors over all
// floats are given in units of the last place (ulp) of the float result.
#pragma once

//@ piece nvf::expOfRest
// exp(r) for |r| <= ln(2) / 2. In float the 1 is added last, to something that is exact enough.
namespace nvf {
NVF_FN float expOfRest(float r) {
  const float p =
      nvf::polynomial(r, 0.49999994f, 0.166665211f, 0.041668389f, 0.00836871658f, 0.00138145976f);
  return 1.0f + nvf::multiplyAdd(r * r, p, r);
}
NVF_FN double expOfRest(double r) {
  return nvf::polynomial(r, 1.0, 1.0, 0.5, 0.16666666666666688, 0.041666666666666845,
                         0.008333333333312971, 0.0013888888888757278, 1.9841269906220211e-4,
                         2.4801587629546797e-5, 2.7557225279386284e-6, 2.7556979126889183e-7,
                         2.5115288686536598e-8, 2.1014184118328169e-9);
}
} // namespace nvf

//@ piece nvf::multiplesOfLn2
// x = n ln(2) + rest with the integer n nearest to x / ln(2). ln(2) has two parts, so that the
// first product is exact (W. J. Cody and W. Waite, "Software Manual for the Elementary Functions",
// 1980).
namespace nvf {
NVF_FN float multiplesOfLn2(float x, int& n) {
  const float whole = __builtin_rintf(x * 1.44269504f);
  n = static_cast<int>(whole);
  return nvf::multiplyAdd(whole, 2.12194440e-4f, nvf::multiplyAdd(whole, -0.693359375f, x));
}
NVF_FN double multiplesOfLn2(double x, int& n) {
  const double whole = __builtin_rint(x * 1.4426950408889634);
  n = static_cast<int>(whole);
  return nvf::multiplyAdd(whole, -1.9082149292705877e-10,
                          nvf::multiplyAdd(whole, -0x1.62e42feep-1, x));
}
} // namespace nvf

//@ piece nvf::exp
namespace nvf {
NVF_FN float exp(float x) {
  int n;
  const float rest = nvf::multiplesOfLn2(x, n);
  const float result = nvf::scaleByPowerOfTwo(nvf::expOfRest(rest), n);
  return nvf::withLimits(x, -104.0f, result, 88.7228394f);
}
NVF_FN double exp(double x) {
  int n;
  const double rest = nvf::multiplesOfLn2(x, n);
  const double result = nvf::scaleByPowerOfTwo(nvf::expOfRest(rest), n);
  return nvf::withLimits(x, -746.0, result, 709.78271289338409);
}
} // namespace nvf

//@ piece nvf::quarterExp
// exp(x) / 4, which does not overflow where sinh and cosh do not, and is bounded beyond. Numbers
// below -86 are taken as -86, which is as good beside a 1.
namespace nvf {
NVF_FN float quarterExp(float x) {
  int n;
  const float rest = nvf::multiplesOfLn2(nvf::between(-86.0f, x, 89.4159851f), n);
  return nvf::expOfRest(rest) * nvf::powerOfTwo<float>(n - 2);
}
} // namespace nvf

//@ piece nvf::exp2
namespace nvf {
NVF_FN float exp2(float x) {
  const float whole = __builtin_rintf(x);
  const float p = nvf::polynomial(x - whole, 1.0f, 0.693147182f, 0.240226477f, 0.0555033237f,
                                  0.00961843692f, 0.00133988739f, 1.53533852e-4f);
  const float result = nvf::scaleByPowerOfTwo(p, static_cast<int>(whole));
  return nvf::withLimits(x, -151.0f, result, 128.0f);
}
NVF_FN double exp2(double x) {
  const double whole = __builtin_rint(x);
  const double result = nvf::scaleByPowerOfTwo(nvf::expOfRest((x - whole) * 0.6931471805599453),
                                               static_cast<int>(whole));
  return nvf::withLimits(x, -1076.0, result, 1024.0);
}
} // namespace nvf

//@ piece nvf::expm1OfRest
// exp(r) - 1 for |r| <= ln(2) / 2.
namespace nvf {
NVF_FN float expm1OfRest(float r) {
  const float p = nvf::polynomial(r, 0.5f, 0.166666672f, 0.0416663252f, 0.00833321922f,
                                  0.00139433076f, 1.99623348e-4f);
  return nvf::multiplyAdd(r * r, p, r);
}
NVF_FN double expm1OfRest(double r) {
  const double p = nvf::polynomial(
      r, 0.5, 0.16666666666666666, 0.041666666666666692, 0.0083333333333333454,
      0.0013888888888870219, 1.9841269841207622e-4, 2.4801587353627657e-5, 2.7557319362809341e-6,
      2.7557248706330628e-7, 2.5051967243302344e-8, 2.0922625640731029e-9, 1.6120255899470535e-10);
  return nvf::multiplyAdd(r * r, p, r);
}
} // namespace nvf

//@ piece nvf::expm1
// 2^n (exp(r) - 1) + (2^n - 1), halved, since 2^128 is no float. Small numbers are their own
// result.
namespace nvf {
NVF_FN float expm1(float x) {
  int n;
  const float rest = nvf::multiplesOfLn2(nvf::between(-26.0f, x, 89.0f), n);
  const float scale = nvf::powerOfTwo<float>(n - 1);
  const float half = nvf::multiplyAdd(scale, nvf::expm1OfRest(rest), scale - 0.5f);
  return __builtin_fabsf(x) < 1e-8f ? x : half + half;
}
NVF_FN double expm1(double x) {
  int n;
  const double rest = nvf::multiplesOfLn2(nvf::between(-60.0, x, 710.0), n);
  const double scale = nvf::powerOfTwo<double>(n - 1);
  const double half = nvf::multiplyAdd(scale, nvf::expm1OfRest(rest), scale - 0.5);
  return __builtin_fabs(x) < 1e-17 ? x : half + half;
}
} // namespace nvf

//@ piece nvf::quarterOfOnePlusExp
// (1 + exp(x)) / 4 = (2^n + 1 + 2^n (exp(r) - 1)) / 4: exp(x) itself is not rounded. In float 2^n +
// 1 would be from n = 24 on, where the 1 still counts for a few n: there it goes to exp(r) - 1, as
// 2^-n.
namespace nvf {
NVF_FN float quarterOfOnePlusExp(float x) {
  int n;
  const float rest = nvf::multiplesOfLn2(nvf::between(-86.0f, x, 89.4159851f), n);
  const float scale = nvf::powerOfTwo<float>(n - 2);
  const bool is_edge = (n >= 24) & (n < 29);
  const float one = is_edge ? nvf::powerOfTwo<float>(-n) : 0.0f;
  return nvf::multiplyAdd(scale, nvf::expm1OfRest(rest) + one, is_edge ? scale : scale + 0.25f);
}
NVF_FN double quarterOfOnePlusExp(double x) {
  int n;
  const double rest = nvf::multiplesOfLn2(nvf::between(-700.0, x, 710.0), n);
  const double scale = nvf::powerOfTwo<double>(n - 2);
  return nvf::multiplyAdd(scale, nvf::expm1OfRest(rest), scale + 0.25);
}
} // namespace nvf

//@ piece nvf::sech2
// The formula of cuda/exponential.h.
namespace nvf {
NVF_FN float sech2(float x) {
  const float small = nvf::exp(-2.0f * __builtin_fabsf(x)), part = 1.0f / (1.0f + small);
  return 4.0f * (small * part) * part;
}
NVF_FN double sech2(double x) {
  const double small = nvf::exp(-2.0 * __builtin_fabs(x)), part = 1.0 / (1.0 + small);
  return 4.0 * (small * part) * part;
}
} // namespace nvf

//@ piece nvf::sigmoid
// 0 where exp(-x) is infinite, as torch has it.
namespace nvf {
NVF_FN float sigmoid(float x) {
  return 1.0f / (4.0f * nvf::quarterOfOnePlusExp(-x));
}
NVF_FN double sigmoid(double x) {
  return 1.0 / (4.0 * nvf::quarterOfOnePlusExp(-x));
}
} // namespace nvf

//@ piece nvf::silu
// x * sigmoid(x). One division, so that the result is right where sigmoid is subnormal or 0.
namespace nvf {
NVF_FN float silu(float x) {
  return x / (4.0f * nvf::quarterOfOnePlusExp(-x));
}
NVF_FN double silu(double x) {
  return x / (4.0 * nvf::quarterOfOnePlusExp(-x));
}
} // namespace nvf

//@ piece nvf::splitBinary
// x = m 2^n, m from 2/3 to 4/3 (float) or from sqrt(1/2) to sqrt(2) (double). The logarithm of m is
// then small, and exact where x is near 1. For positive finite numbers.
namespace nvf {
NVF_FN float splitBinary(float x, int& n) {
  const bool is_subnormal = x < 0x1p-126f;
  const int bits = nvf::bitsOf<int>(is_subnormal ? x * 0x1p23f : x);
  const int exponent = (bits - 0x3f2aaaab) >> 23;
  n = exponent - (is_subnormal ? 23 : 0);
  return nvf::bitsOf<float>(bits - (exponent << 23));
}
NVF_FN double splitBinary(double x, int& n) {
  const bool is_subnormal = x < 0x1p-1022;
  const long long bits = nvf::bitsOf<long long>(is_subnormal ? x * 0x1p52 : x);
  const int exponent = static_cast<int>((bits - 0x3fe6a09e667f3bcdll) >> 32) >> 20;
  n = exponent - (is_subnormal ? 52 : 0);
  return nvf::bitsOf<double>(bits - (static_cast<long long>(exponent) << 52));
}
} // namespace nvf

//@ piece nvf::logOfRest
// log(1 + f) for f from -1/3 to 1/3. f itself is added last, so that the error of the rest, which
// is smaller, hardly counts.
namespace nvf {
NVF_FN float logOfRest(float f) {
  const float p =
      nvf::polynomial(f, -0.5f, 0.333333343f, -0.249996066f, 0.199997574f, -0.1668576f,
                      0.142988801f, -0.121260703f, 0.108252473f, -0.131142408f, 0.117076218f);
  return nvf::multiplyAdd(f * f, p, f);
}
} // namespace nvf

//@ piece nvf::logOrSpecial
// What logarithms are at 0, below it, of infinity and NaN; `result` elsewhere.
namespace nvf {
template <class T>
NVF_FN T logOrSpecial(T x, T result) {
  const T nonpositive = x == T(0) ? -nvf::infinity<T>() : nvf::quietNan<T>();
  const T positive = x < nvf::infinity<T>() ? result : x;
  return x > T(0) ? positive : nonpositive;
}
} // namespace nvf

//@ piece nvf::logOfSplit
// log((1 + f) 2^n). In double by the series of 2 artanh(s), s = f / (2 + f), in the form of
// FreeBSD's e_log.c: s f = f^2 / 2 - s f^2 / 2, so that f is added last.
namespace nvf {
NVF_FN float logOfSplit(float f, int n) {
  return nvf::multiplyAdd(static_cast<float>(n), 0.693147182f, nvf::logOfRest(f));
}
NVF_FN double logOfSplit(double f, int n) {
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double tail =
      z * nvf::polynomial(z, 0.6666666666666734, 0.3999999999941638, 0.28571428742013782,
                          0.22222198610997443, 0.18183562392399785, 0.15314099197976222,
                          0.14795471200907023);
  const double half_square = 0.5 * f * f;
  const double whole = static_cast<double>(n);
  const double rest = nvf::multiplyAdd(s, half_square + tail, whole * 1.9082149292705877e-10);
  return whole * 0x1.62e42feep-1 - ((half_square - rest) - f);
}
} // namespace nvf

//@ piece nvf::log
namespace nvf {
NVF_FN float log(float x) {
  int n;
  const float f = nvf::splitBinary(x, n) - 1.0f;
  return nvf::logOrSpecial(x, nvf::logOfSplit(f, n));
}
NVF_FN double log(double x) {
  int n;
  const double f = nvf::splitBinary(x, n) - 1.0;
  return nvf::logOrSpecial(x, nvf::logOfSplit(f, n));
}
} // namespace nvf

//@ piece nvf::log2
namespace nvf {
NVF_FN float log2(float x) {
  int n;
  const float f = nvf::splitBinary(x, n) - 1.0f;
  const float p =
      nvf::polynomial(f, 0.442695051f, -0.72134757f, 0.480895817f, -0.360668778f, 0.288718313f,
                      -0.240699798f, 0.201698691f, -0.175262585f, 0.203238577f, -0.187832177f);
  const float rest = nvf::multiplyAdd(f, p, f);
  return nvf::logOrSpecial(x, static_cast<float>(n) + rest);
}
NVF_FN double log2(double x) {
  int n;
  const double rest = nvf::logOfSplit(nvf::splitBinary(x, n) - 1.0, 0);
  const double low = rest * 2.0355273740931033e-17; // 1 / ln(2) in two parts
  return nvf::logOrSpecial(
      x, nvf::multiplyAdd(rest, 1.4426950408889634, static_cast<double>(n) + low));
}
} // namespace nvf

//@ piece nvf::log10
namespace nvf {
NVF_FN float log10(float x) {
  int n;
  const float f = nvf::splitBinary(x, n) - 1.0f;
  // 1 / ln(10) and log10(2) in two parts.
  const float p =
      nvf::polynomial(f, -1.01030501e-8f, -0.217147246f, 0.144764066f, -0.108572125f, 0.0869128704f,
                      -0.0724578574f, 0.0607173555f, -0.0527592935f, 0.0611809082f, -0.0565431193f);
  const float whole = static_cast<float>(n);
  const float low = nvf::multiplyAdd(f, p, whole * -1.43209889e-8f);
  const float rest = nvf::multiplyAdd(f, 0.434294492f, low);
  return nvf::logOrSpecial(x, nvf::multiplyAdd(whole, 0.301030010f, rest));
}
NVF_FN double log10(double x) {
  return ::log10(x);
}
} // namespace nvf

//@ piece nvf::log1p
// 1 + x = m 2^n, and m - 1 = x 2^-n + (2^-n - 1) is rounded once. From some power of two on the 1
// does not count.
namespace nvf {
NVF_FN float log1p(float x) {
  const float sum = 1.0f + x;
  int n;
  const float m = nvf::splitBinary(sum, n);
  const float scale = nvf::powerOfTwo<float>(-n);
  const float f = x < 0x1p25f ? nvf::multiplyAdd(x, scale, scale - 1.0f) : m - 1.0f;
  return x == 0.0f ? x : nvf::logOrSpecial(sum, nvf::logOfSplit(f, n));
}
NVF_FN double log1p(double x) {
  const double sum = 1.0 + x;
  int n;
  const double m = nvf::splitBinary(sum, n);
  const double scale = nvf::powerOfTwo<double>(-n);
  const double f = x < 0x1p54 ? nvf::multiplyAdd(x, scale, scale - 1.0) : m - 1.0;
  return x == 0.0 ? x : nvf::logOrSpecial(sum, nvf::logOfSplit(f, n));
}
} // namespace nvf

//@ piece nvf::powFloat nvf::logForPow
// By a logarithm and an exponential in double, of about 30 bits after the multiplication by b:
// hardly more than half a unit of the float. Exponents that are known when the kernel is compiled
// take what torch takes for them.
namespace nvf {
NVF_FN double logForPow(float a) {
  const double x = static_cast<double>(a);
  int n;
  const double m = nvf::splitBinary(x, n);
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  const double p = nvf::polynomial(z, 2.8853900817779272, 0.96179669392432454, 0.57707801725030483,
                                   0.41219840147140357, 0.32061642595027456, 0.26144310686503058,
                                   0.24292902671425956);
  return nvf::logOrSpecial(x, nvf::multiplyAdd(s, p, static_cast<double>(n)));
}
NVF_FN float powFloat(float a, float b) {
  if (__builtin_constant_p(b)) {
    if (b == 2.0f) {
      return a * a;
    }
    if (b == 3.0f) {
      return a * a * a;
    }
    if (b == -1.0f) {
      return 1.0f / a;
    }
    if (b == -2.0f) {
      return 1.0f / (a * a);
    }
  }
  const double log = nvf::logForPow(__builtin_fabsf(a));
  const double exponent = nvf::between(-160.0, log * static_cast<double>(b), 130.0);
  const double whole = __builtin_rint(exponent);
  const double p = nvf::polynomial(exponent - whole, 1.0, 0.69314720285463782, 0.2402264791434251,
                                   0.055503324719447258, 0.0096184372690863492,
                                   0.0013398874071960439, 1.5353385627006966e-4);
  const float magnitude = static_cast<float>(p * nvf::powerOfTwo<double>(static_cast<int>(whole)));
  // What depends on b alone is made numbers: loops in which it is the same for all elements are not
  // vectorized over selections by such a condition.
  const bool is_integer = __builtin_rintf(b) == b;
  const int not_integer = is_integer ? 0 : -1;
  const int is_odd = is_integer & (__builtin_rintf(0.5f * b) != 0.5f * b) ? -1 : 0;
  const int is_zero = b == 0.0f ? -1 : 0;
  const int is_infinite = __builtin_fabsf(b) == nvf::infinity<float>() ? -1 : 0;
  const int bits_of_a = nvf::bitsOf<int>(a);
  const bool is_negative = (a < 0.0f) & (a > -nvf::infinity<float>());
  const int no_number = is_negative ? 0x7fc00000 & not_integer : 0;
  const int sign = bits_of_a & is_odd & static_cast<int>(0x80000000u);
  const float result = nvf::bitsOf<float>(nvf::bitsOf<int>(magnitude) | sign | no_number);
  const int minus_one = a == -1.0f ? is_infinite : 0;
  return (is_zero | minus_one | (a == 1.0f ? -1 : 0)) != 0 ? 1.0f : result;
}
} // namespace nvf
