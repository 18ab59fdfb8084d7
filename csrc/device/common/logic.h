// SPDX-License-Identifier: BSD-3-Clause
// Comparisons, logic, bits and shifts.
#pragma once

//@ piece nvf::eq
namespace nvf {
template <class A, class B>
NVF_FN bool eq(A a, B b) {
  return static_cast<nvf::Common<A, B>>(a) == static_cast<nvf::Common<A, B>>(b);
}
} // namespace nvf

//@ piece nvf::ne
namespace nvf {
template <class A, class B>
NVF_FN bool ne(A a, B b) {
  return static_cast<nvf::Common<A, B>>(a) != static_cast<nvf::Common<A, B>>(b);
}
} // namespace nvf

//@ piece nvf::ge
namespace nvf {
template <class A, class B>
NVF_FN bool ge(A a, B b) {
  return static_cast<nvf::Common<A, B>>(a) >= static_cast<nvf::Common<A, B>>(b);
}
} // namespace nvf

//@ piece nvf::gt
namespace nvf {
template <class A, class B>
NVF_FN bool gt(A a, B b) {
  return static_cast<nvf::Common<A, B>>(a) > static_cast<nvf::Common<A, B>>(b);
}
} // namespace nvf

//@ piece nvf::le
namespace nvf {
template <class A, class B>
NVF_FN bool le(A a, B b) {
  return static_cast<nvf::Common<A, B>>(a) <= static_cast<nvf::Common<A, B>>(b);
}
} // namespace nvf

//@ piece nvf::lt
namespace nvf {
template <class A, class B>
NVF_FN bool lt(A a, B b) {
  return static_cast<nvf::Common<A, B>>(a) < static_cast<nvf::Common<A, B>>(b);
}
} // namespace nvf

//@ piece nvf::logical_and
namespace nvf {
template <class A, class B>
NVF_FN bool logical_and(A a, B b) {
  return (nvf::byteOf(nvf::cast<bool>(a)) & nvf::byteOf(nvf::cast<bool>(b))) != 0;
}
} // namespace nvf

//@ piece nvf::logical_or
namespace nvf {
template <class A, class B>
NVF_FN bool logical_or(A a, B b) {
  return (nvf::byteOf(nvf::cast<bool>(a)) | nvf::byteOf(nvf::cast<bool>(b))) != 0;
}
} // namespace nvf

//@ piece nvf::logical_not
namespace nvf {
template <class T>
NVF_FN bool logical_not(T x) {
  return nvf::byteOf(nvf::cast<bool>(x)) == 0;
}
} // namespace nvf

//@ piece nvf::bitwise_and
namespace nvf {
template <class A, class B>
NVF_FN auto bitwise_and(A a, B b) {
  return static_cast<nvf::Common<A, B>>(a & b);
}
} // namespace nvf

//@ piece nvf::bitwise_or
namespace nvf {
template <class A, class B>
NVF_FN auto bitwise_or(A a, B b) {
  return static_cast<nvf::Common<A, B>>(a | b);
}
} // namespace nvf

//@ piece nvf::bitwise_xor
namespace nvf {
template <class A, class B>
NVF_FN auto bitwise_xor(A a, B b) {
  return static_cast<nvf::Common<A, B>>(a ^ b);
}
} // namespace nvf

//@ piece nvf::bitwise_not
namespace nvf {
template <class T>
NVF_FN T bitwise_not(T x) {
  if constexpr (nvf::IsSame<T, bool>) {
    return nvf::byteOf(x) == 0;
  } else {
    return static_cast<T>(~x);
  }
}
} // namespace nvf

//@ piece nvf::bitwise_left_shift
// A shift by the width or more, or by a negative count, gives 0, as in torch.
namespace nvf {
template <class A, class B>
NVF_FN auto bitwise_left_shift(A a, B b) {
  using T = nvf::Common<A, B>;
  constexpr int kBits = 8 * sizeof(T);
  const bool in_range = !(b < B(0)) && static_cast<T>(b) < static_cast<T>(kBits);
  return static_cast<T>(in_range ? static_cast<nvf::MakeUnsigned<T>>(a) << static_cast<int>(b) : 0);
}
} // namespace nvf

//@ piece nvf::bitwise_right_shift
// Arithmetic; a shift by the width or more, or by a negative count, leaves copies of the sign, as
// in torch.
namespace nvf {
template <class A, class B>
NVF_FN auto bitwise_right_shift(A a, B b) {
  using T = nvf::Common<A, B>;
  constexpr bool kSigned = static_cast<T>(-1) < static_cast<T>(0);
  constexpr int kMost = 8 * sizeof(T) - (kSigned ? 1 : 0);
  const bool in_range = !(b < B(0)) && static_cast<T>(b) < static_cast<T>(kMost);
  if constexpr (kSigned) {
    return static_cast<T>(static_cast<T>(a) >> (in_range ? static_cast<int>(b) : kMost));
  } else {
    return static_cast<T>(in_range ? static_cast<T>(a) >> static_cast<int>(b) : T(0));
  }
}
} // namespace nvf

//@ piece nvf::logical_right_shift
// Fills with zeros; a shift by the width or more gives 0.
namespace nvf {
template <class A, class B>
NVF_FN auto logical_right_shift(A a, B b) {
  using T = nvf::Common<A, B>;
  constexpr int kBits = 8 * sizeof(T);
  const bool in_range = !(b < B(0)) && static_cast<T>(b) < static_cast<T>(kBits);
  return static_cast<T>(in_range ? static_cast<nvf::MakeUnsigned<T>>(a) >> static_cast<int>(b) : 0);
}
} // namespace nvf
