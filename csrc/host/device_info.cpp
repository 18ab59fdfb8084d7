// SPDX-License-Identifier: BSD-3-Clause
// See device_info.h.
#include <host/device_info.h>

namespace nvfuser {

DeviceInfo hostDeviceInfo() {
  DeviceInfo info;
  info.device = Device::host();
  info.name = "host";
  info.arch = 90;
  info.sm_count = 4;
  info.warp_size = 32;
  info.max_threads_per_block = 1024;
  info.max_threads_per_sm = 2048;
  info.max_blocks_per_sm = 32;
  info.max_block_dim = {1024, 1024, 64};
  info.max_grid_dim = {2147483647, 65535, 65535};
  info.registers_per_block = 65536;
  info.registers_per_sm = 65536;
  info.shared_per_block = 48 << 10;
  info.shared_per_block_optin = 227 << 10;
  info.shared_per_sm = 228 << 10;
  info.shared_reserved_per_block = 1 << 10;
  info.l2_bytes = 4 << 20;
  info.global_bytes = size_t(16) << 30;
  info.max_cluster_size = 16;
  info.cooperative_launch = true;
  info.clock_khz = 1980000;
  // As if a H200's bandwidth were shared out by SMs.
  info.memory_clock_khz = 3201000;
  info.memory_bus_bits = 192;
  return info;
}

// What its driver says (580), on the host.
DeviceInfo simulatedH200Info() {
  DeviceInfo info = hostDeviceInfo();
  info.name = "host as NVIDIA H200";
  info.sm_count = 132;
  info.l2_bytes = 60 << 20;
  info.global_bytes = size_t(139) << 30;
  info.resident_clusters = {66, 30, 15, 7};
  info.memory_bus_bits = 6144;
  return info;
}

} // namespace nvfuser
