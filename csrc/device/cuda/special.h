// SPDX-License-Identifier: BSD-3-Clause
// Error functions, their inverses and log gamma: CUDA's. float and double; operands of other types
// are cast before. host/special.h is the other half.
#pragma once

//@ piece nvf::erf
namespace nvf {
NVF_FN float erf(float x) {
  return ::erff(x);
}
NVF_FN double erf(double x) {
  return ::erf(x);
}
} // namespace nvf

//@ piece nvf::erfc
namespace nvf {
NVF_FN float erfc(float x) {
  return ::erfcf(x);
}
NVF_FN double erfc(double x) {
  return ::erfc(x);
}
} // namespace nvf

//@ piece nvf::erfinv
namespace nvf {
NVF_FN float erfinv(float x) {
  return ::erfinvf(x);
}
NVF_FN double erfinv(double x) {
  return ::erfinv(x);
}
} // namespace nvf

//@ piece nvf::erfcinv
namespace nvf {
NVF_FN float erfcinv(float x) {
  return ::erfcinvf(x);
}
NVF_FN double erfcinv(double x) {
  return ::erfcinv(x);
}
} // namespace nvf

//@ piece nvf::lgamma
namespace nvf {
NVF_FN float lgamma(float x) {
  return ::lgammaf(x);
}
NVF_FN double lgamma(double x) {
  return ::lgamma(x);
}
} // namespace nvf
