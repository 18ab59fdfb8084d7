// Special functions that CUDA has and the C library has not: host/special.h is the other half.
#pragma once

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
