// SPDX-License-Identifier: BSD-3-Clause
// Times of one fusion call: host time, and the time of each kernel by CUDA events (device) or the
// clock (host target). Nothing is recorded unless a profile was started on this thread.
#pragma once

#include <target/device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace nvfuser {

struct KernelProfile {
  std::string name;
  int64_t segment_id = -1;
  int device = -1;
  int64_t stream = 0;          // its handle
  int64_t correlation_id = -1; // counts the profiled launches of the process
  double compile_time_ms = 0;
  double time_ms = 0;
  double effective_bandwidth_gbs = 0;
  double percentage_peak_bandwidth = 0;
  std::string grid_str;
  std::string block_str;
  std::string cluster_str;
  std::string shared_mem_str;
  int64_t registers = 0;
  int64_t input_bytes = 0;
  int64_t output_bytes = 0;
  std::string scheduler;
  // On one line.
  std::string toString() const;
};

struct FusionProfile {
  bool verbose = false;
  int64_t fusion_id = -1;
  int64_t segments = 0;
  double cuda_evt_time_ms = 0;
  double host_time_ms = 0;
  double compile_time_ms = 0;
  double kernel_time_ms = 0;
  double effective_bandwidth_gbs = 0;
  double percentage_peak_bandwidth = 0;
  int64_t input_bytes = 0;
  int64_t output_bytes = 0;
  std::vector<KernelProfile> kernel_profiles;
  std::string toString() const;
};

// The profiler of this thread.
class FusionProfiler {
 public:
  // Whether calls on this thread are recorded: between enable() and disable(), or by NVFUSER_PROF.
  static bool isEnabled();
  static void enable(bool verbose = false);
  static void disable();
  // Error: nothing was recorded since enable().
  static FusionProfile profile();
  static void reset();

  // Called by the executors. A call that is made inside another (segments) belongs to it.
  static void startFusion(int64_t fusion_id, Device device, void* stream);
  static void stopFusion(int64_t input_bytes, int64_t output_bytes);
  // A call that ended by an exception.
  static void abortFusion();
  static void startKernel(Device device, void* stream);
  static void stopKernel(KernelProfile profile);
  static void addCompileTime(double ms);
};

} // namespace nvfuser
