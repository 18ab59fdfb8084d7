// SPDX-License-Identifier: BSD-3-Clause
// See machines.h.
#include <runtime/machines.h>

#include <base/options.h>
#include <cuda/resident_clusters.h>
#include <host/device_info.h>
#include <host/thread_pool.h>
#include <runtime/devices.h>

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

namespace nvfuser {

MachineModel machineFrom(const DeviceInfo& device) {
  constexpr int kAmpere = 80;
  constexpr int kHopper = 90;
  constexpr double kReached = 0.9; // of the bandwidth that clock and width of the memory give
  MachineModel machine;
  machine.sms = std::max(device.sm_count, 1);
  machine.max_threads_per_block = device.max_threads_per_block;
  machine.max_threads_per_sm = device.max_threads_per_sm;
  machine.max_blocks_per_sm = device.max_blocks_per_sm;
  machine.max_blocks_y = device.max_grid_dim[1];
  machine.registers_per_sm = device.registers_per_sm;
  machine.shared_per_block = static_cast<int64_t>(device.shared_per_block);
  machine.max_shared_per_block = static_cast<int64_t>(device.shared_per_block_optin);
  machine.shared_per_sm = static_cast<int64_t>(device.shared_per_sm);
  machine.shared_reserved_per_block = static_cast<int64_t>(device.shared_reserved_per_block);
  machine.l2_bytes = static_cast<int64_t>(device.l2_bytes);
  machine.async_copies = device.arch >= kAmpere;
  machine.bulk_copies = device.arch >= kHopper;
  machine.cooperative_launch = device.cooperative_launch;
  machine.max_cluster = std::max(device.max_cluster_size, 1);
  machine.resident_clusters = residentClusters(device);
  if (const double peak = device.peakBandwidth(); peak > 0) {
    machine.memory_bandwidth = kReached * peak * 1e-6;
  }
  if (device.clock_khz > 0) {
    machine.cycles_per_us = device.clock_khz * 1e-3;
  }
  return machine;
}

namespace {

// Of float32 in a vector of the widest kind that kernels are compiled for (-march=native).
int64_t hostLanes() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") ? 16 : __builtin_cpu_supports("avx2") ? 8 : 4;
#else
  return 4;
#endif
}

// Of what the system tells the size of.
int64_t systemBytes(int name, int64_t fallback) {
  const long bytes = ::sysconf(name);
  return bytes > 0 ? bytes : fallback;
}

// One cache of a level: Linux tells the size of one in kibibytes ("32768K"). The sum over all of
// them, which sysconf gives on some processors, is more than one core can fill.
int64_t cacheBytes(int level, int name, int64_t fallback) {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(level) + "/size");
  int64_t size = 0;
  char unit = 0;
  return file >> size >> unit && size > 0 && unit == 'K' ? size << 10 : systemBytes(name, fallback);
}

} // namespace

MachineModel hostMachine() {
  MachineModel machine = machineFrom(hostDeviceInfo());
  machine.sms = hostThreadCount();
  machine.lanes = hostLanes();
  machine.l1_bytes = systemBytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10);
  machine.core_cache_bytes = cacheBytes(2, _SC_LEVEL2_CACHE_SIZE, 1 << 20);
  machine.l2_bytes =
      cacheBytes(3, _SC_LEVEL3_CACHE_SIZE, std::max<int64_t>(machine.core_cache_bytes, 4 << 20));
  machine.threads_in_loops = true;
  machine.line_bytes = systemBytes(_SC_LEVEL1_DCACHE_LINESIZE, 64);
  // What a GPU has units for is only imitated here.
  machine.async_copies = false;
  machine.bulk_copies = false;
  machine.max_cluster = 1;
  machine.memory_bandwidth = MachineModel::kHostCoreBandwidth * static_cast<double>(machine.sms);
  return machine;
}

const MachineModel& machineModel(Device device) {
  if (device.isHost() && currentOptions().host_schedules == HostSchedules::ForHost) {
    static const auto* host = new MachineModel(hostMachine());
    return *host;
  }
  static std::mutex mutex;
  static auto* machines = new std::map<const DeviceInfo*, MachineModel>();
  const DeviceInfo& info = deviceInfo(device);
  const std::lock_guard lock(mutex);
  auto it = machines->find(&info);
  if (it == machines->end()) {
    it = machines->emplace(&info, machineFrom(info)).first;
  }
  return it->second;
}

} // namespace nvfuser
