// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic of one and two operands, with torch's semantics. Mixed operand types are computed in
// nvf::Common (C++'s rule); the type rules of the ops insert the casts that torch would make.
#pragma once

//@ piece nvf::add
namespace nvf {
template <class A, class B>
NVF_FN auto add(A a, B b) {
  return static_cast<nvf::Common<A, B>>(a + b);
}
} // namespace nvf

//@ piece nvf::sub
namespace nvf {
template <class A, class B>
NVF_FN auto sub(A a, B b) {
  return static_cast<nvf::Common<A, B>>(a - b);
}
} // namespace nvf

//@ piece nvf::mul
namespace nvf {
template <class A, class B>
NVF_FN auto mul(A a, B b) {
  return static_cast<nvf::Common<A, B>>(a * b);
}
} // namespace nvf

//@ piece nvf::neg
namespace nvf {
template <class T>
NVF_FN T neg(T x) {
  return nvf::opaque(static_cast<T>(-x));
}
} // namespace nvf

//@ piece nvf::dividedByZero
// What CUDA's integer division gives as quotient and as remainder where the divisor is 0, and with
// it torch on a GPU: all ones. 64-bit numbers that fit in 32 bits are divided as such: 32 ones.
namespace nvf {
template <class T>
NVF_FN T dividedByZero(T a) {
  if constexpr (sizeof(T) == 8) {
    constexpr T kWord = static_cast<T>(0xffffffffu);
    return a >= 0 && a <= kWord ? kWord : static_cast<T>(-1);
  } else {
    return static_cast<T>(-1);
  }
}
} // namespace nvf

//@ piece nvf::divideIntegers
// C's truncating division, defined everywhere: also by 0, and the most negative number / -1 wraps.
// On a CPU both would end the process.
namespace nvf {
template <class T>
NVF_FN T divideIntegers(T a, T b) {
  if (b == 0) {
    return nvf::dividedByZero(a);
  }
  if constexpr (static_cast<T>(-1) < static_cast<T>(0)) {
    if (b == static_cast<T>(-1)) {
      return static_cast<T>(0 - static_cast<nvf::MakeUnsigned<T>>(a));
    }
  }
  return nvf::quotient(a, b);
}
} // namespace nvf

//@ piece nvf::moduloIntegers
// C's remainder, defined everywhere.
namespace nvf {
template <class T>
NVF_FN T moduloIntegers(T a, T b) {
  if (b == 0) {
    return nvf::dividedByZero(a);
  }
  if constexpr (static_cast<T>(-1) < static_cast<T>(0)) {
    if (b == static_cast<T>(-1)) {
      return 0;
    }
  }
  return nvf::restOfDivision(a, b);
}
} // namespace nvf

//@ piece nvf::divideNumbers
// Of a type that is no integer.
namespace nvf {
template <class T>
NVF_FN T divideNumbers(T a, T b) {
  if constexpr (nvf::IsSame<T, float>) {
    return nvf::divideFloats(a, b);
  } else {
    return a / b;
  }
}
} // namespace nvf

//@ piece nvf::div
namespace nvf {
template <class A, class B>
NVF_FN auto div(A a, B b) {
  using T = nvf::Common<A, B>;
  if constexpr (nvf::IsInteger<T>) {
    return nvf::divideIntegers(static_cast<T>(a), static_cast<T>(b));
  } else {
    return nvf::divideNumbers(static_cast<T>(a), static_cast<T>(b));
  }
}
} // namespace nvf

//@ piece nvf::truediv
namespace nvf {
template <class A, class B>
NVF_FN auto truediv(A a, B b) {
  using T = nvf::Common<A, B>;
  if constexpr (nvf::IsInteger<T>) {
    return nvf::divideFloats(static_cast<float>(a), static_cast<float>(b));
  } else {
    return nvf::divideNumbers(static_cast<T>(a), static_cast<T>(b));
  }
}
} // namespace nvf

//@ piece nvf::ceilDiv
// For extents: a >= 0, b > 0.
namespace nvf {
template <class A, class B>
NVF_FN auto ceilDiv(A a, B b) {
  using T = nvf::Common<A, B>;
  return nvf::divideIntegers(static_cast<T>(a + b - 1), static_cast<T>(b));
}
} // namespace nvf

