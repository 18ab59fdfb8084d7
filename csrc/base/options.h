// SPDX-License-Identifier: BSD-3-Clause
// The environment options NVFUSER_DUMP, NVFUSER_ENABLE, NVFUSER_DISABLE, NVFUSER_PROF and
// NVFUSER_MACHINE.
//
// The value of a variable is a comma-separated list of key words, each optionally with arguments in
// parentheses: NVFUSER_ENABLE=fast_math,warn_register_spill(8). They are read once, at first use.
// An OptionsGuard changes them for the current thread while it is alive (this is how the options of
// one execute() call work); other threads that work for the same call take over an OptionsSnapshot.
//
// The contract has key words for what this compiler does otherwise. They are accepted, change
// nothing, and a warning says so and why, once for each.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nvfuser {

enum class EnableOption : uint8_t {
  FuseMatmul,
  FuseMultipleMatmuls,
  CutlassScheduler,
  TmaPointwise,
  TmaInnerPersistent,
  TmaReduction,
  WsNormalization,
  HostIrLowering,
  HostIrJit,
  InsertReshardingAfter,
  IdModelExtraValidation,
  IoToLowerPrecision,
  MemoryPromotion,
  ReuseZeroedMemory,
  StaticFusionCount,
  KernelDb,
  KernelDebug,
  KernelLineInfo,
  KernelProfile,
  FastMath,
  WarnRegisterSpill,
  WaitDebugger,
  P2pProtocol,
  P2pTransport,
  MulticastProtocol,
  VerifyIr, // beyond the contract: fusion/verify.h, kernel/verify.h
  EndOfOptions
};

enum class DisableOption : uint8_t {
  MatmulExprEval,
  GreedyScheduler,
  ResizeScheduler,
  ParallelCompile,
  KernelReuse,
  InferContiguity,
  Multidevice,
  MagicZero,
  IndexHoist,
  ContigIndexing,
  ExprSimplify,
  PredicateElimination,
  VarNameRemapping,
  ReuseMismatchedTypeRegisters,
  Fma,
  ApproxTranscendentals, // beyond the contract: see codegen/approximate.h
  CompileToSass,
  NvrtcCaching,
  WelfordVectorization,
  GroupedGridWelfordOuterOpt,
  Nvtx,
  Fallback,
  PythonInlineDefinitions,
  TunedParams,                 // what autotune() kept
  LaunchGraph,                 // cuda/repeated_launch.h
  ProgrammaticDependentLaunch, // executor/kernel_orders.h
  DynamicExtents,              // executor/planner.h: each extent gets a kernel of its own
  HostMemoryPool,              // host/memory_pool.h: freed memory is not kept
  MoveViews,                   // preseg_passes/move_views_to_ends.cpp
  GenerateTopK,                // preseg_passes/generate_topk.cpp
  CatsInParts,                 // preseg_passes/cats_in_parts.cpp
  AddFewElements,              // preseg_passes/add_few_elements.cpp
  SeparateAxes,                // preseg_passes/separate_axes.cpp
  ScaleProducts,               // preseg_passes/scale_products.cpp
  SeparateBias,                // preseg_passes/separate_bias.cpp
  PadProducts,                 // preseg_passes/pad_products.cpp
  // Rewrites into the canonical form: preseg_passes/canonical_form.h
  SimplifyLookups,
  MergeParts,
  FoldConstants,
  SimplifyIdentities,
  ComputeBeforeBroadcasts,
  SimplifyPowers,
  SimplifyHyperbolics,
  ShareCommonExpressions,
  ShareSums,
  GroupAttentionHeads,
  LendRows,
  CollectTerms,
  EndOfOptions
};

enum class DumpOption : uint8_t {
  // The definition, and the fusion after each step of planning
  PythonDefinition,
  FusionIrOriginal,
  FusionIrConcretized,
  FusionIrPreseg,
  FusionIrPresched,
  FusionIr,
  FusionIrMath,
  FusionIrGraph,
  PreSegmenterLogging,
  // Segmentation
  SegmentedFusion,
  SegmenterLogging,
  DrawSegmentedFusion,
  // Scheduling
  SchedulerParams,
  SchedulerVerbose,
  TransformPropagator,
  Inlining,
  CaMap,
  ParallelDimensions,
  // Lowering. "lower" prints the IR after each pass that changed it, and the time the pass took.
  Lower,
  KernelIr,
  LowerVerbose,
  ExprSimplify,
  ExprSort,
  ExprSortVerbose,
  IndexingVerbose,
  PredicateElimination,
  SyncMap,
  BufferReuseVerbose,
  BankConflict,
  IndexType,
  // Generated code
  CudaKernel,
  CudaFull,
  CudaToFile,
  Ptx,
  Cubin,
  Sass,
  SassToFile,
  PtxasVerbose,
  CompileParams,
  CutlassCompile,
  // Run time
  LaunchParam,
  FusionArgs,
  KernelArgs,
  DynamicSharedMemory,
  Occupancy,
  PerfDebugVerbose,
  GlobalZeroedMemory,
  Ftrace,
  // Host program, several devices
  HostIr,
  HostIrLowering,
  HostIrJit,
  Communication,
  EndOfOptions
};

