// Error functions and log gamma. float and double; operands of other types are cast before.
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
