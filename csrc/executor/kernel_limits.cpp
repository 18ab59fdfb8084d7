// SPDX-License-Identifier: BSD-3-Clause
// See kernel_limits.h.
#include <executor/kernel_limits.h>

#include <base/options.h>

#include <algorithm>

namespace nvfuser {
namespace {

// A quarter of a process's memory maps; and with the IR (some 200 KB each) half a GB.
constexpr int64_t kMaxKernels = 2048;
// On a GPU they take memory that the program wants for tensors.
constexpr int64_t kMaxKernelMb = 1024;
// Some 2 KB each and more for many segments.
constexpr int64_t kMaxPlans = 4096;

size_t limitFrom(const char* name, int64_t default_value) {
  return static_cast<size_t>(std::max<int64_t>(environmentInt(name, default_value), 1));
}

} // namespace

KernelLimits::KernelLimits()
    : max_kernels_(limitFrom("NVFUSER_MAX_KERNELS", kMaxKernels)),
      max_kernel_bytes_(limitFrom("NVFUSER_MAX_KERNEL_MB", kMaxKernelMb) << 20),
      max_plans_(limitFrom("NVFUSER_MAX_PLANS", kMaxPlans)) {}

KernelLimits& KernelLimits::instance() {
  static auto* limits = new KernelLimits();
  return *limits;
}

KernelLimits::Limits KernelLimits::limits() const {
  return {max_kernels_, max_kernel_bytes_, max_plans_};
}

void KernelLimits::setLimits(const Limits& limits) {
  max_kernels_ = limits.kernels;
  max_kernel_bytes_ = limits.kernel_bytes;
  max_plans_ = limits.plans;
  const std::lock_guard lock(mutex_);
  look_again_at_ = {};
}

void KernelLimits::add(KernelKeeper* keeper) {
  const std::lock_guard lock(mutex_);
  keepers_.insert(keeper);
}

void KernelLimits::remove(KernelKeeper* keeper) {
  const std::lock_guard lock(mutex_);
  keepers_.erase(keeper);
}

// So many that seven eighths of the limits are left, but never what the newest plan uses.
KernelSet KernelLimits::leastRecentlyUsed(const KernelUses& uses) const {
  std::vector<std::pair<uint64_t, KernelPtr>> oldest_first;
  uint64_t newest = 0;
  size_t bytes = 0;
  for (const auto& [kernel, time] : uses) {
    oldest_first.emplace_back(time, kernel);
    newest = std::max(newest, time);
    bytes += kernel->binaryBytes();
  }
  std::sort(oldest_first.begin(), oldest_first.end());
  size_t count = oldest_first.size();
  const Limits allowed = limits();
  KernelSet out;
  for (const auto& [time, kernel] : oldest_first) {
    const bool fits = count <= allowed.kernels - allowed.kernels / 8 &&
                      bytes <= allowed.kernel_bytes - allowed.kernel_bytes / 8;
    if (fits || time == newest) {
      break;
    }
    out.insert(kernel);
    --count;
    bytes -= kernel->binaryBytes();
  }
  return out;
}

void KernelLimits::enforce() {
  const auto isBeyond = [](const LoadedModules& allowed) {
    const LoadedModules loaded = loadedModules();
    return loaded.count > allowed.count || loaded.binary_bytes > allowed.binary_bytes;
  };
  const Limits allowed = limits();
  if (!isBeyond({allowed.kernels, allowed.kernel_bytes})) {
    return;
  }
  // Destroyed after the lock is given up.
  Discarded discarded;
  KernelUses uses;
  KernelSet dropped;
  const std::lock_guard lock(mutex_);
  if (!isBeyond({allowed.kernels, allowed.kernel_bytes}) || !isBeyond(look_again_at_)) {
    return;
  }
  for (KernelKeeper* keeper : keepers_) {
    keeper->listKernels(uses);
  }
  dropped = leastRecentlyUsed(uses);
  if (!dropped.empty()) {
    for (KernelKeeper* keeper : keepers_) {
      keeper->dropKernels(dropped, discarded);
    }
  }
  LoadedModules left = loadedModules();
  for (const KernelPtr& kernel : dropped) {
    --left.count;
    left.binary_bytes -= kernel->binaryBytes();
  }
  look_again_at_ = {left.count + allowed.kernels / 8, left.binary_bytes + allowed.kernel_bytes / 8};
}

} // namespace nvfuser
