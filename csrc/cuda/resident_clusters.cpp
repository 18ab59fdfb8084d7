// See resident_clusters.h.
#include <cuda/resident_clusters.h>

#include <cuda/driver.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

namespace nvfuser {
namespace {

constexpr const char* kEmptyKernel = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry empty() { ret; }
)";

// 0 if the driver does not say.
int askDriver(const DeviceInfo& device, int size) {
  const cuda::Driver& f = cuda::driver();
  const cuda::ContextGuard guard(device.device.index);
  const cuda::RelaxedCapture relaxed;
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  if (f.cuOccupancyMaxActiveClusters == nullptr || f.cuModuleLoadData(&module, kEmptyKernel) != 0) {
    return 0;
  }
  // With more than half of an SM's shared memory no two blocks share it.
  const auto shared = static_cast<int>(device.shared_per_block_optin);
  cuda::LaunchAttribute attribute = {};
  attribute.id = cuda::LaunchAttribute::kClusterDimension;
  attribute.value.cluster = {static_cast<uint32_t>(size), 1, 1};
  const cuda::LaunchConfigNative config = {{static_cast<uint32_t>(size * device.sm_count), 1, 1},
                                           {128, 1, 1},
                                           static_cast<uint32_t>(shared),
                                           nullptr,
                                           &attribute,
                                           1};
  int count = 0;
  const bool known = f.cuModuleGetFunction(&function, module, "empty") == 0 &&
                     f.cuFuncSetAttribute(function, cuda::kFunctionMaxDynamicShared, shared) == 0 &&
                     f.cuFuncSetAttribute(function, cuda::kFunctionNonPortableCluster, 1) == 0 &&
                     f.cuOccupancyMaxActiveClusters(&count, function, &config) == 0;
  f.cuModuleUnload(module);
  return known ? count : 0;
}

} // namespace

int residentClusters(const DeviceInfo& device, int size) {
  const int most = std::max(device.sm_count / size, 1);
  for (int i = 0; i < 4; ++i) {
    if (size == 2 << i && device.resident_clusters[i] > 0) {
      return std::min(device.resident_clusters[i], most);
    }
  }
  if (size == 1 || device.device.type != DeviceType::Cuda) {
    return most;
  }
  static std::mutex mutex;
  static std::map<std::pair<int, int>, int> known; // by device and size
  const std::lock_guard lock(mutex);
  auto [it, is_new] = known.try_emplace({device.device.index, size}, 0);
  if (is_new) {
    const int count = askDriver(device, size);
    it->second = count > 0 ? std::min(count, most) : most;
  }
  return it->second;
}

} // namespace nvfuser
