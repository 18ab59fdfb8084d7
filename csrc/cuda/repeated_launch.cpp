// SPDX-License-Identifier: BSD-3-Clause
// See cuda_repeated_launch.h.
#include <cuda/repeated_launch.h>

#include <atomic>
#include <chrono>
#include <exception>

namespace nvfuser {
namespace {

// Graphs take memory of the device: programs with more kernels and shapes launch the rest
// ordinarily.
constexpr int kMostGraphs = 1024;
std::atomic<int> graph_count = 0;

// A graph is made when a stream has launched the kernel that often.
constexpr int kCallsBefore = 3;

// The device still has work though the last launch was long ago: the host does not keep it waiting.
// After a launch just before, a kernel may merely not have begun.
bool hostIsAhead(void* stream) {
  using Clock = std::chrono::steady_clock;
  constexpr Clock::duration kLaunchLatency = std::chrono::microseconds(10);
  static std::atomic<Clock::duration> last_launch{};
  const Clock::duration now = Clock::now().time_since_epoch();
  const Clock::duration before = last_launch.exchange(now, std::memory_order_relaxed);
  return now - before > kLaunchLatency && cuda::isBusy(stream);
}

cuda::KernelNodeParams nodeParams(cuda::Function function, const LaunchConfig& config,
                                  void** args) {
  cuda::KernelNodeParams params = {};
  params.function = function;
  params.grid[0] = config.grid.x;
  params.grid[1] = config.grid.y;
  params.grid[2] = config.grid.z;
  params.block[0] = config.block.x;
  params.block[1] = config.block.y;
  params.block[2] = config.block.z;
  params.shared_bytes = config.dynamic_shared_bytes;
  params.args = args;
  return params;
}

} // namespace

CudaRepeatedLaunch::CudaRepeatedLaunch(cuda::Function function, int device,
                                       const LaunchConfig& config)
    : function_(function), device_(device), config_(config) {
  const cuda::Driver& f = cuda::driver();
  refused_ = f.cuGraphAddKernelNode == nullptr || f.cuGraphInstantiateWithFlags == nullptr ||
             f.cuGraphExecKernelNodeSetParams == nullptr || config.programmatic_dependent_launch;
}

CudaRepeatedLaunch::~CudaRepeatedLaunch() {
  // At the end of the process the driver may be gone already.
  try {
    const cuda::ContextGuard guard(device_);
    const cuda::RelaxedCapture relaxed;
    dropGraph();
  } catch (const std::exception&) { // NOLINT(bugprone-empty-catch)
  }
}

void CudaRepeatedLaunch::dropGraph() {
  const cuda::Driver& f = cuda::driver();
  if (exec_ != nullptr) {
    f.cuGraphExecDestroy(exec_);
  }
  if (graph_ != nullptr) {
    f.cuGraphDestroy(graph_);
    --graph_count;
  }
  exec_ = nullptr;
  graph_ = nullptr;
}

bool CudaRepeatedLaunch::isWorthwhile(void* stream) {
  if (refused_) {
    return false;
  }
  if (stream == stream_ && exec_ != nullptr) {
    calls_ = 0;
    return true;
  }
  if (exec_ == nullptr && stream != stream_) {
    stream_ = stream;
    calls_ = 0;
  }
  // Another stream takes the graph over when the one that has it stays away.
  constexpr int kCallsElsewhere = 64;
  if (++calls_ <= (exec_ == nullptr ? kCallsBefore : kCallsElsewhere)) {
    return false;
  }
  stream_ = stream;
  calls_ = 0;
  return true;
}

bool CudaRepeatedLaunch::launch(void* stream, void** args) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !isWorthwhile(stream)) {
    return false;
  }
  const cuda::Driver& f = cuda::driver();
  const cuda::ContextGuard guard(device_);
  if (cuda::isCaptured(stream) || hostIsAhead(stream)) {
    return false;
  }
  if (exec_ == nullptr) {
    const cuda::RelaxedCapture relaxed;
    if (!makeGraph(args)) {
      dropGraph();
      refused_ = true;
      return false;
    }
  } else {
    const cuda::KernelNodeParams params = nodeParams(function_, config_, args);
    if (f.cuGraphExecKernelNodeSetParams(exec_, node_, &params) != 0) [[unlikely]] {
      refused_ = true;
      return false;
    }
  }
  if (f.cuGraphLaunch(exec_, static_cast<cuda::Stream>(stream)) != 0) [[unlikely]] {
    refused_ = true; // launch() says what is wrong
    return false;
  }
  return true;
}

bool CudaRepeatedLaunch::makeGraph(void** args) {
  const cuda::Driver& f = cuda::driver();
  const cuda::KernelNodeParams params = nodeParams(function_, config_, args);
  if (graph_count >= kMostGraphs || f.cuGraphCreate(&graph_, 0) != 0) {
    return false;
  }
  ++graph_count;
  if (f.cuGraphAddKernelNode(&node_, graph_, nullptr, 0, &params) != 0) {
    return false;
  }
  cuda::LaunchAttribute attribute = {};
  if (config_.cluster.count() > 1) {
    attribute.value.cluster = {config_.cluster.x, config_.cluster.y, config_.cluster.z};
    if (f.cuGraphKernelNodeSetAttribute(node_, cuda::LaunchAttribute::kClusterDimension,
                                        &attribute.value) != 0) {
      return false;
    }
  }
  if (config_.cooperative) {
    attribute = {};
    attribute.value.flag = 1;
    if (f.cuGraphKernelNodeSetAttribute(node_, cuda::LaunchAttribute::kCooperative,
                                        &attribute.value) != 0) {
      return false;
    }
  }
  return f.cuGraphInstantiateWithFlags(&exec_, graph_, 0) == 0;
}

} // namespace nvfuser
