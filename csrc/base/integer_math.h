// SPDX-License-Identifier: BSD-3-Clause
// Rounding of whole numbers that are not negative.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace nvfuser {

inline int64_t ceilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// The next multiple of b.
inline int64_t roundUp(int64_t a, int64_t b) {
  return ceilDiv(a, b) * b;
}

// Powers of two next to v; 1 for what is less.
inline int64_t powerOfTwoUpTo(int64_t v) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(v, 1))));
}
inline int64_t powerOfTwoFrom(int64_t v) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(v, 1))));
}

} // namespace nvfuser
