// SPDX-License-Identifier: BSD-3-Clause
// See literal.h.
#include <codegen/literal.h>

#include <base/error.h>
#include <ir/evaluator.h>

#include <cmath>
#include <cstdio>
#include <limits>

namespace nvfuser::codegen {

namespace {

std::string real(double v, bool is_float) {
  if (std::isnan(v)) {
    return is_float ? "nvf::bitsOf<float>(0x7fc00000u)"
                    : "nvf::bitsOf<double>(0x7ff8000000000000ull)";
  }
  if (std::isinf(v)) {
    if (is_float) {
      return v > 0 ? "nvf::bitsOf<float>(0x7f800000u)" : "nvf::bitsOf<float>(0xff800000u)";
    }
    return v > 0 ? "nvf::bitsOf<double>(0x7ff0000000000000ull)"
                 : "nvf::bitsOf<double>(0xfff0000000000000ull)";
  }
  char text[40];
  // The shortest form that reads back as the same number.
  for (int digits = is_float ? 6 : 15; digits <= (is_float ? 9 : 17); ++digits) {
    std::snprintf(text, sizeof(text), "%.*g", digits, v);
    const double back =
        is_float ? static_cast<double>(std::strtof(text, nullptr)) : std::strtod(text, nullptr);
    if (back == v) {
      break;
    }
  }
  std::string out = text;
  if (out.find_first_of(".e") == std::string::npos) {
    out += ".0";
  }
  return is_float ? out + "f" : out;
}

std::string integer(int64_t v) {
  if (v == std::numeric_limits<int64_t>::min()) {
    return "(-9223372036854775807LL - 1)";
  }
  const bool small =
      v > std::numeric_limits<int32_t>::min() && v <= std::numeric_limits<int32_t>::max();
  return std::to_string(v) + (small ? "" : "LL");
}

} // namespace

std::string literal(const ScalarValue& value, DataType dtype) {
  const ScalarValue v = convertScalar(value, dtype);
  if (const auto* b = std::get_if<bool>(&v)) {
    return *b ? "true" : "false";
  }
  if (const auto* i = std::get_if<int64_t>(&v)) {
    return dtype == DataType::UInt64 ? std::to_string(static_cast<uint64_t>(*i)) + "ull"
                                     : integer(*i);
  }
  if (const auto* d = std::get_if<double>(&v)) {
    if (isLowPrecision(dtype)) {
      return "nvf::cast<" + std::string(kernelTypeName(dtype)) + ">(" + real(*d, true) + ")";
    }
    return real(*d, dtype == DataType::Float);
  }
  if (const auto* c = std::get_if<std::complex<double>>(&v)) {
    const bool is_float = dtype == DataType::ComplexFloat;
    return std::string(kernelTypeName(dtype)) + "(" + real(c->real(), is_float) + ", " +
           real(c->imag(), is_float) + ")";
  }
  NVF_THROW("a constant without value");
}

} // namespace nvfuser::codegen
