// SPDX-License-Identifier: BSD-3-Clause
// One cluster of blocks on the host: all its threads are fibers of one thread of the operating
// system, which runs them one after the other from barrier to barrier. Most kernels have clusters
// of one block.
//
// In the adversarial mode threads run in random order, asynchronous copies complete when nothing
// else can go on, and accesses to shared memory are checked for races (race_check.h).
#pragma once

#include <host/simt.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace nvfuser {

// A launch that is under way.
struct LaunchState {
  const NvfHostKernel& kernel;
  const HostLaunch& launch;
  NvfHostLaunch device_launch;
  void** args;
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::string error; // the first one

  LaunchState(const NvfHostKernel& the_kernel, const HostLaunch& the_launch,
              NvfHostLaunch for_device, void** the_args)
      : kernel(the_kernel), launch(the_launch), device_launch(for_device), args(the_args) {}

  void fail(const std::string& message) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!failed.exchange(true)) {
      error = message;
    }
  }
};

// What a running kernel may call.
extern const NvfHostServices kHostServices;

// Runs a cluster to its end or until something fails. `cluster` is its index in the grid of
// clusters. Throws std::bad_alloc.
void runCluster(LaunchState& state, NvfHostDim cluster);

// Dynamic shared memory for a block that needs nothing else, valid until the next call of this
// thread.
char* hostSharedMemory(size_t bytes);

inline uint64_t volume(NvfHostDim d) {
  return static_cast<uint64_t>(d.x) * d.y * d.z;
}

inline NvfHostDim unflatten(uint64_t index, NvfHostDim extents) {
  const uint64_t row = index / extents.x;
  return {static_cast<unsigned>(index % extents.x), static_cast<unsigned>(row % extents.y),
          static_cast<unsigned>(row / extents.y)};
}

std::string toText(NvfHostDim d);

} // namespace nvfuser
