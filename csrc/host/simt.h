// SPDX-License-Identifier: BSD-3-Clause
// Runs a kernel that was compiled for the host target: blocks on a thread pool; the threads of a
// block as plain loops when they never synchronize (then the C++ compiler optimizes the loop) and
// as fibers when the kernel has barriers (cluster.h). What a compiled kernel looks like from
// outside: device/host/abi.h.
//
//     void* library = dlopen("kernel.so", RTLD_NOW | RTLD_LOCAL);
//     const auto* kernel = static_cast<const NvfHostKernel*>(dlsym(library, kernel_name));
//     std::string error = runHostKernel(*kernel, launch, args);
//
// host/compiler.cpp has the flags that kernels are built with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <device/host/abi.h>

namespace nvfuser {

struct HostLaunch {
  NvfHostDim grid{1, 1, 1};
  NvfHostDim block{1, 1, 1};
  size_t dynamic_shared_bytes = 0;
  // A seed other than 0 runs adversarially: blocks and, between barriers, threads in random order
  // (the seed decides); shared memory starts as NaN patterns. A kernel assembled with
  // AssembleOptions::adversarial reports races on shared memory, accesses outside of it and
  // misaligned vectors as errors.
  uint64_t adversarial_seed = 0;
  // Blocks that run together and may use each other's shared memory; divides the grid. Where all
  // blocks synchronize over the grid it is the grid.
  NvfHostDim cluster{1, 1, 1};
  // Of all tensors that are read and written: little is done by the calling thread alone.
  int64_t tensor_bytes = 0;
};

// Runs the kernel to its end. `args[i]` points to the i-th parameter, as for cuLaunchKernel.
// Returns an empty text, or what went wrong: a launch that the kernel cannot take, threads of a
// block that part at a barrier, a failed check of the adversarial mode. May be called from several
// threads at once; after fork() the child starts its own workers. The environment variable
// NVFUSER_HOST_THREADS sets the number of threads.
std::string runHostKernel(const NvfHostKernel& kernel, const HostLaunch& launch, void** args);

} // namespace nvfuser
