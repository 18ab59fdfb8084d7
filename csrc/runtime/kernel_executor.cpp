// SPDX-License-Identifier: BSD-3-Clause
// Compiling and running one scheduled fusion.
#include <runtime/kernel_executor.h>

#include <base/error.h>
#include <base/hash.h>
#include <base/options.h>
#include <base/string_utils.h>
#include <codegen/codegen.h>
#include <cuda/driver.h>
#include <device/library.h>
#include <host/compiler.h>
#include <host/thread_pool.h>
#include <ir/describe.h>
#include <ir/evaluator.h>
#include <ir/logical_map.h>
#include <lower/lower.h>
#include <runtime/extent_checks.h>
#include <runtime/fusion_evaluator.h>
#include <runtime/in_place_hazard.h>
#include <runtime/input_copies.h>
#include <runtime/profiler.h>
#include <tensor/layout.h>
#include <transform/inlining.h>
#include <transform/propagate.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iostream>
#include <sstream>
#include <unordered_set>

namespace nvfuser {
namespace {

std::atomic<int64_t> kernel_counter{0};

std::string hexDigits(uint64_t value) {
  std::ostringstream out;
  out << std::hex;
  out.width(16);
  out.fill('0');
  out << value;
  return out.str();
}

KernelTarget targetOf(Device device) {
  return device.isCuda() ? KernelTarget::Cuda : KernelTarget::Host;
}

// NVFUSER_EXTERNAL_SRC=file,file: texts that take the place of the generated kernels, in the order
// in which these are made.
std::vector<std::string> externalPaths() {
  const std::string list = environmentString("NVFUSER_EXTERNAL_SRC");
  std::vector<std::string> paths;
  if (!list.empty()) {
    for (std::string_view path : split(list, ',')) {
      paths.emplace_back(trim(path));
    }
  }
  return paths;
}

std::string readExternal(const std::string& path) {
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  NVF_CHECK(file.good(), "NVFUSER_EXTERNAL_SRC: can not read ", path, ".");
  return content.str();
}

// The definitions that a kernel of a file begins with: those between the kernel before it and it.
std::string settingsBefore(const std::string& text, size_t kernel) {
  const size_t previous = kernel < 2 ? std::string::npos : text.rfind("\nNVF_KERNEL(", kernel - 2);
  const size_t first = previous == std::string::npos ? 0 : previous;
  std::string settings;
  for (std::string_view line : split(std::string_view(text).substr(first, kernel - first), '\n')) {
    for (const std::string_view name : codegen::kSettings) {
      const std::string define = "#define " + std::string(name);
      if (line.substr(0, define.size()) == define) {
        settings += std::string(line) + "\n";
      }
    }
  }
  return settings;
}

// Of a file the last function (NVF_KERNEL) counts, under whatever name, and the settings before it:
// they say how its threads run.
std::string externalText(const std::string& name) {
  static const std::vector<std::string> paths = externalPaths();
  static std::atomic<size_t> next{0};
  const size_t index = paths.empty() ? 0 : next++;
  if (index >= paths.size()) {
    return {};
  }
  const std::string& path = paths[index];
  const std::string text = readExternal(path);
  const size_t begin = text.rfind("NVF_KERNEL(");
  const size_t comma = begin == std::string::npos ? begin : text.find(',', begin);
  NVF_CHECK(comma != std::string::npos, "NVFUSER_EXTERNAL_SRC: ", path, " has no kernel.");
  return settingsBefore(text, begin) + "NVF_KERNEL(" + name + text.substr(comma);
}

// What lowering starts from and what it makes.
void dumpLowered(const CompileParams& params, DataType index_type, const Kernel& kernel) {
  if (isDumpEnabled(DumpOption::CompileParams)) {
    std::cout << params.toString() << "\n";
  }
  if (isDumpEnabled(DumpOption::IndexType)) {
    std::cout << "Index type: " << index_type << "\n";
  }
  if (isDumpEnabled(DumpOption::KernelIr)) {
    std::cout << kernel.toString() << "\n";
  }
}

void dumpText(const KernelExecutor& executor) {
  if (isDumpEnabled(DumpOption::CudaKernel)) {
    std::cout << "\n======= Codegen output for kernel: " << executor.kernelName() << " =======\n\n"
              << executor.kernelText() << "\n======================================\n\n";
  }
  if (isDumpEnabled(DumpOption::CudaFull)) {
    std::cout << "\n======= Codegen output for kernel: " << executor.kernelName() << " =======\n\n"
              << executor.fullText() << "\n======================================\n\n";
  }
  if (isDumpEnabled(DumpOption::CudaToFile)) {
    const std::string path = "__tmp_" + executor.kernelName() + ".cu";
    std::ofstream(path) << executor.fullText();
    std::cout << "PRINTING: " << path << std::endl;
  }
}

// No tensor was transformed, parallelized, inlined or placed.
bool isUnscheduled(const Fusion& fusion) {
  const std::vector<TensorView*> tvs = fusion.allTvs();
  return std::all_of(tvs.begin(), tvs.end(), [](const TensorView* tv) {
    const auto& loop = tv->getLoopDomain();
    const bool at_a_boundary = tv->isFusionInput() || tv->isFusionOutput();
    return loop == tv->getLogicalDomain() && tv->getComputeAtPosition() == 0 &&
           tv->getMemoryType() == (at_a_boundary ? MemoryType::Global : MemoryType::Local) &&
           std::all_of(loop.begin(), loop.end(), [](const IterDomain* id) {
             return id->parallelType() == ParallelType::Serial;
           });
  });
}

// Is every tensor between inputs and outputs read at one place?
bool isReadOnce(const Fusion& fusion) {
  std::unordered_set<const Val*> read;
  for (const Expr* e : fusion.exprs()) {
    for (const Val* in : e->inputs()) {
      if (in->isTensor() && !in->isFusionInput() && !read.insert(in).second) {
        return false;
      }
    }
  }
  return true;
}

// Plain loops for an unscheduled fusion: everything is computed as deep inside the loops of the
// outputs as it can be, so that buffers are rare.
void inlineIntoOutputs(Fusion* fusion) {
  // A copy: a fork takes the place of its tensor among the outputs.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const std::vector<Val*> outputs = fusion->outputs();
  for (Val* out : outputs) {
    if (out->isFusionOutput() && !out->isFusionInput() && !out->uses().empty()) {
      out->as<TensorView>()->cacheFork(); // what is read again stays in registers
    }
  }
  // Loops through pads and permutations. A tensor that is read in several ways keeps its own.
  if (isReadOnce(*fusion)) {
    const auto rank = [](const Val* v) { return v->as<TensorView>()->nDims(); };
    const auto reference =
        std::max_element(fusion->outputs().begin(), fusion->outputs().end(),
                         [&](const Val* a, const Val* b) { return rank(a) < rank(b); });
    transformLike((*reference)->as<TensorView>());
  }
  inlineMost();
}

// Which elements a reshape moves where follows from sizes; without a root domain they were not all
// known when it was defined.
void checkReshapes(const Fusion& fusion) {
  for (const Expr* e : fusion.exprs()) {
    if (e->kind() != ExprKind::ReshapeOp || e->output(0)->as<TensorView>()->hasRoot()) {
      continue;
    }
    const auto in = logicalIds(e->input(0));
    const auto& out = e->output(0)->as<TensorView>()->getLogicalDomain();
    const bool same = std::equal(
        in.begin(), in.end(), out.begin(), out.end(), [](const IterDomain* a, const IterDomain* b) {
          return a->isBroadcast() == b->isBroadcast() && a->extent()->sameAs(b->extent());
        });
    NVF_CHECK(same, undecidedReshape(e->output(0)->as<TensorView>()));
  }
}

std::string occupancyText(const std::string& name, const PreparedLaunch& prepared) {
  const LaunchConfig& config = prepared.config;
  const auto threads = static_cast<int>(config.block.count());
  const int blocks = prepared.module->maxActiveBlocksPerSm(threads, config.dynamic_shared_bytes);
  const int limit = deviceInfo(prepared.device).max_threads_per_sm;
  std::ostringstream out;
  out << "Occupancy of " << name << ": " << blocks << " blocks of " << threads
      << " threads on an SM, " << 100 * blocks * threads / limit << "% of its " << limit
      << " threads";
  return out.str();
}

std::string dimText(const Dim3& d) {
  std::ostringstream out;
  out << "[" << d.x << ", " << d.y << ", " << d.z << "]";
  return out.str();
}

} // namespace

void dumpLaunch(const std::string& name, const PreparedLaunch& prepared,
                std::span<const ArgView> args) {
  if (isDumpEnabled(DumpOption::LaunchParam)) {
    const LaunchConfig& c = prepared.config;
    std::cout << "Launch Parameters: " << name << " BlockDim.x = " << c.block.x
              << ", BlockDim.y = " << c.block.y << ", BlockDim.z = " << c.block.z
              << ", GridDim.x = " << c.grid.x << ", GridDim.y = " << c.grid.y
              << ", GridDim.z = " << c.grid.z << ", Smem Size = " << c.dynamic_shared_bytes
              << (prepared.empty ? " (no launch: all outputs are empty)" : "") << "\n";
  }
  if (isDumpEnabled(DumpOption::DynamicSharedMemory)) {
    std::cout << name << ": " << prepared.config.dynamic_shared_bytes
              << " bytes of dynamic shared memory\n";
  }
  if (isDumpEnabled(DumpOption::Occupancy) && prepared.module != nullptr && !prepared.empty) {
    std::cout << occupancyText(name, prepared) << "\n";
  }
  if (isDumpEnabled(DumpOption::KernelArgs)) {
    std::cout << "Arguments for kernel " << name << ":\nInputs:\n";
    for (const ArgView& arg : args) {
      std::cout << "  " << toString(arg) << "\n";
    }
    std::cout << "Outputs:\n";
    for (const OutputShape& out : prepared.outputs) {
      std::cout << "  " << out.dtype << " tensor of sizes [" << join(out.sizes) << "], strides ["
                << join(out.strides) << "]";
      if (out.alias_input >= 0) {
        std::cout << " in the storage of input " << out.alias_input;
      }
      std::cout << "\n";
    }
  }
}

int64_t argumentBytes(std::span<const ArgView> args) {
  int64_t bytes = 0;
  for (const ArgView& arg : args) {
    if (arg.is_tensor) {
      int64_t n = 1;
      for (int32_t d = 0; d < arg.rank; ++d) {
        n *= arg.strides[d] == 0 && arg.sizes[d] > 0 ? 1 : arg.sizes[d];
      }
      bytes += n * dataTypeSizeBits(arg.dtype) / 8;
    }
  }
  return bytes;
}

void checkCapture(uint64_t rng_numbers) {
  NVF_CHECK(rng_numbers == 0,
            "A fusion that draws random numbers from torch's generator cannot be captured into a "
            "CUDA graph: every replay would draw the same numbers. Pass rng_seed and rng_offset to "
            "its random operations, or run it outside of the graph.");
}

void checkEnvironment(Device device) {
  for (const std::string& path : externalPaths()) {
    readExternal(path);
  }
  if (device.isHost()) {
    checkHostCompiler();
    hostThreadCount();
  }
}

namespace {

// The checks of the adversarial mode are compiled into the kernel.
bool isAdversarial() {
  return environmentInt("NVFUSER_HOST_ADVERSARIAL", 0) != 0;
}

} // namespace

bool runsThreadsInLoops(Device device) {
  return device.isHost() && !isAdversarial() &&
         currentOptions().host_schedules == HostSchedules::ForHost;
}

bool mustEvaluate(Device device) {
  return device.isHost() && !hostCompilerAvailable() && fusionEvaluator() != nullptr;
}

Device defaultDevice() {
  return cudaAvailable() ? Device::cuda(0) : Device::host();
}

void KernelExecutor::lower(Fusion* fusion, Device device, DataType index_type,
                           const LaunchParams& launch_constraints,
                           const CompileParams& compile_params, SchedulerType scheduler_type,
                           const KernelOrder& order) {
  NVF_CHECK(!isLowered(), "This executor has compiled a kernel already; make another one.");
  NVF_CHECK(!fusion->outputs().empty(), "The fusion has no outputs.");
  for (const Expr* e : fusion->exprs()) {
    NVF_CHECK(e->kind() != ExprKind::LibraryOp, e->opName(), " is evaluated by a library: no ",
              "kernel can be scheduled by hand for ", describe(e), ". Use execute().");
  }
  device_ = device;
  index_type_ = index_type;
  scheduler_type_ = scheduler_type;
  launch_constraints_ = launch_constraints;
  compile_params_ = compile_params;

  // Lowering works on the copy that it is given.
  Fusion copy(*fusion);
  FusionGuard guard(&copy);
  for (size_t i = 0; i < copy.outputs().size(); ++i) {
    if (Val* input = copy.outputAliases()[i].input) {
      auto* output = copy.outputs()[i]->as<TensorView>();
      if (!inPlaceHazard(&copy, input->as<TensorView>(), output).empty()) {
        const auto& inputs = copy.inputs();
        read_while_written_.push_back(
            static_cast<size_t>(std::find(inputs.begin(), inputs.end(), input) - inputs.begin()));
      }
      // A scatter that updates the input has a layout for the elements that it writes.
      if (output->definition()->kind() != ExprKind::ScatterStoreOp) {
        adoptLayout(output, input->as<TensorView>());
      }
    }
  }
  checkReshapes(copy);
  if (scheduler_type == SchedulerType::None && isUnscheduled(copy)) {
    inlineIntoOutputs(&copy);
  }
  if (isDumpEnabled(DumpOption::FusionIr)) {
    copy.print();
  }
  LowerOptions options;
  options.index_type = index_type;
  options.threads_in_loops = runsThreadsInLoops(device);
  GpuLower lowering(&copy, options);
  lowering.run();
  kernel_ = lowering.take();
  dumpLowered(compile_params, index_type, *kernel_);
  kernel_->order = order;
  checkArchitecture();

  nameKernel();
  text_ = codegen::generateCudaKernel(kernel_.get(), name_);
  if (std::string external = externalText(name_); !external.empty()) {
    text_ = std::move(external);
  }
  gatherLaunchInfo();
  dumpText(*this);
}

void KernelExecutor::checkArchitecture() const {
  constexpr int kFirstWithBulkCopies = 90;
  if (kernel_->bulk_copied.empty() || device_.isHost() || !cudaAvailable()) {
    return;
  }
  const DeviceInfo& device = deviceInfo(device_);
  NVF_CHECK(device.arch >= kFirstWithBulkCopies, "tma copy of ",
            describe(kernel_->bulk_copied.front()), ": it needs compute capability 9.0, ",
            device.name, " has ", device.archMajor(), ".", device.archMinor());
}

void KernelExecutor::nameKernel() {
  std::ostringstream name;
  if (isOptionEnabled(EnableOption::StaticFusionCount)) {
    name << "nvfuser_" << kernel_counter++;
  } else {
    name << "nvfuser_" << schedulerName(scheduler_type_) << "_f" << fusion_id_ << "_c"
         << concrete_id_ << "_r" << runtime_id_ << "_g" << group_id_;
  }
  name_ = name.str();
}

std::string KernelExecutor::assemble(const std::string& text) const {
  return assembleKernel(text, targetOf(device_), index_type_ == DataType::Int, isAdversarial());
}

std::string KernelExecutor::fullText() const {
  NVF_CHECK(isLowered(), "The kernel was not compiled yet.");
  return isEvaluated() ? text_ : assemble(text_);
}

CompileRequest KernelExecutor::compileRequest() const {
  NVF_CHECK(isLowered(), "The kernel was not compiled yet.");
  // The name says which fusion of this process it is; the compiler gets one that says only what the
  // kernel is, so that equal kernels are compiled once.
  const std::string anonymous = "nvfuser_" + std::string(schedulerName(scheduler_type_));
  std::string text = replaceAll(text_, name_, anonymous);
  CompileRequest request;
  request.symbol = anonymous + "_" + hexDigits(hashString(text));
  request.text = assemble(replaceAll(text_, name_, request.symbol));
  request.device = device_;
  request.params = compile_params_;
  return request;
}

void KernelExecutor::checkRegisters() const {
  const LoadWarps& warps = kernel_->load_warps;
  if (warps.load_registers == 0 || device_.isHost()) {
    return;
  }
  constexpr int64_t kUnit = 8;
  const int64_t at_entry = (module_->resources().registers + kUnit - 1) / kUnit * kUnit;
  const int64_t needed =
      warps.load_registers * warps.load_threads + warps.compute_registers * warps.compute_threads;
  NVF_CHECK(warps.load_registers <= at_entry && warps.compute_registers >= at_entry &&
                needed <= at_entry * (warps.load_threads + warps.compute_threads),
            "warp_specialize: ", warps.load_threads, " threads that load with ",
            warps.load_registers, " registers and ", warps.compute_threads, " that compute with ",
            warps.compute_registers, " can not be made of the kernel's ", at_entry,
            " registers for each thread");
}

void KernelExecutor::setModule(std::shared_ptr<CompiledModule> module) {
  module_ = std::move(module);
  checkRegisters();
  compile_ms_ = module_->compileMilliseconds();
  if (isDumpEnabled(DumpOption::PtxasVerbose) || compile_params_.enable_ptxas_verbose) {
    std::cout << name_ << ": " << module_->resources().registers << " registers, "
              << module_->resources().spill_store_bytes << " bytes spilled\n"
              << module_->log();
  }
}

void KernelExecutor::compile(Fusion* fusion, const KernelArgs& args,
                             const LaunchParams& launch_constraints,
                             const CompileParams& compile_params, SchedulerType scheduler_type) {
  const std::vector<ArgView> views = args.views();
  Device device = compile_params.device.value_or(defaultDevice());
  DataType index_type = compile_params.index_type.value_or(DataType::Int);
  if (!views.empty()) {
    device = chooseDevice(fusion, views, device);
    checkInputs(fusion, views, device);
    if (!compile_params.index_type.has_value()) {
      index_type = runsThreadsInLoops(device) ? DataType::Int : chooseIndexType(fusion, views);
    } else if (index_type == DataType::Int32) {
      NVF_CHECK(
          chooseIndexType(fusion, views) == DataType::Int32,
          "The compile parameters ask for 32-bit indices, but the tensors are too large for them.");
    }
  }
  NVF_CHECK(index_type == DataType::Int || index_type == DataType::Int32,
            "index_type must be DataType.Int or DataType.Int32, but got ", index_type, ".");
  checkEnvironment(device);
  if (scheduler_type == SchedulerType::ExprEval) {
    return evaluate(fusion, device, scheduler_type);
  }
  lower(fusion, device, index_type, launch_constraints, compile_params, scheduler_type);
  extent_checks_ = std::make_unique<ExtentChecks>(*fusion, /*is_definition=*/true);
  if (mustEvaluate(device)) {
    return evaluate(fusion, device, scheduler_type);
  }
  setModule(nvfuser::compile(compileRequest()));
}

void KernelExecutor::evaluate(const Fusion* fusion, Device device, SchedulerType scheduler_type,
                              std::shared_ptr<const Evaluation> evaluation) {
  NVF_CHECK(evaluation != nullptr || fusionEvaluator() != nullptr,
            "This program has no evaluator of fusions: only kernels can be run.");
  const bool by_operations = evaluation == nullptr;
  if (!isLowered()) {
    NVF_CHECK(!fusion->outputs().empty(), "The fusion has no outputs.");
    device_ = device;
    scheduler_type_ = scheduler_type;
    kernel_ = std::make_unique<Kernel>();
    Fusion::copy(fusion, kernel_.get());
    nameKernel();
    text_ = "// " + name_ +
            (by_operations ? ": evaluated operation by operation\n" : ": evaluated by a library\n");
    gatherLaunchInfo();
  }
  kernel_->has_stateful_rng = fusion->numStatefulRng() > 0;
  evaluated_ = by_operations ? evaluationOf(std::make_shared<Fusion>(*fusion)) : evaluation;
}

KernelArgs KernelExecutor::run(const KernelArgs& args, const LaunchParams& launch_constraints,
                               const CompileParams& compile_params) {
  NVF_CHECK(!compile_params.index_type.has_value() || *compile_params.index_type == index_type_,
            "The kernel was compiled with index type ", index_type_,
            ", but the compile parameters of this run ask for ", *compile_params.index_type, ".");
  const std::vector<ArgView> views = args.views();
  TensorAllocator allocator(args);
  RunContext context;
  context.device = device_;
  run(views, allocator, context, launch_constraints);
  return allocator.take();
}

void KernelExecutor::run(std::span<const ArgView> args, OutputAllocator& allocator,
                         const RunContext& context, const LaunchParams& launch_constraints) {
  NVF_CHECK(isCompiled(), "The kernel was not compiled yet.");
  auto prepared = std::make_shared<PreparedLaunch>(prepare(args, launch_constraints));
  if (index_type_ == DataType::Int32) {
    NVF_CHECK(
        chooseIndexType(kernel_.get(), args) == DataType::Int32,
        "The kernel was compiled with 32-bit indices, but these tensors are too large for them.");
  }
  dumpLaunch(name_, *prepared, args);
  std::vector<size_t> updated;
  for (const OutputShape& out : prepared->outputs) {
    if (out.alias_input >= 0 &&
        !kernel_->outputs()[&out - prepared->outputs.data()]->isFusionInput()) {
      updated.push_back(static_cast<size_t>(out.alias_input));
    }
  }
  std::vector<ArgView> values(args.begin(), args.end());
  values.resize(args.size() + prepared->outputs.size());
  std::vector<size_t> positions(prepared->outputs.size());
  size_t position = 0;
  for (size_t i = 0; i < prepared->outputs.size(); ++i) {
    const OutputShape& out = prepared->outputs[i];
    positions[i] = position;
    void*& address = values[args.size() + i].data;
    if (out.alias_input >= 0) {
      address = args[out.alias_input].data;
      if (!out.hidden) {
        allocator.returnInput(position, static_cast<size_t>(out.alias_input));
      }
    } else if (out.same_as >= 0) {
      address = values[args.size() + out.same_as].data;
      allocator.returnSame(position, positions[out.same_as], 0, std::nullopt);
    } else {
      address = allocator.allocate(position, out.desc(device_));
    }
    position += out.hidden ? 0 : 1;
  }
  // An evaluation reads everything before it writes.
  InputCopies copies(allocator, device_, context.stream);
  const bool overlap = !isEvaluated() && overlaps(args, updated);
  for (size_t i = 0; i < args.size() && !isEvaluated(); ++i) {
    const auto& late = read_while_written_;
    if (overlap || std::find(late.begin(), late.end(), i) != late.end()) {
      copies.replace(values[i]);
    }
  }

  PhiloxState rng;
  const uint64_t rng_numbers =
      kernel_->has_stateful_rng ? 4 * static_cast<uint64_t>(kernel_->numStatefulRng()) : 0;
  if (device_.isCuda() && cuda::isCaptured(context.stream)) {
    checkCapture(rng_numbers);
    if (module_ != nullptr) {
      keepLoaded(module_);
    }
  }
  if (rng_numbers != 0) {
    RngState& state = context.rng != nullptr ? *context.rng : DefaultRngState::instance();
    rng = state.advance(device_, rng_numbers);
  }
  const bool profiled = FusionProfiler::isEnabled();
  if (profiled) {
    FusionProfiler::startFusion(fusion_id_, device_, context.stream);
    FusionProfiler::addCompileTime(compile_ms_);
    FusionProfiler::startKernel(device_, context.stream);
  }
  launch(*prepared, values, rng, context.stream);
  if (profiled) {
    int64_t output_bytes = 0;
    for (const OutputShape& out : prepared->outputs) {
      output_bytes += out.storage_elements * dataTypeSizeBits(out.dtype) / 8;
    }
    FusionProfiler::stopKernel(kernelProfile(*this, *prepared, argumentBytes(args), output_bytes));
    FusionProfiler::stopFusion(argumentBytes(args), output_bytes);
  }
}

KernelProfile kernelProfile(const KernelExecutor& executor, const PreparedLaunch& prepared,
                            int64_t input_bytes, int64_t output_bytes) {
  KernelProfile profile;
  profile.name = executor.kernelName();
  profile.segment_id = executor.groupId();
  profile.device = executor.device().index;
  profile.compile_time_ms = executor.compileMilliseconds();
  profile.grid_str = dimText(prepared.config.grid);
  profile.block_str = dimText(prepared.config.block);
  profile.cluster_str = dimText(prepared.config.cluster);
  profile.input_bytes = input_bytes;
  profile.output_bytes = output_bytes;
  const int static_shared =
      executor.module() == nullptr ? 0 : executor.module()->resources().static_shared_bytes;
  profile.registers = executor.module() == nullptr ? 0 : executor.module()->resources().registers;
  profile.shared_mem_str = "[" + std::to_string(prepared.config.dynamic_shared_bytes) + ", " +
                           std::to_string(static_shared) + "]";
  profile.scheduler = executor.schedulerType() == SchedulerType::None
                          ? "user"
                          : std::string(schedulerName(executor.schedulerType()));
  return profile;
}

} // namespace nvfuser
