// SPDX-License-Identifier: BSD-3-Clause
// The two primitives that every small float format implements, and rounding: see cuda/convert.h,
// host/convert.h and float8.h. Arithmetic on these formats and all casts go through float.
#pragma once

//@ piece nvf::toFloat
namespace nvf {
template <class T>
NVF_FN float toFloat(T x);
} // namespace nvf

//@ piece nvf::fromFloat
namespace nvf {
template <class T>
NVF_FN T fromFloat(float x);
} // namespace nvf

//@ piece nvf::pack
// A float that is a value of a 16-bit type, as that type. On a GPU one conversion packs two.
namespace nvf {
template <class T>
NVF_FN T pack(float x) {
  return nvf::fromFloat<T>(x);
}
} // namespace nvf

//@ piece nvf::roundTo
// The nearest value of a 16-bit type, as float.
namespace nvf {
template <class T>
NVF_FN float roundTo(float x) {
  return nvf::toFloat(nvf::fromFloat<T>(x));
}
} // namespace nvf

//@ piece nvf::addIn
// Arithmetic in a 16-bit type, of floats that are its values: the result is rounded to it, once or
// (by way of float, which gives the same) twice.
namespace nvf {
template <class T>
NVF_FN float addIn(float a, float b) {
  return nvf::roundTo<T>(a + b);
}
} // namespace nvf

//@ piece nvf::subIn
namespace nvf {
template <class T>
NVF_FN float subIn(float a, float b) {
  return nvf::roundTo<T>(a - b);
}
} // namespace nvf

//@ piece nvf::mulIn
namespace nvf {
template <class T>
NVF_FN float mulIn(float a, float b) {
  return nvf::roundTo<T>(a * b);
}
} // namespace nvf
