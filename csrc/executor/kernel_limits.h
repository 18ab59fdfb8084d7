// SPDX-License-Identifier: BSD-3-Clause
// How many kernels a process keeps loaded: those used longest ago are given up.
//
// A kernel stays loaded as long as a plan or the planner of a definition may use it again. Programs
// whose shapes change all the time would collect them without end, and each takes about 9 memory
// maps on the host (of which Linux gives a process 65,530), memory of the device on CUDA, and the
// IR that it was made from. So definitions register here, and whenever too much is loaded those
// kernels that were used longest ago are dropped, wherever they belong, with the plans that use
// them. A call that is under way holds its plan and so its kernels. What was dropped comes back
// from the disk cache.
//
// NVFUSER_MAX_KERNELS (2048) limits their number, NVFUSER_MAX_KERNEL_MB (1024) the size of their
// binaries, NVFUSER_MAX_PLANS (4096) the launch plans that one definition keeps.
//
// Time is counted in plans made: plans that are only run do not move it on, so that a call of a
// known shape costs no more than a comparison.
#pragma once

#include <target/compiled_module.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser {

using KernelPtr = std::shared_ptr<const CompiledModule>;
// When each kernel was used last.
using KernelUses = std::unordered_map<KernelPtr, uint64_t>;
using KernelSet = std::unordered_set<KernelPtr>;
// Things to be destroyed once no lock is held.
using Discarded = std::vector<std::shared_ptr<const void>>;

// A definition that keeps kernels.
class KernelKeeper {
 public:
  virtual ~KernelKeeper() = default;
  // Adds the kernels kept; of two times the later one holds.
  virtual void listKernels(KernelUses& uses) = 0;
  // Forgets these kernels and all plans that use them.
  virtual void dropKernels(const KernelSet& kernels, Discarded& discarded) = 0;
};

class KernelLimits {
 public:
  struct Limits {
    size_t kernels;
    size_t kernel_bytes;
    size_t plans; // of one definition
  };

  // Never destroyed.
  static KernelLimits& instance();

  uint64_t now() const {
    return now_.load(std::memory_order_relaxed);
  }
  // A plan is made.
  uint64_t advance() {
    return now_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  Limits limits() const;
  void setLimits(const Limits& limits);

  void add(KernelKeeper* keeper);
  void remove(KernelKeeper* keeper);
  // Called without locks after a plan was made. Gives up so much that an eighth of the limit is
  // free, so that looking through everything is rare.
  void enforce();

 private:
  KernelLimits();
  KernelSet leastRecentlyUsed(const KernelUses& uses) const;

  std::atomic<uint64_t> now_ = 0;
  std::atomic<size_t> max_kernels_;
  std::atomic<size_t> max_kernel_bytes_;
  std::atomic<size_t> max_plans_;
  std::mutex mutex_; // before those of the keepers
  std::unordered_set<KernelKeeper*> keepers_;
  // Kernels that nobody here keeps are loaded as well: after a look through everything that freed
  // too little the next one waits until there is more.
  LoadedModules look_again_at_;
};

} // namespace nvfuser