enum class ProfilerOption : uint8_t {
  Enable,
  EnableNoCupti,
  Print,
  PrintNoCupti,
  PrintVerbose,
  EndOfOptions
};

// The machine that kernels for CPU tensors are scheduled for, NVFUSER_MACHINE: the host itself
// ("host", what holds if nothing is said), or, to test the schedules of GPUs and to look at them
// without one, a Hopper of few SMs ("hopper") or an H200 ("h200").
enum class HostSchedules : uint8_t { ForSmallHopper, ForH200, ForHost };

HostSchedules toHostSchedules(std::string_view machine); // UserError: there is no such machine

// A set of key words with their arguments.
template <class Option>
class OptionSet {
 public:
  static constexpr size_t kCount = static_cast<size_t>(Option::EndOfOptions);

  bool has(Option option) const {
    return bits_.test(static_cast<size_t>(option));
  }
  // Empty if the option is not set or has no arguments.
  const std::vector<std::string>& arguments(Option option) const;
  void set(Option option, std::vector<std::string> arguments = {});
  void unset(Option option);
  bool any() const {
    return bits_.any();
  }
  // Adds what a comma-separated list says. Throws UserError for an unknown key word.
  void parse(std::string_view list);
  // Adds one bare key word.
  void addKeyword(std::string_view keyword);
  // Warns of the key words that change nothing.
  void warnOfIgnored() const;
  // Of the key words that change something.
  uint64_t hash() const;

 private:
  std::bitset<kCount> bits_;
  std::map<Option, std::vector<std::string>> arguments_;
};

struct Options {
  OptionSet<EnableOption> enable;
  OptionSet<DisableOption> disable;
  OptionSet<DumpOption> dump;
  OptionSet<ProfilerOption> profiler;
  HostSchedules host_schedules = HostSchedules::ForHost;
};

using OptionsSnapshot = std::shared_ptr<const Options>;

// What holds for the current thread now.
const Options& currentOptions();
OptionsSnapshot snapshotOptions();

// Of everything that can change a generated kernel or plan; part of the keys of caches.
uint64_t optionsHash();

inline bool isOptionEnabled(EnableOption option) {
  return currentOptions().enable.has(option);
}
inline bool isOptionDisabled(DisableOption option) {
  return currentOptions().disable.has(option);
}
inline bool isDumpEnabled(DumpOption option) {
  return currentOptions().dump.has(option);
}
inline bool isProfilerEnabled(ProfilerOption option) {
  return currentOptions().profiler.has(option);
}
inline const std::vector<std::string>& optionArguments(EnableOption option) {
  return currentOptions().enable.arguments(option);
}
inline const std::vector<std::string>& optionArguments(DumpOption option) {
  return currentOptions().dump.arguments(option);
}

std::string_view optionName(EnableOption option);
std::string_view optionName(DisableOption option);
std::string_view optionName(DumpOption option);
std::string_view optionName(ProfilerOption option);

// Changes the options of the current thread until it is destroyed. Guards nest like scopes.
class OptionsGuard {
 public:
  OptionsGuard();
  // The bare key words of one call, on top of what holds.
  OptionsGuard(const std::vector<std::string>& enable_options,
               const std::vector<std::string>& disable_options);
  // Takes over what holds in another thread.
  explicit OptionsGuard(const OptionsSnapshot& snapshot);
  ~OptionsGuard();
  OptionsGuard(const OptionsGuard&) = delete;
  OptionsGuard& operator=(const OptionsGuard&) = delete;

  // To be changed only while this is the innermost guard, and before other threads take a snapshot.
  Options& options() {
    return *mutable_;
  }

 private:
  OptionsSnapshot previous_;
  std::shared_ptr<Options> mutable_;
};

// An environment variable, or the default when it is unset or empty. A value that is no integer is
// a UserError.
std::string environmentString(const char* name, const std::string& default_value = {});
int64_t environmentInt(const char* name, int64_t default_value);

} // namespace nvfuser
