// SPDX-License-Identifier: BSD-3-Clause
// Declarations of the C math library functions that the pieces call: the host text includes no
// header. On CUDA the compiler declares them.
#pragma once

//@ piece exp expf
extern "C" double exp(double);
extern "C" float expf(float);

//@ piece exp2 exp2f
extern "C" double exp2(double);
extern "C" float exp2f(float);

//@ piece expm1 expm1f
extern "C" double expm1(double);
extern "C" float expm1f(float);

//@ piece log logf
extern "C" double log(double);
extern "C" float logf(float);

//@ piece log2 log2f
extern "C" double log2(double);
extern "C" float log2f(float);

//@ piece log10 log10f
extern "C" double log10(double);
extern "C" float log10f(float);

//@ piece log1p log1pf
extern "C" double log1p(double);
extern "C" float log1pf(float);

//@ piece sqrt sqrtf
extern "C" double sqrt(double);
extern "C" float sqrtf(float);

//@ piece sin sinf
extern "C" double sin(double);
extern "C" float sinf(float);

//@ piece cos cosf
extern "C" double cos(double);
extern "C" float cosf(float);

//@ piece tan tanf
extern "C" double tan(double);
extern "C" float tanf(float);

//@ piece asin asinf
extern "C" double asin(double);
extern "C" float asinf(float);

//@ piece acos acosf
extern "C" double acos(double);
extern "C" float acosf(float);

//@ piece atan atanf
extern "C" double atan(double);
extern "C" float atanf(float);

//@ piece sinh sinhf
extern "C" double sinh(double);
extern "C" float sinhf(float);

//@ piece cosh coshf
extern "C" double cosh(double);
extern "C" float coshf(float);

//@ piece tanh tanhf
extern "C" double tanh(double);
extern "C" float tanhf(float);

//@ piece asinh asinhf
extern "C" double asinh(double);
extern "C" float asinhf(float);

//@ piece acosh acoshf
extern "C" double acosh(double);
extern "C" float acoshf(float);

//@ piece atanh atanhf
extern "C" double atanh(double);
extern "C" float atanhf(float);

//@ piece erf erff
extern "C" double erf(double);
extern "C" float erff(float);

//@ piece erfc erfcf
extern "C" double erfc(double);
extern "C" float erfcf(float);

//@ piece ceil ceilf
extern "C" double ceil(double);
extern "C" float ceilf(float);

//@ piece floor floorf
extern "C" double floor(double);
extern "C" float floorf(float);

//@ piece trunc truncf
extern "C" double trunc(double);
extern "C" float truncf(float);

//@ piece rint rintf
extern "C" double rint(double);
extern "C" float rintf(float);

//@ piece fabs fabsf
extern "C" double fabs(double);
extern "C" float fabsf(float);

//@ piece fmod fmodf
extern "C" double fmod(double, double);
extern "C" float fmodf(float, float);

//@ piece pow powf
extern "C" double pow(double, double);
extern "C" float powf(float, float);

//@ piece atan2 atan2f
extern "C" double atan2(double, double);
extern "C" float atan2f(float, float);

//@ piece nextafter nextafterf
extern "C" double nextafter(double, double);
extern "C" float nextafterf(float, float);

//@ piece hypot hypotf
extern "C" double hypot(double, double);
extern "C" float hypotf(float, float);

//@ piece copysign copysignf
extern "C" double copysign(double, double);
extern "C" float copysignf(float, float);

//@ piece ldexp ldexpf
extern "C" double ldexp(double, int);
extern "C" float ldexpf(float, int);

//@ piece lgamma_r lgammaf_r
// The reentrant forms: lgamma writes a global. Not built into a strict C++ compiler, so that the
// hidden visibility of the kernel would hold for them as well.
extern "C" __attribute__((visibility("default"))) double lgamma_r(double, int*);
extern "C" __attribute__((visibility("default"))) float lgammaf_r(float, int*);
