// SPDX-License-Identifier: BSD-3-Clause
// The floating-point formats that C++ lacks, converted from and to double on the host: exact and
// slow, for constants, tests and reference results. Kernels have their own conversions in the
// device library.
#pragma once

#include <type.h>

#include <cstdint>

namespace nvfuser {

// The value of a bit pattern of Half, BFloat16, Float8_* or Float4_e2m1fn.
double decodeSmallFloat(uint32_t bits, DataType dtype);

// The bit pattern nearest to a value, ties to even, as torch's conversions do: overflow gives
// infinity for Half, BFloat16 and Float8_e5m2, NaN for Float8_e4m3fn and Float8_e8m0fnu, the
// largest value for Float4_e2m1fn; NaN stays NaN where the format has one (Float4_e2m1fn: the
// largest value).
uint32_t encodeSmallFloat(double value, DataType dtype);

} // namespace nvfuser
