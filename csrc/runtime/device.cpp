// Describing the devices of this machine.
#include <runtime/device.h>

#include <base/error.h>
#include <base/options.h>
#include <runtime/cuda_driver.h>

#include <memory>
#include <mutex>
#include <ostream>
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

std::string Device::toString() const {
  return isHost() ? "cpu" : "cuda:" + std::to_string(index);
}

std::ostream& operator<<(std::ostream& os, Device device) {
  return os << device.toString();
}

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

const DeviceInfo& deviceInfo(Device device) {
  if (device.isHost()) {
    static const auto* host = new DeviceInfo(hostDeviceInfo());
    static const auto* h200 = new DeviceInfo(simulatedH200Info());
    return currentOptions().host_schedules == HostSchedules::ForH200 ? *h200 : *host;
  }
  static std::mutex mutex;
  static auto* infos = new std::vector<std::unique_ptr<DeviceInfo>>();
  const std::lock_guard lock(mutex);
  const auto index = static_cast<size_t>(device.index);
  if (device.index >= 0 && index < infos->size() && (*infos)[index] != nullptr) {
    return *(*infos)[index];
  }
  auto info = std::make_unique<DeviceInfo>(queryCudaDevice(device.index));
  if (infos->size() <= index) {
    infos->resize(index + 1);
  }
  (*infos)[index] = std::move(info);
  return *(*infos)[index];
}

} // namespace nvfuser
