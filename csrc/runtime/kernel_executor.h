// SPDX-License-Identifier: BSD-3-Clause
// KernelExecutor: one scheduled fusion, lowered, compiled and launched. Manual schedules are run
// through this class directly; FusionExecutorCache keeps one for each segment and distinct
// schedule.
//
// Launching has two steps. prepare() does everything that depends only on the arguments' metadata
// (checks, output shapes, grid, packing) and gives a PreparedLaunch; launch() patches pointers and
// scalars into it and enqueues it.
#pragma once

#include <base/error.h>
#include <kernel/kernel.h>
#include <runtime/compile.h>
#include <runtime/devices.h>
#include <runtime/evaluation.h>
#include <runtime/executor_params.h>
#include <runtime/kernel_args.h>
#include <runtime/profiler.h>
#include <target/tensor_map.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace nvfuser {

class ExtentChecks;
class ScalarEvaluator;

// The shape of one output of a kernel, and what it is bound to.
struct OutputShape {
  DataType dtype = DataType::Null;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t storage_elements = 0;
  int alias_input = -1;  // position of the kernel input that it is written into, or that it is
  bool in_place = false; // written into storage that exists
  int same_as = -1;      // position of an earlier output that is the same tensor
  bool hidden = false;   // not returned

  TensorDesc desc(Device device) const {
    return {dtype, device, sizes, strides, storage_elements};
  }
};

// The shape of an output that is allocated for a tensor.
OutputShape denseOutput(const TensorView* tv, ScalarEvaluator& evaluator,
                        DataType index_type = DataType::Int);

// Why a kernel cannot be launched with some arguments, though there is nothing wrong with these.
// Whoever made the schedule by hand is told; an automatic one gives way to another.
struct LaunchRefusal {
  enum class Kind : uint8_t {
    None,
    // What the schedule takes for granted does not hold: vectors that divide, an extent that it was
    // made for, loops with iterations.
    UnmetAssumption,
    // Blocks that wait for each other are more than the device runs at once.
    DoesNotFit
  };
  Kind kind = Kind::None;
  std::string why;
};

// A launch for one set of argument shapes. Immutable once made; may be launched from several
// threads.
struct PreparedLaunch {
  // A value to be written into the argument bytes at each launch.
  struct Patch {
    enum class Kind : uint8_t { Pointer, Scalar, CpuScalar, RngSeed, RngOffset };
    Kind kind;
    DataType dtype;  // of a scalar
    uint32_t offset; // into `bytes`
    uint32_t index;  // of the value among the kernel's inputs followed by its outputs
  };
  // The address of a part of the launch's workspace, or of its semaphores.
  struct WorkspaceUse {
    uint32_t offset; // into `bytes`
    bool is_semaphores;
    uint64_t first; // byte of the workspace, or counter
  };
  // A tensor map, which is made anew where the tensor's address is another one.
  struct TensorMapUse {
    uint32_t offset; // into `bytes`
    uint32_t index;  // of the tensor, as in Patch
    TensorMapRequest request;
  };
  std::vector<std::byte> bytes;  // the packed arguments
  std::vector<uint32_t> offsets; // of each kernel parameter
  std::vector<Patch> patches;
  std::vector<WorkspaceUse> workspace_uses; // empty for most kernels
  std::vector<TensorMapUse> tensor_maps;    // the same
  uint64_t workspace_bytes = 0;
  uint64_t semaphore_count = 0;
  std::vector<OutputShape> outputs;
  LaunchConfig config;
  bool empty = false; // nothing to do: every output has zero elements
  std::shared_ptr<CompiledModule> module;
  std::shared_ptr<RepeatedLaunch> repeated; // null: every launch is for itself
  // Evaluated in place of a kernel. `patches` then are its inputs and its outputs, in order.
  std::shared_ptr<const Evaluation> evaluated;
  Device device{};
};

// Enqueues the kernel. `values` are its arguments followed by its outputs, of which only the
// address is used.
void launch(const PreparedLaunch& prepared, std::span<const ArgView> values, const PhiloxState& rng,
            void* stream);
// Of an evaluation that makes its results.
std::vector<Tensor> makeResults(const PreparedLaunch& prepared, std::span<const ArgView> values);

class KernelExecutor {
 public:
  // What reports and profiles of a kernel need that was not lowered here.
  struct Identity {
    std::string name;
    SchedulerType scheduler_type = SchedulerType::None;
    int64_t group_id = 0;
    DataType index_type = DataType::Int;
  };

  explicit KernelExecutor(int64_t fusion_id = 0, int64_t concrete_id = 0, int64_t runtime_id = 0,
                          int64_t group_id = 0);
  // Stands for a kernel, or with no module for what is evaluated, whose launches were prepared by
  // another process: it can be reported, not prepared.
  KernelExecutor(const Identity& identity, Device device, std::shared_ptr<CompiledModule> module);
  ~KernelExecutor();
  KernelExecutor(KernelExecutor&&) noexcept;
  KernelExecutor& operator=(KernelExecutor&&) noexcept;

  // Lowers a copy of the fusion as it is scheduled, prints and compiles it. The arguments, if
  // given, choose the device and the index width; without them the index is 64 bits wide and the
  // device is the default one.
  void compile(Fusion* fusion, const KernelArgs& args = {},
               const LaunchParams& launch_constraints = {},
               const CompileParams& compile_params = {},
               SchedulerType scheduler_type = SchedulerType::None);
  // The same in two steps, so that a caller can compile many texts at once. lower() makes the text
  // for a device and an index type.
  void lower(Fusion* fusion, Device device, DataType index_type,
             const LaunchParams& launch_constraints, const CompileParams& compile_params,
             SchedulerType scheduler_type, const KernelOrder& order = {});
  CompileRequest compileRequest() const;
  void setModule(std::shared_ptr<CompiledModule> module);
  // The fusion will be evaluated: as given, or else operation by operation. In the place of lower()
  // and setModule(), or of setModule() alone.
  void evaluate(const Fusion* fusion, Device device, SchedulerType scheduler_type,
                std::shared_ptr<const Evaluation> evaluation = nullptr);

