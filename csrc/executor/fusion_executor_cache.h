// SPDX-License-Identifier: BSD-3-Clause
// FusionExecutorCache: a fusion definition and everything that was made for the shapes it was
// called with.
//
// Three levels. (1) The arguments' metadata is known: a launch plan is looked up and its kernels
// are enqueued; no IR is touched. (2) New shapes: checks, heuristics; kernels are reused when their
// parameters agree. (3) A new schedule: schedule, lower, compile, segments in parallel.
//
// Everything may be called by several threads at once. Calls with new shapes are planned one after
// the other, as planning works on IR that they share, but kernels are compiled side by side
// (executor/planner.h): a call waits for its own kernels and for nobody else's. Threads that bring
// the same new shape get one plan, made by the first.
#pragma once

#include <fusion.h>
#include <runtime/kernel_args.h>
#include <runtime/profiler.h>
#include <scheduler/params.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace nvfuser {

class LaunchPlan;

// What one segment of a fusion became, for explain() and the text getters.
// An operation of a segment.
struct OperationReport {
  std::string kind;                 // exp, sum, broadcast, ...
  std::string text;                 // T3 = exp(T2)
  std::string source;               // file:line that defined it; empty where not known
  std::vector<std::string> results; // T3
};

struct SegmentReport {
  int64_t segment_id = 0;
  SchedulerType scheduler = SchedulerType::None;
  std::string scheduler_params; // printed heuristic parameters, empty if none
  std::string math;             // definition of the segment
  std::string scheduled_ir;
  std::string kernel_name; // empty: no kernel
  std::string kernel_text;
  std::string full_text; // with the device library
  std::string launch;    // grid, block, shared memory, or who evaluates it in place of a kernel
  std::string note;      // why it is a segment of its own, why nothing is launched, ...
  // Schedulers that do not take the segment, and why.
  std::vector<std::pair<SchedulerType, std::string>> rejections;
  std::vector<OperationReport> operations; // producers first
  // Tensors that it reads and writes, by their names in the whole fusion.
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  int64_t input_bytes = 0;
  int64_t output_bytes = 0;
  int registers = 0; // per thread, 0 where not known
  int spill_bytes = 0;
  double compile_ms = 0;
  // What the kernel is made from and what the heuristics chose; null where there is none.
  std::shared_ptr<HeuristicParams> params;
  std::shared_ptr<HeuristicParams> chosen;
  std::string tuning_key; // of TunedParams
};

class FusionExecutorCache {
 public:
  // With auto_schedule = false the fusion is run as one kernel, scheduled as it is.
  explicit FusionExecutorCache(std::shared_ptr<Fusion> fusion, int64_t fusion_id = 0,
                               bool auto_schedule = true);
  ~FusionExecutorCache();
  FusionExecutorCache(const FusionExecutorCache&) = delete;
  FusionExecutorCache& operator=(const FusionExecutorCache&) = delete;

  // The definition as it was given; never changed by running it.
  Fusion* fusion() const;
  const std::shared_ptr<Fusion>& sharedFusion() const;

  // Where a call runs: `device`, or where the tensors are, or on the first GPU if there are none. A
  // device that contradicts the tensors is an error.
  Device deviceFor(std::span<const ArgView> args, std::optional<Device> device) const;

  // The hot path. Outputs go to `allocator`. `stream` is one of the device.
  void run(std::span<const ArgView> args, OutputAllocator& allocator, void* stream = nullptr,
           RngState* rng = nullptr, std::optional<Device> device = std::nullopt);

  // The two steps of run(), for callers that hold something while a call is enqueued that others
  // should not wait for while a kernel is compiled. findPlan() is null if planFor() has to make the
  // plan.
  std::shared_ptr<const LaunchPlan> findPlan(std::span<const ArgView> args,
                                             std::optional<Device> device = std::nullopt);
  std::shared_ptr<const LaunchPlan> planFor(std::span<const ArgView> args,
                                            std::optional<Device> device = std::nullopt);

  // Convenience: allocates Tensors. Returns the outputs that are not hidden.
  KernelArgs runFusionWithInputs(const KernelArgs& inputs,
                                 std::optional<Device> device = std::nullopt);

  // Whether a call with such arguments needs no compilation.
  bool isCompiled(std::span<const ArgView> args, std::optional<Device> device = std::nullopt);
  bool isCompiled(const KernelArgs& inputs, std::optional<Device> device = std::nullopt);

  // Kernel texts of all segments for these arguments; compiles them if that was not done.
  std::string getCode(const KernelArgs& inputs, bool intrinsic_code = false,
                      std::optional<Device> device = std::nullopt);
  std::string getScheduledIr(const KernelArgs& inputs, bool tensor_transforms = false,
                             std::optional<Device> device = std::nullopt);
  std::string getMostRecentCode(bool intrinsic_code = false) const;
  // Error before the first run.
  std::string getMostRecentScheduledIr(bool tensor_transforms = false) const;
  std::vector<SegmentReport> segmentReports(const KernelArgs& inputs,
                                            std::optional<Device> device = std::nullopt);
  std::vector<SegmentReport> mostRecentSegmentReports() const;
  // Bytes that a call with these arguments allocates at its peak (memory_places.h).
  int64_t peakBytes(std::span<const ArgView> args, std::optional<Device> device = std::nullopt);

  // Parameters of segments, by position, in place of what the heuristics choose; an empty map takes
  // them back. Plans are made anew. When no kernel can be made with them, calls fail.
  void setParams(std::map<size_t, std::shared_ptr<const HeuristicParams>> params);

  // Number of distinct kernels made for this definition (compiled or taken from the disk), and of
  // launch plans kept.
  int64_t numKernels() const;
  int64_t numPlans() const;
  // How many plans were made here, and not taken from the disk.
  int64_t numPlanned() const;
  // How often a kernel was refused by lowering and simpler ones were made; 0 unless a scheduler is
  // wrong.
  int64_t numFallbacks() const;

 private:
  struct Impl;
  std::shared_ptr<const LaunchPlan> mostRecentPlan() const;
  std::unique_ptr<Impl> impl_;
};

} // namespace nvfuser
