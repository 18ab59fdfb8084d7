// SPDX-License-Identifier: BSD-3-Clause
// Element types and type traits, the same on both targets.
#pragma once

//@ piece nvf::IsSame
namespace nvf {
template <class A, class B>
constexpr bool IsSame = false;
template <class A>
constexpr bool IsSame<A, A> = true;
} // namespace nvf

//@ piece nvf::If
// nvf::If<condition, T> is T when the condition holds and no type otherwise (SFINAE).
namespace nvf {
template <bool Condition, class T>
struct IfImpl {};
template <class T>
struct IfImpl<true, T> {
  using type = T;
};
template <bool Condition, class T = int>
using If = typename IfImpl<Condition, T>::type;
} // namespace nvf

//@ piece nvf::IsFloating
namespace nvf {
template <class T>
constexpr bool IsFloating = false;
template <>
constexpr bool IsFloating<float> = true;
template <>
constexpr bool IsFloating<double> = true;
} // namespace nvf

//@ piece nvf::IsInteger
// Integers and bool.
namespace nvf {
template <class T>
constexpr bool IsInteger = false;
template <>
constexpr bool IsInteger<bool> = true;
template <>
constexpr bool IsInteger<signed char> = true;
template <>
constexpr bool IsInteger<unsigned char> = true;
template <>
constexpr bool IsInteger<short> = true;
template <>
constexpr bool IsInteger<unsigned short> = true;
template <>
constexpr bool IsInteger<int> = true;
template <>
constexpr bool IsInteger<unsigned int> = true;
template <>
constexpr bool IsInteger<long> = true;
template <>
constexpr bool IsInteger<unsigned long> = true;
template <>
constexpr bool IsInteger<long long> = true;
template <>
constexpr bool IsInteger<unsigned long long> = true;
} // namespace nvf

//@ piece nvf::IsArithmetic
namespace nvf {
template <class T>
constexpr bool IsArithmetic = nvf::IsInteger<T> || nvf::IsFloating<T>;
} // namespace nvf

//@ piece nvf::IsSmallFloat
// Formats that are stored, not computed in: arithmetic on them goes through float.
namespace nvf {
template <class T>
constexpr bool IsSmallFloat = false;
} // namespace nvf

//@ piece nvf::IfSmallFloat
namespace nvf {
template <class T>
using IfSmallFloat = nvf::If<nvf::IsSmallFloat<T>>;
} // namespace nvf

//@ piece nvf::IsComplex
namespace nvf {
template <class T>
constexpr bool IsComplex = false;
} // namespace nvf

//@ piece nvf::Common nvf::CommonImpl
// The type that C++ computes in for two operand types; two bools stay bool.
namespace nvf {
template <class A, class B>
struct CommonImpl {
  using type = decltype(A() + B());
};
template <class A>
struct CommonImpl<A, A> {
  using type = A;
};
template <class A, class B>
using Common = typename CommonImpl<A, B>::type;
} // namespace nvf

//@ piece nvf::MakeUnsigned
namespace nvf {
template <int Bytes>
struct UnsignedOfSize;
template <>
struct UnsignedOfSize<1> {
  using type = unsigned char;
};
template <>
struct UnsignedOfSize<2> {
  using type = unsigned short;
};
template <>
struct UnsignedOfSize<4> {
  using type = unsigned int;
};
template <>
struct UnsignedOfSize<8> {
  using type = unsigned long long;
};
template <class T>
using MakeUnsigned = typename UnsignedOfSize<sizeof(T)>::type;
} // namespace nvf

//@ piece __half also nvf::IfSmallFloat
struct __half {
  unsigned short bits; // IEEE 754 binary16
};
template <>
constexpr bool nvf::IsSmallFloat<__half> = true;

//@ piece __bfloat also nvf::IfSmallFloat
struct __bfloat {
  unsigned short bits; // the upper half of a binary32
};
template <>
constexpr bool nvf::IsSmallFloat<__bfloat> = true;

//@ piece __e4m3 also nvf::IfSmallFloat
struct __e4m3 {
  unsigned char bits; // OCP FP8 E4M3: bias 7, no infinity, NaN = s.1111.111
};
template <>
constexpr bool nvf::IsSmallFloat<__e4m3> = true;

//@ piece __e5m2 also nvf::IfSmallFloat
struct __e5m2 {
  unsigned char bits; // OCP FP8 E5M2: the upper half of a binary16
};
template <>
constexpr bool nvf::IsSmallFloat<__e5m2> = true;

