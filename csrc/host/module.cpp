// SPDX-License-Identifier: BSD-3-Clause
// Loading kernels for the host and running them on the SIMT runtime.
#include <host/module.h>

#include <base/error.h>
#include <base/options.h>
#include <host/device_info.h>
#include <host/simt.h>

#include <algorithm>

namespace nvfuser {

namespace {

// NVFUSER_HOST_ADVERSARIAL=seed: random orders, poisoned shared memory, checks where the kernel has
// them.
uint64_t adversarialSeed() {
  static const int64_t seed = environmentInt("NVFUSER_HOST_ADVERSARIAL", 0);
  return static_cast<uint64_t>(seed);
}

NvfHostDim hostDim(const Dim3& dim) {
  return {dim.x, dim.y, dim.z};
}

} // namespace

HostModule::HostModule(const CompiledBinary& binary, const std::string& symbol) : object_(binary) {
  symbol_ = symbol;
  device_ = Device::host();
  kernel_ = static_cast<const NvfHostKernel*>(object_.find(symbol));
  NVF_ERROR(kernel_ != nullptr, "the compiled text does not define kernel ", symbol);
  NVF_ERROR(kernel_->abi == kNvfHostAbi, "kernel ", symbol, " speaks version ", kernel_->abi,
            " of the host interface, this library version ", kNvfHostAbi);
}

void HostModule::launch(const LaunchConfig& config, void** args) const {
  HostLaunch launch;
  launch.grid = hostDim(config.grid);
  launch.block = hostDim(config.block);
  launch.cluster = hostDim(config.cooperative ? config.grid : config.cluster);
  launch.dynamic_shared_bytes = config.dynamic_shared_bytes;
  launch.tensor_bytes = config.tensor_bytes;
  launch.adversarial_seed = adversarialSeed();
  const std::string error = runHostKernel(*kernel_, launch, args);
  NVF_CHECK(error.empty(), "Kernel ", symbol_, " failed on the CPU: ", error);
}

int HostModule::maxActiveBlocksPerSm(int threads, size_t dynamic_shared_bytes) const {
  const DeviceInfo info = hostDeviceInfo();
  if (threads <= 0 || threads > info.max_threads_per_block) {
    return 0;
  }
  int blocks = std::min(info.max_blocks_per_sm, info.max_threads_per_sm / threads);
  const size_t shared = dynamic_shared_bytes + info.shared_reserved_per_block;
  blocks = std::min(blocks, static_cast<int>(info.shared_per_sm / shared));
  return dynamic_shared_bytes <= info.shared_per_block_optin ? blocks : 0;
}

} // namespace nvfuser
