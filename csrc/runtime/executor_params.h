// SPDX-License-Identifier: BSD-3-Clause
// What a user can ask for when a kernel is compiled and launched.
#pragma once

#include <target/compile_params.h>
#include <type.h>

#include <cstdint>
#include <string>

namespace nvfuser {

// Extents of the launch. An extent that is not set is decided by the kernel and counts as 1.
class LaunchParams {
 public:
  static constexpr int64_t kUnset = -1;

  LaunchParams() = default;
  LaunchParams(int64_t gdimx, int64_t gdimy, int64_t gdimz, int64_t bdimx, int64_t bdimy,
               int64_t bdimz);

  int64_t gdimx() const {
    return getDim(ParallelType::BIDx);
  }
  int64_t gdimy() const {
    return getDim(ParallelType::BIDy);
  }
  int64_t gdimz() const {
    return getDim(ParallelType::BIDz);
  }
  int64_t bdimx() const {
    return getDim(ParallelType::TIDx);
  }
  int64_t bdimy() const {
    return getDim(ParallelType::TIDy);
  }
  int64_t bdimz() const {
    return getDim(ParallelType::TIDz);
  }
  int64_t nThreads() const {
    return bdimx() * bdimy() * bdimz();
  }

  // Thread and block dimensions only.
  bool hasDim(ParallelType p) const {
    return getRawVal(p) != kUnset;
  }
  int64_t getDim(ParallelType p) const {
    const int64_t value = getRawVal(p);
    return value == kUnset ? 1 : value;
  }
  int64_t getRawVal(ParallelType p) const;
  // Sets an extent; a different one that was set before is an error of the user.
  void bind(int64_t value, ParallelType p);
  // Sets an extent whatever it was.
  void bindUnsafe(int64_t value, ParallelType p);

  bool operator==(const LaunchParams&) const = default;
  uint64_t hash() const;
  std::string toString() const;

 private:
  int64_t dims_[6] = {kUnset, kUnset, kUnset, kUnset, kUnset, kUnset}; // BIDx..z, TIDx..z
};

} // namespace nvfuser
