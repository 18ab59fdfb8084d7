// SPDX-License-Identifier: BSD-3-Clause
// The profiler of fusion calls.
#include <runtime/profiler.h>

#include <base/error.h>
#include <base/options.h>
#include <cuda/driver.h>
#include <runtime/devices.h>

#include <atomic>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <optional>
#include <sstream>

namespace nvfuser {
namespace {

using Clock = std::chrono::steady_clock;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// From one place in a stream to another. The host target runs kernels in the caller's time, so that
// its clock is the stream's.
class StreamTimer {
 public:
  StreamTimer(Device device, void* stream) : device_(device), stream_(stream) {
    if (device_.isCuda()) {
      begin_ = record();
    }
    start_ = Clock::now();
  }
  ~StreamTimer() {
    if (device_.isCuda()) {
      cuda::driver().cuEventDestroy(begin_);
      if (end_ != nullptr) {
        cuda::driver().cuEventDestroy(end_);
      }
    }
  }
  StreamTimer(const StreamTimer&) = delete;
  StreamTimer& operator=(const StreamTimer&) = delete;

  void stop() {
    host_ms_ = millisecondsSince(start_);
    if (device_.isCuda()) {
      end_ = record();
    }
  }
  // Waits for the device.
  double milliseconds() const {
    if (!device_.isCuda()) {
      return host_ms_;
    }
    cuda::ContextGuard guard(device_.index);
    cuda::check(cuda::driver().cuEventSynchronize(end_), "Cannot wait for a kernel to be timed");
    float ms = 0;
    cuda::check(cuda::driver().cuEventElapsedTime(&ms, begin_, end_),
                "Cannot read the time of a kernel");
    return ms;
  }
  double hostMilliseconds() const {
    return host_ms_;
  }
  // Its handle as a number.
  int64_t stream() const {
    return static_cast<int64_t>(reinterpret_cast<intptr_t>(stream_));
  }

 private:
  cuda::Event record() const {
    cuda::ContextGuard guard(device_.index);
    cuda::Event event = nullptr;
    cuda::check(cuda::driver().cuEventCreate(&event, 0), "Cannot create an event");
    cuda::check(cuda::driver().cuEventRecord(event, static_cast<cuda::Stream>(stream_)),
                "Cannot record an event");
    return event;
  }

