// SPDX-License-Identifier: BSD-3-Clause
// Hashing: a fast 64-bit hash for tables in memory and checksums, and SHA-256 for keys that name
// files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace nvfuser {

// A bijective scrambling of 64 bits (the finalizer of MurmurHash3, public domain).
constexpr uint64_t mixBits(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return x;
}

constexpr uint64_t hashCombine(uint64_t seed, uint64_t value) {
  return mixBits(seed * 0x9e3779b97f4a7c15ULL + value + 0x2545f4914f6cdd1dULL);
}

template <class T>
void hashCombineInto(uint64_t& seed, const T& value) {
  seed = hashCombine(seed, static_cast<uint64_t>(std::hash<T>{}(value)));
}

// Of raw bytes; the same on every machine and in every process.
uint64_t hashBytes(const void* data, size_t size, uint64_t seed = 0);

inline uint64_t hashString(std::string_view text, uint64_t seed = 0) {
  return hashBytes(text.data(), text.size(), seed);
}

template <class T>
struct VectorHash {
  size_t operator()(const std::vector<T>& values) const {
    uint64_t seed = values.size();
    for (const T& value : values) {
      hashCombineInto(seed, value);
    }
    return seed;
  }
};

template <class A, class B>
struct PairHash {
  size_t operator()(const std::pair<A, B>& value) const {
    uint64_t seed = 0;
    hashCombineInto(seed, value.first);
    hashCombineInto(seed, value.second);
    return seed;
  }
};

// SHA-256 (FIPS 180-4), incremental.
class Sha256 {
 public:
  Sha256& update(const void* data, size_t size);
  Sha256& update(std::string_view text) {
    return update(text.data(), text.size());
  }
  // Length first, so that two fields in a row cannot be confused with another split of their bytes.
  Sha256& updateField(std::string_view text);
  // 64 hexadecimal digits. Call it once, last.
  std::string hex();

 private:
  void block(const uint8_t* data);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> buffer_ = {};
  size_t buffered_ = 0;
  uint64_t total_ = 0;
};

} // namespace nvfuser
