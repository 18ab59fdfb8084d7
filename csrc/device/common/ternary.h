// SPDX-License-Identifier: BSD-3-Clause
// Operations of three operands.
#pragma once

//@ piece nvf::where
namespace nvf {
template <class A, class B>
NVF_FN auto where(bool condition, A a, B b) {
  using T = nvf::Common<A, B>;
  return nvf::conditionFor<T>(condition) ? static_cast<T>(a) : static_cast<T>(b);
}
} // namespace nvf

//@ piece nvf::clamp
// min(max(x, low), high) in the type of x; NaN in any operand wins, as in torch. Small formats are
// compared as floats. A floating bound of an integer x is compared in double.
namespace nvf {
template <class T, class L, class H>
NVF_FN T clamp(T x, L low, H high) {
  if constexpr (nvf::IsSmallFloat<T>) {
    return nvf::fromFloat<T>(
        nvf::clamp(nvf::toFloat(x), nvf::cast<float>(low), nvf::cast<float>(high)));
  } else if constexpr (nvf::IsInteger<T> && (nvf::IsFloating<L> || nvf::IsFloating<H>)) {
    const T raised = x < static_cast<double>(low) ? static_cast<T>(low) : x;
    return raised > static_cast<double>(high) ? static_cast<T>(high) : raised;
  } else {
    return nvf::minimum(nvf::maximum(x, static_cast<T>(low)), static_cast<T>(high));
  }
}
} // namespace nvf

//@ piece nvf::threshold
namespace nvf {
template <class T, class L, class V>
NVF_FN T threshold(T x, L limit, V value) {
  if constexpr (nvf::IsSmallFloat<T>) {
    return nvf::toFloat(x) <= nvf::cast<float>(limit) ? nvf::cast<T>(value) : x;
  } else {
    return x <= static_cast<T>(limit) ? static_cast<T>(value) : x;
  }
}
} // namespace nvf

//@ piece nvf::lerp
// torch's formula: exact at both ends.
namespace nvf {
template <class A, class B, class W>
NVF_FN auto lerp(A start_in, B end_in, W weight_in) {
  using T = nvf::Common<nvf::Common<A, B>, W>;
  const T start = static_cast<T>(start_in), end = static_cast<T>(end_in);
  const T weight = static_cast<T>(weight_in);
  bool near_start;
  if constexpr (nvf::IsComplex<T>) {
    near_start = weight.re * weight.re + weight.im * weight.im < 0.25f;
  } else {
    near_start = weight < T(0.5) && weight > T(-0.5);
  }
  if constexpr (nvf::IsInteger<T>) {
    return static_cast<T>(start + weight * (end - start));
  } else {
    const T range = end - start;
    return near_start ? start + weight * range : end - range * (T(1) - weight);
  }
}
} // namespace nvf

//@ piece nvf::addcmul
namespace nvf {
template <class A, class B, class C, class S>
NVF_FN auto addcmul(A a, B b, C c, S alpha) {
  using T = nvf::Common<nvf::Common<A, B>, C>;
  return static_cast<T>(static_cast<T>(a) +
                        static_cast<T>(alpha) * static_cast<T>(b) * static_cast<T>(c));
}
} // namespace nvf
