// SPDX-License-Identifier: BSD-3-Clause
// Where code runs, and what the place is like: values that both targets, and whoever plans for one
// of them, share. Who plans or lowers gets the description passed and never asks the machine, so
// that every path can be exercised for any device anywhere. The targets describe their devices in
// cuda/device_info.h and host/device_info.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>

namespace nvfuser {

enum class DeviceType : uint8_t { Host, Cuda };

struct Device {
  DeviceType type = DeviceType::Host;
  int index = 0;

  static constexpr Device host() {
    return {};
  }
  static constexpr Device cuda(int index = 0) {
    return {DeviceType::Cuda, index};
  }
  constexpr bool isHost() const {
    return type == DeviceType::Host;
  }
  constexpr bool isCuda() const {
    return type == DeviceType::Cuda;
  }
  constexpr bool operator==(const Device&) const = default;
  // "cpu", "cuda:0"
  std::string toString() const;
};

std::ostream& operator<<(std::ostream& os, Device device);

struct DeviceInfo {
  Device device;
  std::string name;
  int arch = 0; // 10 * major + minor: 90 for sm_90
  int sm_count = 0;
  int warp_size = 32;
  int max_threads_per_block = 0;
  int max_threads_per_sm = 0;
  int max_blocks_per_sm = 0;
  std::array<int64_t, 3> max_block_dim = {};
  std::array<int64_t, 3> max_grid_dim = {};
  int64_t registers_per_block = 0; // of 32 bits
  int64_t registers_per_sm = 0;
  size_t shared_per_block = 0; // bytes, static or without opting in
  size_t shared_per_block_optin = 0;
  size_t shared_per_sm = 0;
  size_t shared_reserved_per_block = 0; // taken by the system from each block's share
  size_t l2_bytes = 0;
  size_t global_bytes = 0;
  int max_cluster_size = 1; // blocks; 1 where there are no clusters
  // Clusters of 2, 4, 8 and 16 blocks that run at once with an SM for each block; 0: unknown.
  std::array<int, 4> resident_clusters = {};
  bool cooperative_launch = false;
  int clock_khz = 0;
  int memory_clock_khz = 0;
  int memory_bus_bits = 0;

  int archMajor() const {
    return arch / 10;
  }
  int archMinor() const {
    return arch % 10;
  }
  // Of global memory, bytes per second, from its clock and width (double data rate).
  double peakBandwidth() const {
    return 2.0 * memory_clock_khz * 1e3 * memory_bus_bits / 8.0;
  }
};

} // namespace nvfuser
