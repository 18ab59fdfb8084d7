// The approximate functions of cuda/approx.h: on the host they are the accurate ones.
#pragma once

//@ piece nvf::approx::exp2
namespace nvf::approx {
NVF_FN float exp2(float x) {
  return ::exp2f(x);
}
} // namespace nvf::approx

//@ piece nvf::approx::exp
namespace nvf::approx {
NVF_FN float exp(float x) {
  return ::expf(x);
}
} // namespace nvf::approx

//@ piece nvf::approx::reciprocal
namespace nvf::approx {
NVF_FN float reciprocal(float x) {
  return 1.0f / x;
}
} // namespace nvf::approx

//@ piece nvf::approx::sqrt
namespace nvf::approx {
NVF_FN float sqrt(float x) {
  return ::sqrtf(x);
}
} // namespace nvf::approx

//@ piece nvf::approx::rsqrt
namespace nvf::approx {
NVF_FN float rsqrt(float x) {
  return 1.0f / ::sqrtf(x);
}
} // namespace nvf::approx

//@ piece nvf::approx::sigmoid
namespace nvf::approx {
NVF_FN float sigmoid(float x) {
  return 1.0f / (1.0f + ::expf(-x));
}
} // namespace nvf::approx

//@ piece nvf::approx::silu
namespace nvf::approx {
NVF_FN float silu(float x) {
  return x / (1.0f + ::expf(-x));
}
} // namespace nvf::approx

//@ piece nvf::approx::tanh
namespace nvf::approx {
NVF_FN float tanh(float x) {
  return ::tanhf(x);
}
} // namespace nvf::approx

//@ piece nvf::approx::tanhFast
namespace nvf::approx {
NVF_FN float tanhFast(float x) {
  return ::tanhf(x);
}
} // namespace nvf::approx

//@ piece nvf::approx::erf
namespace nvf::approx {
NVF_FN float erf(float x) {
  return ::erff(x);
}
} // namespace nvf::approx

//@ piece nvf::approx::div
namespace nvf::approx {
NVF_FN float div(float a, float b) {
  return a / b;
}
} // namespace nvf::approx

//@ piece nvf::approx::truediv
namespace nvf::approx {
NVF_FN float truediv(float a, float b) {
  return a / b;
}
} // namespace nvf::approx
