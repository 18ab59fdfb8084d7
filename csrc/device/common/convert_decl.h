// SPDX-License-Identifier: BSD-3-Clause
// The two primitives that every small float format implements: see cuda/convert.h, host/convert.h
// and float8.h. Arithmetic on these formats and all casts go through float.
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
