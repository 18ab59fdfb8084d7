// SPDX-License-Identifier: BSD-3-Clause
// A kernel loaded on a CUDA device.
#pragma once

#include <cuda/driver.h>
#include <target/compiled_module.h>
#include <target/disk_cache.h>

#include <atomic>

namespace nvfuser {

class CudaModule : public CompiledModule {
 public:
  // Throws UserError if the driver does not take the binary.
  CudaModule(const CompiledBinary& binary, const std::string& symbol, int device);
  ~CudaModule() override;

  void launch(const LaunchConfig& config, void** args) const override;
  std::shared_ptr<RepeatedLaunch> repeat(const LaunchConfig& config) const override;
  int maxActiveBlocksPerSm(int threads, size_t dynamic_shared_bytes) const override;

  cuda::Function function() const {
    return function_;
  }

 private:
  // Permits launches with this much dynamic shared memory; cheap when it is permitted already.
  void allowDynamicShared(uint32_t bytes) const;
  // Launches of a kernel seldom differ in it.
  void divideSharedMemory(int percent) const;
  [[noreturn]] void throwLaunchError(cuda::Result result, const LaunchConfig& config) const;

  cuda::Module module_ = nullptr;
  cuda::Function function_ = nullptr;
  mutable std::atomic<uint32_t> allowed_dynamic_shared_ = 0;
  mutable std::atomic<int> shared_percent_ = -1;
  mutable std::atomic<bool> allowed_large_cluster_ = false;
};

} // namespace nvfuser
