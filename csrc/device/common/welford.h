// Welford's running mean and sum of squared deviations ("Note on a method for calculating corrected
// sums of squares and products", Technometrics 1962).
#pragma once

//@ piece nvf::welfordStep
namespace nvf {
template <class T, class X>
NVF_FN void welfordStep(T& mean, T& m2, T& count, X value) {
  count += T(1);
  const T delta = value - mean;
  mean += delta * nvf::fastReciprocal(count);
  m2 += delta * (value - mean);
}
} // namespace nvf
