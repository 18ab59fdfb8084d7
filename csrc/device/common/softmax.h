// SPDX-License-Identifier: BSD-3-Clause
// A running maximum and the sum of exp(x - maximum): one pass over the values of a softmax (M.
// Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018).
#pragma once

//@ piece nvf::softmaxBase
// What is subtracted before an exponential is taken: -infinity less itself would be NaN.
namespace nvf {
template <class T>
NVF_FN T softmaxBase(T max) {
  return max == -nvf::infinity<T>() ? T(0) : max;
}
} // namespace nvf

//@ piece nvf::softmaxExp
// exp of a number that is not positive. float: 2^(x log2 e) with one rounding of the product. The
// relative error grows as |x| 2^-23, the value itself falls as exp(x): no term of a sum that has a
// 1 in it is off by more than 2^-23 of the sum.
namespace nvf {
NVF_FN float softmaxExp(float x) {
  return nvf::approx::exp2(x * 1.44269504088896341f);
}
NVF_FN double softmaxExp(double x) {
  return ::exp(x);
}
} // namespace nvf

//@ piece nvf::softmaxStep
// Accumulates N values; the sum is scaled once for all of them.
namespace nvf {
template <int N, class T>
NVF_FN void softmaxStep(T& max, T& sum, const T* x) {
  T top = x[0];
#pragma unroll
  for (int i = 1; i < N; ++i) {
    top = nvf::maximum(top, x[i]);
  }
  top = nvf::maximum(max, top);
  const T base = nvf::softmaxBase(top);
  T total = sum * nvf::softmaxExp(max - base);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    total += nvf::softmaxExp(x[i] - base);
  }
  max = top;
  sum = total;
}
} // namespace nvf