//@ piece __e8m0 also nvf::IfSmallFloat
struct __e8m0 {
  unsigned char bits; // OCP MX scale: value 2^(bits - 127), NaN = 255
};
template <>
constexpr bool nvf::IsSmallFloat<__e8m0> = true;

//@ piece __e2m1 also nvf::IfSmallFloat
struct __e2m1 {
  unsigned char bits; // OCP FP4 E2M1 in the low nibble; memory holds two in a byte, see fp4.h
};
template <>
constexpr bool nvf::IsSmallFloat<__e2m1> = true;

//@ piece nvf::complex
// nvf::complex(re, im), the op, constructs one of the operands' type.
namespace nvf {
template <class T>
struct alignas(2 * sizeof(T)) complex {
  using value_type = T;
  T re, im;

  complex() = default;
  constexpr NVF_FN complex(T real, T imaginary = T(0)) : re(real), im(imaginary) {}
  template <class U>
  constexpr NVF_FN explicit complex(complex<U> other)
      : re(static_cast<T>(other.re)), im(static_cast<T>(other.im)) {}
};
} // namespace nvf

template <class T>
constexpr bool nvf::IsComplex<nvf::complex<T>> = true;

template <class T>
struct nvf::CommonImpl<nvf::complex<T>, nvf::complex<T>> {
  using type = nvf::complex<T>;
};
template <class T, class U>
struct nvf::CommonImpl<nvf::complex<T>, nvf::complex<U>> {
  using type = nvf::complex<decltype(T() + U())>;
};
template <class T, class U>
struct nvf::CommonImpl<nvf::complex<T>, U> {
  using type = nvf::complex<T>; // a real scalar does not widen a complex tensor
};
template <class T, class U>
struct nvf::CommonImpl<T, nvf::complex<U>> {
  using type = nvf::complex<U>;
};

//@ piece nvf::complex
namespace nvf {
template <class T>
NVF_FN complex<T> operator-(complex<T> a) {
  return {-a.re, -a.im};
}

// A real operand is converted to a complex number: inf and nan then behave as in torch.
#define NVF_COMPLEX_OPERATOR(op, Result)                             \
  template <class T, class U, nvf::If<nvf::IsArithmetic<U>> = 0>     \
  NVF_FN Result operator op(complex<T> a, U b) {                     \
    return a op complex<T>(static_cast<T>(b));                       \
  }                                                                  \
  template <class T, class U, nvf::If<nvf::IsArithmetic<U>> = 0>     \
  NVF_FN Result operator op(U a, complex<T> b) {                     \
    return complex<T>(static_cast<T>(a)) op b;                       \
  }                                                                  \
  template <class T, class U, nvf::If<(sizeof(T) != sizeof(U))> = 0> \
  NVF_FN auto operator op(complex<T> a, complex<U> b) {              \
    using Wide = nvf::complex<decltype(T() + U())>;                  \
    return Wide(a) op Wide(b);                                       \
  }

template <class T>
NVF_FN complex<T> operator+(complex<T> a, complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}
NVF_COMPLEX_OPERATOR(+, complex<T>)

template <class T>
NVF_FN complex<T> operator-(complex<T> a, complex<T> b) {
  return {a.re - b.re, a.im - b.im};
}
NVF_COMPLEX_OPERATOR(-, complex<T>)

template <class T>
NVF_FN complex<T> operator*(complex<T> a, complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
NVF_COMPLEX_OPERATOR(*, complex<T>)

// R. L. Smith, "Algorithm 116: Complex division", CACM 5 (1962): no overflow of |b|^2.
template <class T>
NVF_FN complex<T> operator/(complex<T> a, complex<T> b) {
  const T abs_re = b.re < 0 ? -b.re : b.re;
  const T abs_im = b.im < 0 ? -b.im : b.im;
  if (abs_re == 0 && abs_im == 0) {
    return {a.re / abs_re, a.im / abs_im};
  }
  const bool re_is_larger = abs_re >= abs_im;
  const T ratio = re_is_larger ? b.im / b.re : b.re / b.im;
  const T scale = T(1) / (re_is_larger ? b.re + b.im * ratio : b.re * ratio + b.im);
  if (re_is_larger) {
    return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
  }
  return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
}
NVF_COMPLEX_OPERATOR(/, complex<T>)

template <class T>
NVF_FN bool operator==(complex<T> a, complex<T> b) {
  return a.re == b.re && a.im == b.im;
}
NVF_COMPLEX_OPERATOR(==, bool)

template <class T>
NVF_FN bool operator!=(complex<T> a, complex<T> b) {
  return !(a == b);
}
NVF_COMPLEX_OPERATOR(!=, bool)

#undef NVF_COMPLEX_OPERATOR
} // namespace nvf