  // Runs and returns the outputs that are not hidden.
  KernelArgs run(const KernelArgs& args, const LaunchParams& launch_constraints = {},
                 const CompileParams& compile_params = {});
  void run(std::span<const ArgView> args, OutputAllocator& allocator, const RunContext& context,
           const LaunchParams& launch_constraints = {});

  // Everything that follows from the arguments' metadata. `in_place`, if not empty, has for each
  // output null or the tensor whose storage it is written to; outputs with an alias in the fusion
  // need none. Errors: UserError naming the input that does not fit. With `refusal` the reasons
  // that it lists are told there, and what is returned then is not to be launched; without it they
  // are errors too.
  PreparedLaunch prepare(std::span<const ArgView> args, const LaunchParams& launch_constraints = {},
                         std::span<const ArgView* const> in_place = {},
                         LaunchRefusal* refusal = nullptr) const;

  bool isCompiled() const {
    return module_ != nullptr || isEvaluated();
  }
  bool isEvaluated() const {
    return evaluated_ != nullptr;
  }
  bool isLowered() const {
    return kernel_ != nullptr;
  }
  bool isProgrammaticDependentLaunchEnabled() const {
    return kernel_ != nullptr && kernel_->order.waits_for_previous;
  }
  // The function alone, as generated.
  const std::string& kernelText() const {
    return text_;
  }
  // With the parts of the device library that it uses.
  std::string fullText() const;
  // nvfuser_pointwise_f0_c0_r0_g0
  const std::string& kernelName() const {
    return name_;
  }
  Kernel* kernel() const {
    return kernel_.get();
  }
  int64_t groupId() const {
    return group_id_;
  }
  SchedulerType schedulerType() const {
    return scheduler_type_;
  }
  DataType indexType() const {
    return index_type_;
  }
  Device device() const {
    return device_;
  }
  const std::shared_ptr<CompiledModule>& module() const {
    return module_;
  }
  const CompileParams& compileParams() const {
    return compile_params_;
  }
  double compileMilliseconds() const {
    return compile_ms_;
  }

 private:
  struct LaunchInfo; // what prepare() needs, gathered once from the kernel
  void gatherLaunchInfo();
  void nameKernel();
  void checkArchitecture() const;
  void checkRegisters() const;                         // given and taken by warps of their own
  std::string assemble(const std::string& text) const; // adds the device library
  struct Preparation;                                  // prepare() in progress

  int64_t fusion_id_;
  int64_t concrete_id_;
  int64_t runtime_id_;
  int64_t group_id_;
  SchedulerType scheduler_type_ = SchedulerType::None;
  Device device_{};
  DataType index_type_ = DataType::Int;
  CompileParams compile_params_;
  LaunchParams launch_constraints_;
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<LaunchInfo> info_;
  // Inputs that an output of the fusion is written into while others may still read them.
  std::vector<size_t> read_while_written_;
  // Of a schedule made by hand; a plan has its own for all segments together.
  std::unique_ptr<ExtentChecks> extent_checks_;
  std::string name_;
  std::string text_;
  std::shared_ptr<CompiledModule> module_;
  std::shared_ptr<const Evaluation> evaluated_; // has no module then
  double compile_ms_ = 0;
};

// What is known of a launch without its times.
KernelProfile kernelProfile(const KernelExecutor& executor, const PreparedLaunch& prepared,
                            int64_t input_bytes, int64_t output_bytes);

// What NVFUSER_DUMP asks for of a launch: its geometry, its arguments.
void dumpLaunch(const std::string& name, const PreparedLaunch& prepared,
                std::span<const ArgView> args);

// Bytes of the tensors among the arguments; expanded dimensions count once.
int64_t argumentBytes(std::span<const ArgView> args);

// A graph that is being captured launches kernels again with the arguments of this call. Error: the
// call draws numbers from a generator.
void checkCapture(uint64_t rng_numbers);

// Error: an environment variable that decides how kernels for the device are made names what is not
// there, or has no meaning. Asked before a plan is made: while it is made an error may count as a
// kernel that could not be made.
void checkEnvironment(Device device);

// Whether a kernel for the device can't be compiled but its fusion can be evaluated.
bool mustEvaluate(Device device);

// CUDA device 0 if there is one, else the host.
Device defaultDevice();

// One thread runs all threads of a block there, in loops (lower/thread_loops.cpp). Their indices
// have 64 bits: the compiler makes vector instructions of a loop whose addresses do not wrap.
bool runsThreadsInLoops(Device device);

// The index type that the shapes ask for: Int32 if no offset into an argument or output, and no
// extent product, can pass 2^31 - 1.
DataType chooseIndexType(Fusion* fusion, std::span<const ArgView> args);

// Checks arguments against a fusion's inputs: number, kind, dtype, rank, device, static extents,
// promised contiguity.
void checkInputs(const Fusion* fusion, std::span<const ArgView> args, Device device);

// The device that a call with these arguments runs on: that of its CUDA tensors if there are any
// (Error: of several devices), else the host if there is a tensor that is no CPU scalar, else
// `fallback`.
Device chooseDevice(const Fusion* fusion, std::span<const ArgView> args, Device fallback);

} // namespace nvfuser
