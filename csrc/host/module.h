// SPDX-License-Identifier: BSD-3-Clause
// A kernel compiled for the host and loaded into this process.
#pragma once

#include <host/compiler.h>
#include <target/compiled_module.h>

struct NvfHostKernel; // device/host/abi.h

namespace nvfuser {

class HostModule : public CompiledModule {
 public:
  HostModule(const CompiledBinary& binary, const std::string& symbol);

  void launch(const LaunchConfig& config, void** args) const override;
  int maxActiveBlocksPerSm(int threads, size_t dynamic_shared_bytes) const override;

 private:
  SharedObject object_;
  const NvfHostKernel* kernel_ = nullptr;
};

} // namespace nvfuser