//@ piece nvf::fmod
// C's fmod: the sign of the dividend.
namespace nvf {
template <class A, class B>
NVF_FN auto fmod(A a, B b) {
  using T = nvf::Common<A, B>;
  if constexpr (nvf::IsInteger<T>) {
    return nvf::moduloIntegers(static_cast<T>(a), static_cast<T>(b));
  } else if constexpr (nvf::IsSame<T, float>) {
    return nvf::fmodFloat(a, b);
  } else {
    return ::fmod(static_cast<double>(a), static_cast<double>(b));
  }
}
} // namespace nvf

//@ piece nvf::mod
// C's %.
namespace nvf {
template <class A, class B>
NVF_FN auto mod(A a, B b) {
  return nvf::fmod(a, b);
}
} // namespace nvf

//@ piece nvf::remainder
// torch.remainder: the sign of the divisor.
namespace nvf {
template <class A, class B>
NVF_FN auto remainder(A a, B b) {
  using T = nvf::Common<A, B>;
  const T rest = nvf::fmod(static_cast<T>(a), static_cast<T>(b));
  const bool other_sign = (rest < 0) != (b < 0);
  return static_cast<T>(rest != 0 && b != 0 && other_sign ? rest + b : rest);
}
} // namespace nvf

//@ piece nvf::powIntegers
// torch's integer power: wraps; a negative exponent gives 1 / base^n truncated.
namespace nvf {
template <class T>
NVF_FN T powIntegers(T base, T exponent) {
  if (exponent < T(0)) {
    if (base == T(1)) {
      return 1;
    }
    return base == static_cast<T>(-1) ? ((exponent & 1) != 0 ? static_cast<T>(-1) : T(1)) : T(0);
  }
  nvf::MakeUnsigned<T> result = 1, factor = static_cast<nvf::MakeUnsigned<T>>(base);
  for (; exponent != 0; exponent = static_cast<T>(exponent >> 1)) {
    if ((exponent & 1) != 0) {
      result *= factor;
    }
    factor *= factor;
  }
  return static_cast<T>(result);
}
} // namespace nvf

//@ piece nvf::pow
namespace nvf {
template <class A, class B>
NVF_FN auto pow(A a, B b) {
  using T = nvf::Common<A, B>;
  if constexpr (nvf::IsComplex<T>) {
    return nvf::powComplex(T(a), T(b));
  } else if constexpr (nvf::IsInteger<T>) {
    return nvf::powIntegers(static_cast<T>(a), static_cast<T>(b));
  } else if constexpr (nvf::IsSame<T, float>) {
    return nvf::powFloat(a, b);
  } else {
    return ::pow(static_cast<double>(a), static_cast<double>(b));
  }
}
} // namespace nvf

//@ piece nvf::minimum
// NaN wins, as in torch.
namespace nvf {
template <class A, class B>
NVF_FN auto minimum(A a_in, B b_in) {
  using T = nvf::Common<A, B>;
  if constexpr (nvf::IsSmallFloat<T>) {
    return nvf::fromFloat<T>(nvf::minimumFloat(nvf::toFloat(a_in), nvf::toFloat(b_in)));
  } else {
    const T a = static_cast<T>(a_in), b = static_cast<T>(b_in);
    if constexpr (nvf::IsSame<T, float>) {
      return nvf::minimumFloat(a, b);
    } else {
      return nvf::opaque((a < b) | (a != a) ? a : b);
    }
  }
}
} // namespace nvf

//@ piece nvf::maximum
// NaN wins, as in torch.
namespace nvf {
template <class A, class B>
NVF_FN auto maximum(A a_in, B b_in) {
  using T = nvf::Common<A, B>;
  if constexpr (nvf::IsSmallFloat<T>) {
    return nvf::fromFloat<T>(nvf::maximumFloat(nvf::toFloat(a_in), nvf::toFloat(b_in)));
  } else {
    const T a = static_cast<T>(a_in), b = static_cast<T>(b_in);
    if constexpr (nvf::IsSame<T, float>) {
      return nvf::maximumFloat(a, b);
    } else {
      return nvf::opaque((a > b) | (a != a) ? a : b);
    }
  }
}
} // namespace nvf

