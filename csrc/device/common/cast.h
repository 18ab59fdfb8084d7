// SPDX-License-Identifier: BSD-3-Clause
// nvf::cast<To>(from) for every pair of element types.
#pragma once

//@ piece nvf::cast
// As torch: complex to real drops the imaginary part, anything to bool asks whether it is not zero,
// small formats are reached from wider ones through float (double is rounded twice, as torch does).
namespace nvf {
template <class To, class From>
NVF_FN To cast(From x) {
  if constexpr (nvf::IsSame<To, From>) {
    return x;
  } else if constexpr (nvf::IsComplex<From>) {
    if constexpr (nvf::IsSame<To, bool>) {
      return x.re != 0 || x.im != 0;
    } else if constexpr (nvf::IsComplex<To>) {
      return To(x);
    } else {
      return cast<To>(x.re);
    }
  } else if constexpr (nvf::IsComplex<To>) {
    return To(cast<typename To::value_type>(x));
  } else if constexpr (nvf::IsSmallFloat<From>) {
    return cast<To>(nvf::toFloat(x));
  } else if constexpr (nvf::IsSmallFloat<To>) {
    return nvf::fromFloat<To>(cast<float>(x));
  } else if constexpr (nvf::IsSame<To, bool>) {
    return x != 0;
  } else if constexpr (nvf::IsSame<From, bool>) {
    return static_cast<To>(nvf::byteOf(x));
  } else {
    return static_cast<To>(x);
  }
}
} // namespace nvf