  Device device_;
  void* stream_;
  cuda::Event begin_ = nullptr;
  cuda::Event end_ = nullptr;
  Clock::time_point start_;
  double host_ms_ = 0;
};

struct Recording {
  int depth = 0;
  int64_t fusion_id = -1;
  Device device;
  double compile_ms = 0;
  std::unique_ptr<StreamTimer> whole;
  std::vector<std::unique_ptr<StreamTimer>> kernel_timers;
  std::vector<KernelProfile> kernels;
};

struct State {
  bool enabled = false;
  bool verbose = false;
  Recording recording;
  std::optional<FusionProfile> profile;
};

State& state() {
  thread_local State s;
  return s;
}

// bytes / ms in GB/s.
double bandwidth(int64_t bytes, double ms) {
  return ms > 0 ? static_cast<double>(bytes) / ms * 1e-6 : 0;
}

double percentOfPeak(double gbs, Device device) {
  const double peak = deviceInfo(device).peakBandwidth() * 1e-9;
  return peak > 0 ? gbs / peak * 100 : 0;
}

bool enabledByEnvironment() {
  return currentOptions().profiler.any();
}

} // namespace

bool FusionProfiler::isEnabled() {
  return state().enabled || enabledByEnvironment();
}

void FusionProfiler::enable(bool verbose) {
  reset();
  state().enabled = true;
  state().verbose = verbose;
}

void FusionProfiler::disable() {
  state().enabled = false;
}

void FusionProfiler::reset() {
  state().recording = {};
  state().profile.reset();
}

FusionProfile FusionProfiler::profile() {
  const std::optional<FusionProfile>& profile = state().profile;
  NVF_CHECK(profile.has_value(),
            "Nothing was profiled: no fusion ran since the profiler was started.");
  return *profile;
}

void FusionProfiler::startFusion(int64_t fusion_id, Device device, void* stream) {
  Recording& r = state().recording;
  if (r.depth++ > 0) {
    return;
  }
  r.fusion_id = fusion_id;
  r.device = device;
  r.compile_ms = 0;
  r.kernel_timers.clear();
  r.kernels.clear();
  r.whole = std::make_unique<StreamTimer>(device, stream);
}

void FusionProfiler::abortFusion() {
  state().recording = {};
}

void FusionProfiler::addCompileTime(double ms) {
  state().recording.compile_ms += ms;
}

void FusionProfiler::startKernel(Device device, void* stream) {
  state().recording.kernel_timers.push_back(std::make_unique<StreamTimer>(device, stream));
}

void FusionProfiler::stopKernel(KernelProfile profile) {
  Recording& r = state().recording;
  r.kernel_timers.back()->stop();
  static std::atomic<int64_t> next_correlation_id{0};
  profile.correlation_id = next_correlation_id++;
  profile.stream = r.kernel_timers.back()->stream();
  r.kernels.push_back(std::move(profile));
}

void FusionProfiler::stopFusion(int64_t input_bytes, int64_t output_bytes) {
  State& s = state();
  Recording& r = s.recording;
  if (--r.depth > 0) {
    return;
  }
  r.whole->stop();
  FusionProfile profile;
  profile.verbose = s.verbose || isProfilerEnabled(ProfilerOption::PrintVerbose);
  profile.fusion_id = r.fusion_id;
  profile.segments = static_cast<int64_t>(r.kernels.size());
  profile.cuda_evt_time_ms = r.whole->milliseconds();
  profile.host_time_ms = r.whole->hostMilliseconds();
  profile.compile_time_ms = r.compile_ms;
  profile.input_bytes = input_bytes;
  profile.output_bytes = output_bytes;
  for (size_t i = 0; i < r.kernels.size(); ++i) {
    KernelProfile& kernel = r.kernels[i];
    kernel.time_ms = r.kernel_timers[i]->milliseconds();
    kernel.effective_bandwidth_gbs =
        bandwidth(kernel.input_bytes + kernel.output_bytes, kernel.time_ms);
    kernel.percentage_peak_bandwidth = percentOfPeak(kernel.effective_bandwidth_gbs, r.device);
    profile.kernel_time_ms += kernel.time_ms;
  }
  profile.effective_bandwidth_gbs = bandwidth(input_bytes + output_bytes, profile.kernel_time_ms);
  profile.percentage_peak_bandwidth = percentOfPeak(profile.effective_bandwidth_gbs, r.device);
  profile.kernel_profiles = std::move(r.kernels);
  s.recording = {};
  const bool print = isProfilerEnabled(ProfilerOption::Print) ||
                     isProfilerEnabled(ProfilerOption::PrintNoCupti) ||
                     isProfilerEnabled(ProfilerOption::PrintVerbose);
  if (print) {
    std::cout << profile.toString();
  }
  s.profile = std::move(profile);
}

std::string KernelProfile::toString() const {
  std::ostringstream out;
  out << std::fixed << std::setprecision(3) << "  segment " << segment_id << "  " << name << "  ["
      << scheduler << "]  " << time_ms << " ms  " << effective_bandwidth_gbs << " GB/s ("
      << percentage_peak_bandwidth << " % of peak)  grid " << grid_str << "  block " << block_str
      << "  shared " << shared_mem_str << "  registers " << registers << "  in " << input_bytes
      << " B  out " << output_bytes << " B  compiled in " << compile_time_ms << " ms";
  return out.str();
}

std::string FusionProfile::toString() const {
  std::ostringstream out;
  out << std::fixed << std::setprecision(3) << "Fusion " << fusion_id << ": " << segments
      << (segments == 1 ? " kernel, " : " kernels, ") << kernel_time_ms << " ms in kernels, "
      << cuda_evt_time_ms << " ms in all, host " << host_time_ms << " ms, compile "
      << compile_time_ms << " ms, " << effective_bandwidth_gbs << " GB/s ("
      << percentage_peak_bandwidth << " % of peak), in " << input_bytes << " B, out "
      << output_bytes << " B\n";
  for (const KernelProfile& kernel : kernel_profiles) {
    out << kernel.toString() << "\n";
  }
  return out.str();
}

} // namespace nvfuser
