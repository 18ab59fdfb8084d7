// SPDX-License-Identifier: BSD-3-Clause
// Memory that kernels work in besides their arguments: a buffer for the partial results of
// reductions over the grid, and counters that are zero when a kernel starts and that it leaves
// zero.
//
// On CUDA the kernels of one stream share both, as they run one after the other: the memory is kept
// for each device and stream, grows on demand, and the counters are zeroed once. While a stream is
// captured into a graph the memory belongs to the graph. On the host each launch that is under way
// has its own, from a pool.
#pragma once

#include <target/device.h>

#include <cstddef>
#include <memory>

namespace nvfuser {

// Held while the kernel is launched. Other launches with a workspace on the same stream wait for
// that long, so that none of them grows the buffer between taking its address and enqueueing the
// kernel.
class LaunchWorkspace {
 public:
  // Throws UserError when there is not enough memory.
  LaunchWorkspace(Device device, void* stream, size_t bytes, size_t semaphore_count);
  // Unless setLaunched() was called the counters count as dirty: they are zeroed before their next
  // use.
  ~LaunchWorkspace();
  LaunchWorkspace(const LaunchWorkspace&) = delete;
  LaunchWorkspace& operator=(const LaunchWorkspace&) = delete;

  // Aligned to 256 bytes.
  std::byte* memory() const {
    return memory_;
  }
  unsigned* semaphores() const {
    return semaphores_;
  }
  void setLaunched();

  class Source; // where the memory comes from

 private:
  std::unique_ptr<Source> source_;
  std::byte* memory_ = nullptr;
  unsigned* semaphores_ = nullptr;
};

} // namespace nvfuser
