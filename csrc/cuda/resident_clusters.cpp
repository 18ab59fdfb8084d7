// SPDX-License-Identifier: BSD-3-Clause
// See resident_clusters.h.
#include <cuda/resident_clusters.h>

#include <cuda/driver.h>

#include <algorithm>
#include <optional>

namespace nvfuser {
namespace {

constexpr const char* kEmptyKernel = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry empty() { ret; }
)";

// The driver's answers for a kernel that does nothing; 0 where it does not say.
class Asked {
 public:
  explicit Asked(const DeviceInfo& device) : device_(device), guard_(device.device.index) {
    const cuda::Driver& f = cuda::driver();
    // With more than half of an SM's shared memory no two blocks share it.
    const auto shared = static_cast<int>(device.shared_per_block_optin);
    ready_ = f.cuOccupancyMaxActiveClusters != nullptr &&
             f.cuModuleLoadData(&module_, kEmptyKernel) == 0 &&
             f.cuModuleGetFunction(&function_, module_, "empty") == 0 &&
             f.cuFuncSetAttribute(function_, cuda::kFunctionMaxDynamicShared, shared) == 0 &&
             f.cuFuncSetAttribute(function_, cuda::kFunctionNonPortableCluster, 1) == 0;
  }
  ~Asked() {
    if (module_ != nullptr) {
      cuda::driver().cuModuleUnload(module_);
    }
  }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  int clustersOf(int size) const {
    cuda::LaunchAttribute attribute = {};
    attribute.id = cuda::LaunchAttribute::kClusterDimension;
    attribute.value.cluster = {static_cast<uint32_t>(size), 1, 1};
    const cuda::LaunchConfigNative config = {{static_cast<uint32_t>(size * device_.sm_count), 1, 1},
                                             {128, 1, 1},
                                             static_cast<uint32_t>(device_.shared_per_block_optin),
                                             nullptr,
                                             &attribute,
                                             1};
    int count = 0;
    return ready_ && cuda::driver().cuOccupancyMaxActiveClusters(&count, function_, &config) == 0
               ? count
               : 0;
  }

 private:
  const DeviceInfo& device_;
  const cuda::ContextGuard guard_;
  const cuda::RelaxedCapture relaxed_;
  cuda::Module module_ = nullptr;
  cuda::Function function_ = nullptr;
  bool ready_ = false;
};

} // namespace

std::array<int64_t, 5> residentClusters(const DeviceInfo& device) {
  std::optional<Asked> asked;
  if (device.device.type == DeviceType::Cuda && device.max_cluster_size > 1) {
    asked.emplace(device);
  }
  std::array<int64_t, 5> clusters = {};
  for (size_t i = 0; i < clusters.size() && (1 << i) <= device.max_cluster_size; ++i) {
    const int size = 1 << i;
    const int64_t most = std::max(device.sm_count / size, 1);
    int64_t known = i > 0 ? device.resident_clusters[i - 1] : 0;
    if (size > 1 && asked.has_value()) {
      known = asked->clustersOf(size);
    }
    clusters[i] = known > 0 ? std::min(known, most) : most;
  }
  return clusters;
}

} // namespace nvfuser