//@ piece nvf::nextafter
namespace nvf {
template <class A, class B>
NVF_FN auto nextafter(A from, B to) {
  using T = nvf::Common<A, B>;
  if constexpr (nvf::IsSame<T, float>) {
    return ::nextafterf(from, to);
  } else {
    return ::nextafter(static_cast<double>(from), static_cast<double>(to));
  }
}
} // namespace nvf

//@ piece nvf::gcd
// Of the absolute values, by Euclid's algorithm.
namespace nvf {
template <class A, class B>
NVF_FN auto gcd(A a_in, B b_in) {
  using T = nvf::Common<A, B>;
  using U = nvf::MakeUnsigned<T>;
  const T a = static_cast<T>(a_in), b = static_cast<T>(b_in);
  U x = a < T(0) ? U(0) - static_cast<U>(a) : static_cast<U>(a);
  U y = b < T(0) ? U(0) - static_cast<U>(b) : static_cast<U>(b);
  while (x != 0) {
    const U rest = static_cast<U>(y % x);
    y = x;
    x = rest;
  }
  return static_cast<T>(y);
}
} // namespace nvf

//@ piece nvf::abs
namespace nvf {
NVF_FN float abs(float x) {
  return ::fabsf(x);
}
NVF_FN double abs(double x) {
  return ::fabs(x);
}
template <class T, nvf::If<nvf::IsInteger<T>> = 0>
NVF_FN T abs(T x) {
  return x < T(0) ? static_cast<T>(0 - static_cast<nvf::MakeUnsigned<T>>(x)) : x;
}
} // namespace nvf

//@ piece nvf::abs with nvf::IfSmallFloat
namespace nvf {
template <class T, nvf::IfSmallFloat<T> = 0>
NVF_FN T abs(T x) {
  return nvf::fromFloat<T>(nvf::abs(nvf::toFloat(x)));
}
} // namespace nvf

//@ piece nvf::sign
// -1, 0 or 1; NaN has sign 0, as in torch.
namespace nvf {
template <class T, nvf::If<nvf::IsArithmetic<T>> = 0>
NVF_FN T sign(T x) {
  return static_cast<T>(static_cast<T>(T(0) < x) - static_cast<T>(x < T(0)));
}
} // namespace nvf

//@ piece nvf::sign with nvf::IfSmallFloat
namespace nvf {
template <class T, nvf::IfSmallFloat<T> = 0>
NVF_FN T sign(T x) {
  return nvf::fromFloat<T>(nvf::sign(nvf::toFloat(x)));
}
} // namespace nvf

//@ piece nvf::relu
// NaN stays NaN, as in torch.
namespace nvf {
template <class T, nvf::If<nvf::IsArithmetic<T>> = 0>
NVF_FN T relu(T x) {
  return nvf::maximum(x, T(0));
}
} // namespace nvf

//@ piece nvf::relu with nvf::IfSmallFloat
namespace nvf {
template <class T, nvf::IfSmallFloat<T> = 0>
NVF_FN T relu(T x) {
  return nvf::fromFloat<T>(nvf::relu(nvf::toFloat(x)));
}
} // namespace nvf

//@ piece nvf::reciprocal
namespace nvf {
template <class T>
NVF_FN T reciprocal(T x) {
  return nvf::divideNumbers(T(1), x);
}
} // namespace nvf

//@ piece nvf::set
namespace nvf {
template <class T>
NVF_FN T set(T x) {
  return x;
}
} // namespace nvf

//@ piece nvf::real
namespace nvf {
template <class T>
NVF_FN T real(T x) {
  return x;
}
} // namespace nvf

//@ piece nvf::real with nvf::complex
namespace nvf {
template <class T>
NVF_FN T real(nvf::complex<T> x) {
  return x.re;
}
} // namespace nvf

//@ piece nvf::imag with nvf::complex
namespace nvf {
template <class T>
NVF_FN T imag(nvf::complex<T> x) {
  return x.im;
}
} // namespace nvf
