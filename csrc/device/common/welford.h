// SPDX-License-Identifier: BSD-3-Clause
// Welford's running mean and sum of squared deviations ("Note on a method for calculating corrected
// sums of squares and products", Technometrics 1962).
#pragma once

//@ piece nvf::withoutShare
// What is left of the deviation from the new mean: value - mean, but exactly 0 for the first value.
// (The value itself may be computed again in one instruction with what uses it, and then is not the
// rounded one that the mean was made of.)
namespace nvf {
template <class T>
NVF_FN T withoutShare(T delta, T share) {
  return delta - delta * share;
}
} // namespace nvf

//@ piece nvf::welfordStep
namespace nvf {
template <class T, class X>
NVF_FN void welfordStep(T& mean, T& m2, T& count, X value) {
  count += T(1);
  const T delta = value - mean;
  const T share = nvf::fastReciprocal(count);
  mean += delta * share;
  m2 += delta * nvf::withoutShare(delta, share);
}
} // namespace nvf

//@ piece nvf::fillVector
// N registers set to one value.
namespace nvf {
template <int N, class T, class V>
NVF_FN void fillVector(T* to, V value) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    to[i] = value;
  }
}
} // namespace nvf

//@ piece nvf::welfordSteps
// N means of equal counts: one reciprocal serves all of them.
namespace nvf {
template <int N, class T, class X>
NVF_FN void welfordSteps(T* mean, T* m2, T* count, const X* value) {
  const T next = count[0] + T(1);
  const T share = nvf::fastReciprocal(next);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const T delta = value[i] - mean[i];
    mean[i] += delta * share;
    m2[i] += delta * nvf::withoutShare(delta, share);
    count[i] = next;
  }
}
} // namespace nvf

//@ piece nvf::welfordChunk
// Takes N values into one mean: their own mean and deviations first, then one merge with what
// was there (Chan, Golub and LeVeque 1983, (2.1)).
namespace nvf {
template <int N, class T, class X>
NVF_FN void welfordChunk(T& mean, T& m2, T& count, const X* value) {
  T chunk_mean = value[0];
#pragma unroll
  for (int i = 1; i < N; ++i) {
    chunk_mean += value[i];
  }
  chunk_mean *= T(1) / T(N);
  T chunk_m2 = T(0);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const T deviation = value[i] - chunk_mean;
    chunk_m2 += deviation * deviation;
  }
  const T all = count + T(N);
  const T share = T(N) * nvf::fastReciprocal(all);
  const T delta = chunk_mean - mean;
  mean += delta * share;
  m2 += chunk_m2 + delta * delta * (count * share);
  count = all;
}
} // namespace nvf
