// SPDX-License-Identifier: BSD-3-Clause
// See device_info.h.
#include <cuda/device_info.h>

#include <base/error.h>
#include <cuda/driver.h>

#include <memory>
#include <mutex>
#include <vector>

namespace nvfuser {

namespace {

DeviceInfo queryCudaDevice(int index) {
  const cuda::Driver& f = cuda::driver();
  const int count = cudaDeviceCount();
  NVF_CHECK(index >= 0 && index < count, "There is no CUDA device ", index, ": this process sees ",
            count);
  cuda::DeviceHandle handle = 0;
  cuda::check(f.cuDeviceGet(&handle, index), "Cannot open the CUDA device");
  auto get = [&](int attribute) {
    int value = 0;
    // Attributes that a driver does not know stay 0.
    return f.cuDeviceGetAttribute(&value, attribute, handle) == 0 ? value : 0;
  };
  DeviceInfo info;
  info.device = Device::cuda(index);
  char name[256] = {};
  f.cuDeviceGetName(name, sizeof(name) - 1, handle);
  info.name = name;
  info.arch = 10 * get(cuda::kComputeCapabilityMajor) + get(cuda::kComputeCapabilityMinor);
  info.sm_count = get(cuda::kMultiprocessorCount);
  info.warp_size = get(cuda::kWarpSize);
  info.max_threads_per_block = get(cuda::kMaxThreadsPerBlock);
  info.max_threads_per_sm = get(cuda::kMaxThreadsPerSm);
  info.max_blocks_per_sm = get(cuda::kMaxBlocksPerSm);
  for (int i = 0; i < 3; ++i) {
    info.max_block_dim[size_t(i)] = get(cuda::kMaxBlockDimX + i);
    info.max_grid_dim[size_t(i)] = get(cuda::kMaxGridDimX + i);
  }
  info.registers_per_block = get(cuda::kMaxRegistersPerBlock);
  info.registers_per_sm = get(cuda::kMaxRegistersPerSm);
  info.shared_per_block = size_t(get(cuda::kMaxSharedPerBlock));
  info.shared_per_block_optin = size_t(get(cuda::kMaxSharedPerBlockOptin));
  info.shared_per_sm = size_t(get(cuda::kMaxSharedPerSm));
  info.shared_reserved_per_block = size_t(get(cuda::kReservedSharedPerBlock));
  info.l2_bytes = size_t(get(cuda::kL2Bytes));
  f.cuDeviceTotalMem(&info.global_bytes, handle);
  // 8 is the portable maximum; 16 needs a function attribute, which launches set.
  info.max_cluster_size = get(cuda::kClusterLaunch) != 0 ? 16 : 1;
  info.cooperative_launch = get(cuda::kCooperativeLaunch) != 0;
  info.clock_khz = get(cuda::kClockRate);
  info.memory_clock_khz = get(cuda::kMemoryClockRate);
  info.memory_bus_bits = get(cuda::kMemoryBusWidth);
  return info;
}

} // namespace

int cudaDeviceCount() {
  static const int count = [] {
    int value = 0;
    if (!cuda::driverAvailable() || cuda::driver().cuDeviceGetCount(&value) != 0) {
      return 0;
    }
    return value;
  }();
  return count;
}

bool cudaAvailable() {
  return cudaDeviceCount() > 0;
}

const DeviceInfo& cudaDeviceInfo(int index) {
  static std::mutex mutex;
  static auto* infos = new std::vector<std::unique_ptr<DeviceInfo>>();
  const std::lock_guard lock(mutex);
  const auto position = static_cast<size_t>(index);
  if (index >= 0 && position < infos->size() && (*infos)[position] != nullptr) {
    return *(*infos)[position];
  }
  auto info = std::make_unique<DeviceInfo>(queryCudaDevice(index));
  if (infos->size() <= position) {
    infos->resize(position + 1);
  }
  (*infos)[position] = std::move(info);
  return *(*infos)[position];
}

} // namespace nvfuser
