// SPDX-License-Identifier: BSD-3-Clause
// What both targets make of a kernel's text: something that is launched with a configuration and
// the addresses of its parameters. The targets implement the interface (cuda/module.h,
// host/module.h); whoever launches knows no more than this.
#pragma once

#include <target/device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace nvfuser {

struct CompiledBinary;

struct Dim3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;

  uint64_t count() const {
    return uint64_t(x) * y * z;
  }
  bool operator==(const Dim3&) const = default;
};

struct LaunchConfig {
  Dim3 grid;
  Dim3 block;
  Dim3 cluster; // 1, 1, 1: no clusters
  uint32_t dynamic_shared_bytes = 0;
  void* stream = nullptr; // a CUstream; unused on the host
  // The kernel may start before the one before it in the stream is through (it waits for it
  // itself).
  bool programmatic_dependent_launch = false;
  // All blocks run at the same time, so that they can synchronize over the grid.
  bool cooperative = false;
  // How much of the shared memory that an SM can have it should have, in percent; the L1 cache
  // gets the rest. -1: as much as its blocks need.
  int shared_percent = -1;
  // Of all tensors that the kernel reads and writes: whether a host had better share the work.
  int64_t tensor_bytes = 0;
};

// What the compiler made of a kernel. On the host only the symbol's shared memory has a meaning.
struct KernelResources {
  int registers = 0; // per thread
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  int stack_bytes = 0;
  int static_shared_bytes = 0;
};

// A kernel that is launched again and again with one configuration and changing arguments. May be
// called by several threads. Does not outlive the module.
class RepeatedLaunch {
 public:
  virtual ~RepeatedLaunch() = default;
  // As CompiledModule::launch(). False if nothing was done: launch() is the way then.
  virtual bool launch(void* stream, void** args) = 0;
};

class CompiledModule {
 public:
  CompiledModule();
  virtual ~CompiledModule();
  CompiledModule(const CompiledModule&) = delete;
  CompiledModule& operator=(const CompiledModule&) = delete;

  // `args` points to the kernel's parameters in order, each as the kernel text declares it. CUDA:
  // returns when the launch is queued. Host: returns when the kernel is through. May be called by
  // several threads.
  virtual void launch(const LaunchConfig& config, void** args) const = 0;

  // Null where launch() is as cheap.
  virtual std::shared_ptr<RepeatedLaunch> repeat(const LaunchConfig&) const {
    return nullptr;
  }

  // How many blocks of this shape an SM holds at once.
  virtual int maxActiveBlocksPerSm(int threads, size_t dynamic_shared_bytes) const = 0;

  const std::string& symbol() const {
    return symbol_;
  }
  Device device() const {
    return device_;
  }
  const KernelResources& resources() const {
    return resources_;
  }
  // What the compiler said (warnings, ptxas statistics).
  const std::string& log() const {
    return log_;
  }
  // Taken from disk or memory, not compiled, when it was made. For tests and reports.
  bool fromCache() const {
    return from_cache_;
  }
  double compileMilliseconds() const {
    return compile_ms_;
  }
  // Of everything that the binary depends on: its name in the disk cache.
  const std::string& key() const {
    return key_;
  }
  size_t binaryBytes() const {
    return binary_bytes_;
  }

  // Where it comes from, told once by whoever loaded it.
  void setOrigin(const std::string& key, const CompiledBinary& binary, bool from_cache,
                 double compile_ms);

 protected:
  std::string symbol_;
  Device device_;
  KernelResources resources_;

 private:
  std::string log_;
  bool from_cache_ = false;
  double compile_ms_ = 0;
  std::string key_;
  size_t binary_bytes_ = 0;
};

// What is loaded in this process now.
struct LoadedModules {
  size_t count = 0;
  size_t binary_bytes = 0;
};
LoadedModules loadedModules();

// The module stays loaded until the process ends: a graph that was captured may launch its kernel
// at any time, and nobody tells when the last such graph is gone.
void keepLoaded(std::shared_ptr<const CompiledModule> module);

} // namespace nvfuser
