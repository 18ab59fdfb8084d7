// SPDX-License-Identifier: BSD-3-Clause
// From argument metadata to a launch: output layouts, grid and block, checks of what the kernel
// assumes, and the bytes of the kernel's parameters. Launching itself only patches addresses and
// scalars into them.
#include <runtime/bind_inputs.h>
#include <runtime/devices.h>
#include <runtime/kernel_executor.h>

#include <base/error.h>
#include <base/string_utils.h>
#include <ir/describe.h>
#include <ir/evaluator.h>
#include <ir/printer.h>
#include <ir/visitor.h>
#include <machine.h>
#include <runtime/extent_checks.h>
#include <runtime/launch_bytes.h>
#include <tensor/layout.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace nvfuser {

struct KernelExecutor::LaunchInfo {
  struct Param {
    KernelParam::Kind kind;
    DataType dtype = DataType::Null; // of a scalar
    const TensorView* tv = nullptr;
    Val* scalar = nullptr;
    int input = -1;      // position among the kernel's inputs, or
    int output = -1;     // among its outputs
    Val* size = nullptr; // of a workspace
    int map = -1;        // number of a tensor map
  };
  std::vector<Param> params;
  std::vector<int> alias_input;           // for each output
  std::vector<int> same_as;               // for each output
  std::vector<bool> hidden;               // for each output
  std::vector<const TensorView*> resized; // whose sizes may turn out to be negative
};

KernelExecutor::KernelExecutor(int64_t fusion_id, int64_t concrete_id, int64_t runtime_id,
                               int64_t group_id)
    : fusion_id_(fusion_id),
      concrete_id_(concrete_id),
      runtime_id_(runtime_id),
      group_id_(group_id) {}
KernelExecutor::KernelExecutor(const Identity& identity, Device device,
                               std::shared_ptr<CompiledModule> module)
    : KernelExecutor(0, 0, 0, identity.group_id) {
  name_ = identity.name;
  scheduler_type_ = identity.scheduler_type;
  index_type_ = identity.index_type;
  device_ = device;
  compile_ms_ = module == nullptr ? 0 : module->compileMilliseconds();
  module_ = std::move(module);
}
KernelExecutor::~KernelExecutor() = default;
KernelExecutor::KernelExecutor(KernelExecutor&&) noexcept = default;
KernelExecutor& KernelExecutor::operator=(KernelExecutor&&) noexcept = default;

namespace {

int positionOf(const std::vector<Val*>& vals, const Val* v) {
  auto it = std::find(vals.begin(), vals.end(), v);
  return it == vals.end() ? -1 : static_cast<int>(it - vals.begin());
}

} // namespace

void KernelExecutor::gatherLaunchInfo() {
  info_ = std::make_unique<LaunchInfo>();
  info_->resized = tensorsOfComputedSize(*kernel_);
  const std::vector<Val*>& inputs = kernel_->inputs();
  const std::vector<Val*>& outputs = kernel_->outputs();
  const std::vector<OutputAlias>& aliases = kernel_->outputAliases();

  std::unordered_map<const Val*, int> alias_of;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (aliases[i].input != nullptr) {
      alias_of.emplace(outputs[i], positionOf(inputs, aliases[i].input));
    } else if (outputs[i]->isFusionInput()) {
      alias_of.emplace(outputs[i], positionOf(inputs, outputs[i]));
    }
  }
  std::unordered_map<const Val*, int> first;
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto alias = alias_of.find(outputs[i]);
    info_->alias_input.push_back(alias == alias_of.end() ? -1 : alias->second);
    auto [it, inserted] = first.emplace(outputs[i], static_cast<int>(i));
    info_->same_as.push_back(inserted ? -1 : it->second);
    info_->hidden.push_back(aliases[i].input != nullptr && aliases[i].hidden);
  }

  for (const KernelParam& p : kernel_->params) {
    LaunchInfo::Param param{.kind = p.kind, .dtype = p.dtype, .size = p.size};
    if (p.kind == KernelParam::Kind::Tensor) {
      param.tv = p.val->as<TensorView>();
      param.input = positionOf(inputs, p.val);
      param.output = param.input < 0 ? positionOf(outputs, p.val) : -1;
      NVF_ERROR(param.input >= 0 || param.output >= 0, "kernel parameter ", p.name,
                " is neither input nor output");
    } else if (p.kind == KernelParam::Kind::Scalar) {
      param.scalar = p.val;
      param.input = positionOf(inputs, p.val);
    } else if (p.kind == KernelParam::Kind::TensorMap) {
      param.map = p.map;
      param.dtype = kernel_->tensor_maps[static_cast<size_t>(p.map)].tv->dtype();
      param.tv = kernel_->tensor_maps[static_cast<size_t>(p.map)].tv;
      param.input = positionOf(inputs, param.tv);
      param.output = param.input < 0 ? positionOf(outputs, param.tv) : -1;
    }
    info_->params.push_back(param);
  }
}

namespace {

// From values of 4 bits to bytes of two values.
void packFp4(const TensorView* tv, TensorLayout& layout) {
  bool halved = false;
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    const bool innermost = !halved && layout.strides[d] == 1 && layout.sizes[d] != 1;
    NVF_CHECK(
        (innermost ? layout.sizes[d] : layout.strides[d]) % 2 == 0 || layout.sizes[d] == 1,
        "The output ", describe(tv),
        " holds two values in a byte, so its innermost extent and its other strides must be even.");
    if (innermost) {
      layout.sizes[d] /= 2;
      halved = true;
    } else {
      layout.strides[d] = std::max<int64_t>(layout.strides[d] / 2, 1);
    }
  }
  NVF_CHECK(halved || layout.numel() == 0, "The output ", describe(tv),
            " holds two values in a byte, so it needs a dimension of even extent.");
}

} // namespace

OutputShape denseOutput(const TensorView* tv, ScalarEvaluator& evaluator, DataType index_type) {
  OutputShape out;
  const std::optional<SwizzledLayout> swizzled = swizzledLayout(tv, evaluator);
  TensorLayout layout = swizzled.has_value() ? swizzled->layout : denseLayout(tv, evaluator);
  out.dtype = tv->dtype() == DataType::Index ? index_type : tv->dtype();
  if (out.dtype == DataType::Float4_e2m1fn) {
    out.dtype = DataType::Float4_e2m1fn_x2;
    packFp4(tv, layout);
  }
  out.sizes.assign(layout.sizes.begin(), layout.sizes.end());
  out.strides.assign(layout.strides.begin(), layout.strides.end());
  out.storage_elements =
      swizzled.has_value() ? swizzled->storage_elements : layout.storageElements();
  return out;
}

// One call of prepare(): the values known so far and what is made from them.
struct KernelExecutor::Preparation {
  const KernelExecutor& executor;
  const Kernel* kernel;
  const LaunchInfo& info;
  std::span<const ArgView> args;
  std::span<const ArgView* const> in_place;
  ScalarEvaluator evaluator;
  PreparedLaunch prepared;
  LaunchRefusal refusal;

  // What does not hold is the reason not to launch, told by what comes first. Returns whether it
  // holds. Nothing is printed unless it fails: tensors are passed as they are, not as texts.
  template <class... Words>
  bool assume(bool holds, const Words&... words) {
    if (!holds) {
      refuse(LaunchRefusal::Kind::UnmetAssumption, words...);
    }
    return holds;
  }
  template <class... Words>
  void refuse(LaunchRefusal::Kind kind, const Words&... words) {
    if (refusal.kind == LaunchRefusal::Kind::None) {
      refusal = {kind, detail::streamToString(words...)};
    }
  }
  bool isRefused() const {
    return refusal.kind != LaunchRefusal::Kind::None;
  }

  // The tensor that output i is written into, or null.
  const ArgView* destination(size_t i) const {
    if (!in_place.empty() && in_place[i] != nullptr) {
      return in_place[i];
    }
    return info.alias_input[i] >= 0 ? &args[info.alias_input[i]] : nullptr;
  }

  void prepareKernel(const LaunchParams& launch_constraints);
  void shapeOutputs();
  void shapeOutput(size_t i);
  static void shapeStore(OutputShape& out, const ArgView& updated, const Shape& sizes);
  void chooseNumbers();
  void decideGeometry(const LaunchParams& launch_constraints);
  void checkBlocksMeet();
  int64_t bytesOfTensors() const;
  int sharedPercent() const;
  void checkStoreLoops();
  std::array<int64_t, 3> clusterShape(const std::array<int64_t, 3>& grid);
  void checkDivisibility();
  void checkVectorAccess(const VectorAccess& access);
  void addWorkspace(const LaunchInfo::Param& param, uint32_t offset);
  void addTensorMap(const LaunchInfo::Param& param, uint32_t offset);
  void checkHasElement(const TensorView* tv, uint32_t input);
  void packArguments();
  void listArguments();
};

PreparedLaunch KernelExecutor::prepare(std::span<const ArgView> args,
                                       const LaunchParams& launch_constraints,
                                       std::span<const ArgView* const> in_place,
                                       LaunchRefusal* refusal) const {
  NVF_CHECK(isLowered(), "The kernel was not compiled yet.");
  checkInputs(kernel_.get(), args, device_);
  if (extent_checks_ != nullptr) {
    extent_checks_->run(args);
  }
  Preparation p{*this, kernel_.get(), *info_, args, in_place, {}, {}, {}};
  bindInputs(kernel_->inputs(), args, p.evaluator);
  p.prepared.module = module_;
  p.prepared.device = device_;
  for (const TensorView* tv : info_->resized) {
    const auto& ids = tv->getLogicalDomain();
    // Within a segment not every size needs to be known.
    if (std::all_of(ids.begin(), ids.end(), [&](const IterDomain* id) {
          return p.evaluator.evaluate(id->getMaybeExpandedExtent()).has_value();
        })) {
      logicalSizes(tv, p.evaluator); // fails for negative ones
    }
  }
  p.shapeOutputs();
  if (evaluated_ != nullptr) {
    p.prepared.evaluated = evaluated_;
    p.listArguments();
  } else if (!p.prepared.empty) {
    p.prepareKernel(launch_constraints);
  }
  if (refusal != nullptr) {
    *refusal = std::move(p.refusal);
  } else {
    NVF_CHECK(!p.isRefused(), p.refusal.why);
  }
  return std::move(p.prepared);
}

// Each step takes for granted what those before it found.
void KernelExecutor::Preparation::prepareKernel(const LaunchParams& launch_constraints) {
  chooseNumbers();
  if (!isRefused()) {
    checkStoreLoops();
  }
  if (!isRefused()) {
    decideGeometry(launch_constraints);
  }
  if (!isRefused()) {
    checkBlocksMeet();
    checkDivisibility();
    for (const VectorAccess& access : kernel->vector_accesses) {
      checkVectorAccess(access);
    }
  }
  if (!isRefused()) {
    packArguments();
  }
}

void KernelExecutor::Preparation::shapeOutputs() {
  prepared.outputs.resize(kernel->outputs().size());
  prepared.empty = true;
  for (size_t i = 0; i < prepared.outputs.size(); ++i) {
    shapeOutput(i);
    prepared.empty = prepared.empty && prepared.outputs[i].storage_elements == 0;
  }
}

void KernelExecutor::Preparation::shapeOutput(size_t i) {
  OutputShape& out = prepared.outputs[i];
  out.alias_input = info.alias_input[i];
  out.same_as = info.same_as[i];
  out.hidden = info.hidden[i];
  const auto* tv = kernel->outputs()[i]->as<TensorView>();
  if (const ArgView* to = destination(i)) {
    const TensorLayout layout = layoutOfArgument(tv, *to);
    const Shape sizes = logicalSizes(tv, evaluator);
    if (tv->definition()->kind() == ExprKind::ScatterStoreOp) {
      shapeStore(out, *to, sizes);
      return;
    }
    NVF_CHECK(std::equal(sizes.begin(), sizes.end(), layout.sizes.begin(), layout.sizes.end()),
              "The output ", describe(tv), " of sizes [", join(sizes),
              "] can not be written into an input of sizes [", join(layout.sizes), "].");
    out.in_place = true;
    out.dtype = to->dtype;
    out.sizes.assign(to->sizes, to->sizes + to->rank);
    out.strides.assign(to->strides, to->strides + to->rank);
    out.storage_elements = layout.storageElements();
    return;
  }
  const OutputShape dense = denseOutput(tv, evaluator, executor.index_type_);
  out.dtype = dense.dtype;
  out.sizes = dense.sizes;
  out.strides = dense.strides;
  out.storage_elements = dense.storage_elements;
}

// As many elements as the index has, in the memory of the tensor that is updated.
void KernelExecutor::Preparation::shapeStore(OutputShape& out, const ArgView& updated,
                                             const Shape& sizes) {
  out.in_place = true;
  out.dtype = updated.dtype;
  out.sizes.assign(sizes.begin(), sizes.end());
  out.strides.assign(updated.strides, updated.strides + updated.rank);
  out.storage_elements =
      std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<int64_t>());
}

std::array<int64_t, 3> KernelExecutor::Preparation::clusterShape(
    const std::array<int64_t, 3>& grid) {
  const DeviceInfo& device = deviceInfo(executor.device_);
  std::array<int64_t, 3> cluster = {1, 1, 1};
  const ParallelType types[] = {ParallelType::BIDx, ParallelType::BIDy, ParallelType::BIDz};
  int64_t blocks = 1;
  for (size_t i = 0; i < 3; ++i) {
    if (auto it = kernel->cluster_extents.find(types[i]); it != kernel->cluster_extents.end()) {
      cluster[i] = evaluator.evaluateInt(it->second);
    }
    NVF_CHECK(cluster[i] > 0 && grid[i] % cluster[i] == 0, "The schedule groups the ", grid[i],
              " blocks along blockIdx.", "xyz"[i], " in clusters of ", cluster[i],
              ", which does not divide them.");
    blocks *= cluster[i];
  }
  NVF_CHECK(blocks <= device.max_cluster_size, "The schedule needs clusters of ", blocks,
            " blocks (", join(cluster, " x "), "), but ", device.name, " takes at most ",
            device.max_cluster_size, ".");
  return cluster;
}

// Those that the schedule left to the launch. Reductions over a cluster are made of whole warps.
void KernelExecutor::Preparation::chooseNumbers() {
  for (const LaunchNumber& n : kernel->launchNumbers()) {
    const int64_t value = evaluator.evaluateInt(n.value);
    const bool is_short = value < kWarp && kernel->cluster_extents.empty();
    const bool fits = !n.by_warps || value % kWarp == 0 ||
                      (is_short && std::has_single_bit(static_cast<uint64_t>(value)));
    const bool holds =
        assume(value > 0 && value <= n.most && fits, "the kernel was scheduled for at most ",
               n.most, " threads or blocks", n.by_warps ? ", a power of two or whole warps," : "",
               " along a dimension, but got ", value, ".");
    if (!holds) {
      return;
    }
    evaluator.bind(n.number, value);
  }
}

void KernelExecutor::Preparation::decideGeometry(const LaunchParams& launch_constraints) {
  const DeviceInfo& device = deviceInfo(executor.device_);
  auto extent = [&](ParallelType type) -> int64_t {
    auto it = kernel->parallel_extents.find(type);
    if (it == kernel->parallel_extents.end()) {
      return 1;
    }
    const int64_t value = evaluator.evaluateInt(it->second);
    for (const LaunchParams* constraints : {&launch_constraints, &executor.launch_constraints_}) {
      if (constraints->hasDim(type)) {
        NVF_CHECK(constraints->getDim(type) >= value, "The schedule needs ",
                  parallelExtentName(type), " = ", value, ", but the launch parameters allow ",
                  constraints->getDim(type), ".");
      }
    }
    return value;
  };
  const std::array<int64_t, 3> grid = {extent(ParallelType::BIDx), extent(ParallelType::BIDy),
                                       extent(ParallelType::BIDz)};
  std::array<int64_t, 3> block = {extent(ParallelType::TIDx), extent(ParallelType::TIDy),
                                  extent(ParallelType::TIDz)};
  if (const LoadWarps& load_warps = kernel->load_warps; load_warps.exist()) {
    block[static_cast<size_t>(load_warps.type) - static_cast<size_t>(ParallelType::TIDx)] +=
        load_warps.extra;
  }
  const char* axis[] = {"x", "y", "z"};
  int64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    NVF_CHECK(grid[i] <= device.max_grid_dim[i], "The schedule binds ", grid[i],
              " blocks to blockIdx.", axis[i], ", but ", device.name, " takes at most ",
              device.max_grid_dim[i], ".");
    NVF_CHECK(block[i] <= device.max_block_dim[i], "The schedule binds ", block[i],
              " threads to threadIdx.", axis[i], ", but ", device.name, " takes at most ",
              device.max_block_dim[i], ".");
    const bool has_iterations = assume(
        grid[i] > 0 && block[i] > 0, "The schedule binds a loop without iterations to ",
        grid[i] > 0 ? "threadIdx." : "blockIdx.", axis[i], ", but the outputs are not all empty.");
    if (!has_iterations) {
      return;
    }
    threads *= block[i];
  }
  NVF_CHECK(threads <= device.max_threads_per_block, "The schedule needs ", threads,
            " threads in a block (", join(block, " x "), "), but ", device.name, " takes at most ",
            device.max_threads_per_block, ".");
  const int64_t shared =
      kernel->shared_bytes == nullptr ? 0 : evaluator.evaluateInt(kernel->shared_bytes);
  NVF_CHECK(shared <= static_cast<int64_t>(device.shared_per_block_optin), "The schedule needs ",
            shared, " bytes of shared memory in a block, but ", device.name, " has at most ",
            device.shared_per_block_optin, ".");
  const std::array<int64_t, 3> cluster = clusterShape(grid);
  LaunchConfig& config = prepared.config;
  config.cluster = {uint32_t(cluster[0]), uint32_t(cluster[1]), uint32_t(cluster[2])};
  config.grid = {uint32_t(grid[0]), uint32_t(grid[1]), uint32_t(grid[2])};
  config.block = {uint32_t(block[0]), uint32_t(block[1]), uint32_t(block[2])};
  config.dynamic_shared_bytes = static_cast<uint32_t>(shared);
  config.tensor_bytes = bytesOfTensors();
  config.shared_percent = sharedPercent();
  config.programmatic_dependent_launch = executor.isProgrammaticDependentLaunchEnabled();
}

// Blocks that copy the same unaligned weights, each to its own shared memory, find them in the L1
// cache if that has half of an SM's memory, beside the rows that are loaded through it. Fewer
// blocks run at once then, which is worth it (docs/measurements/dynamic_widths.md).
int KernelExecutor::Preparation::sharedPercent() const {
  constexpr int kHalf = 58;           // 132 of 228 KiB, where an SM has 256 [measured]
  constexpr size_t kFewestBlocks = 3; // on an SM [measured]
  const bool rereads =
      std::any_of(kernel->unaligned_loads.begin(), kernel->unaligned_loads.end(),
                  [](const auto& l) { return l.first->getMemoryType() == MemoryType::Shared; });
  const DeviceInfo& device = deviceInfo(executor.device_);
  const size_t block = prepared.config.dynamic_shared_bytes + device.shared_reserved_per_block;
  return rereads && kFewestBlocks * block <= device.shared_per_sm * kHalf / 100 ? kHalf : -1;
}

int64_t KernelExecutor::Preparation::bytesOfTensors() const {
  int64_t bytes = 0;
  for (const ArgView& arg : args) {
    if (arg.is_tensor) {
      const int64_t elements =
          std::accumulate(arg.sizes, arg.sizes + arg.rank, int64_t{1}, std::multiplies<int64_t>());
      bytes += elements * dataTypeSizeBits(arg.dtype) / 8;
    }
  }
  for (const OutputShape& out : prepared.outputs) {
    if (out.storage_elements > 0) {
      bytes += out.storage_elements * dataTypeSizeBits(out.dtype) / 8;
    }
  }
  return bytes;
}

void KernelExecutor::Preparation::checkStoreLoops() {
  for (const StoreLoops& loops : kernel->store_loops) {
    const int output = positionOf(kernel->outputs(), loops.tv);
    if (output >= 0 && prepared.outputs[static_cast<size_t>(output)].storage_elements == 0) {
      continue;
    }
    for (const Val* extent : loops.extents) {
      assume(
          evaluator.evaluateInt(extent) > 0, loops.tv,
          " has elements, but the schedule computes it in a loop over a dimension that is empty; "
          "compute it outside.");
    }
  }
}

// Blocks that synchronize over the grid must all run at once.
void KernelExecutor::Preparation::checkBlocksMeet() {
  if (!kernel->synchronizes_grid) {
    return;
  }
  LaunchConfig& config = prepared.config;
  config.cooperative = true;
  config.programmatic_dependent_launch = false;
  const DeviceInfo& device = deviceInfo(executor.device_);
  const int per_sm = executor.module_->maxActiveBlocksPerSm(static_cast<int>(config.block.count()),
                                                            config.dynamic_shared_bytes);
  const auto most = static_cast<uint64_t>(per_sm) * static_cast<uint64_t>(device.sm_count);
  if (!device.cooperative_launch || config.grid.count() > most) {
    refuse(LaunchRefusal::Kind::DoesNotFit, "The ", config.grid.count(),
           " blocks of the kernel wait for each other, but ", device.name, " runs ", most,
           " of them at once.");
  }
}

namespace {

// Strides of an output by logical dimension, in elements of the TensorView's dtype.
TensorLayout layoutOfOutput(const TensorView* tv, const OutputShape& out) {
  ArgView view;
  view.dtype = out.dtype;
  view.rank = static_cast<int32_t>(out.sizes.size());
  view.sizes = out.sizes.data();
  view.strides = out.strides.data();
  return layoutOfArgument(tv, view);
}

} // namespace

void KernelExecutor::Preparation::checkDivisibility() {
  for (auto [extent, assumed] : kernel->assumedExtents()) {
    const int64_t value = evaluator.evaluateInt(extent);
    assume(value == assumed, "the kernel was scheduled for the extent ", assumed, ", but got ",
           value, ".");
  }
  for (const DivisibilityCheck& check : kernel->divisibility_checks) {
    const int64_t value = evaluator.evaluateInt(check.value);
    const int64_t factor = evaluator.evaluateInt(check.factor);
    assume(factor != 0 && value % factor == 0, check.what,
           ": the kernel was scheduled for an extent that is divisible by ", factor, ", but got ",
           value, ".");
  }
}

namespace {

// An input, or else an output of a kernel.
struct NameOfArgument {
  int input;
  int output;
  const TensorView* tv;
  friend std::ostream& operator<<(std::ostream& out, const NameOfArgument& name) {
    return out << (name.input >= 0 ? "Input " : "Output ")
               << (name.input >= 0 ? name.input : name.output) << ", " << describe(name.tv) << ",";
  }
};

} // namespace

void KernelExecutor::Preparation::checkVectorAccess(const VectorAccess& access) {
  const int input = positionOf(kernel->inputs(), access.tv);
  const int output = input >= 0 ? -1 : positionOf(kernel->outputs(), access.tv);
  NVF_ERROR(input >= 0 || output >= 0, "vector access to an intermediate tensor");
  const ArgView* storage = input >= 0 ? &args[input] : destination(output);
  const TensorLayout layout = input >= 0 ? layoutOfArgument(access.tv, args[input])
                                         : layoutOfOutput(access.tv, prepared.outputs[output]);
  const NameOfArgument name{input, output, access.tv};
  if (storage != nullptr) {
    const int64_t bits = access.width * dataTypeSizeBits(access.tv->dtype(), executor.index_type_);
    const auto address = reinterpret_cast<uintptr_t>(storage->data);
    assume(address % static_cast<uintptr_t>(std::max<int64_t>(bits / 8, 1)) == 0, name,
           " is not aligned to the ", bits / 8,
           " bytes that the schedule reads or writes at once.");
  }
  const std::vector<IterDomain*> allocation = access.tv->getMaybeAllocationDomain();
  const TensorDomain::Contiguity& contiguity = access.tv->getContiguity();
  const Shape strides = allocationStrides(access.tv, layout, evaluator);
  // Dimensions that are contiguous need no check: what the vector covers is divisible by its width.
  size_t position = strides.size();
  bool innermost = true;
  for (size_t i = allocation.size(); i-- > 0;) {
    if (allocation[i]->isReduction()) {
      continue;
    }
    const int64_t stride = strides[--position];
    if (allocation[i]->isBroadcast() ||
        evaluator.evaluateInt(allocation[i]->getMaybeExpandedExtent()) <= 1) {
      continue;
    }
    if (innermost) {
      assume(
          stride == 1, name,
          " must have stride 1 in its innermost dimension, which the schedule vectorizes, but has ",
          stride, ".");
      innermost = false;
      continue;
    }
    const bool contiguous = i < contiguity.size() && contiguity[i].value_or(false);
    assume(contiguous || stride % access.width == 0, name, " has stride ", stride,
           ", which is not divisible by the vector width ", access.width, " of the schedule.");
  }
}

namespace {

// Appends parameters as the kernel declares them (INTERFACES: pointer, sizes, strides, padded to 8
// bytes).
class ParameterWriter {
 public:
  ParameterWriter(PreparedLaunch& prepared, DataType index_type)
      : prepared_(prepared), wide_(index_type == DataType::Int) {}

  uint32_t begin(size_t alignment = 16) {
    align(alignment);
    const auto offset = static_cast<uint32_t>(prepared_.bytes.size());
    prepared_.offsets.push_back(offset);
    return offset;
  }
  void append(const void* data, size_t size) {
    const auto* from = static_cast<const std::byte*>(data);
    prepared_.bytes.insert(prepared_.bytes.end(), from, from + size);
  }
  void skip(size_t size) {
    prepared_.bytes.resize(prepared_.bytes.size() + size);
  }
  void appendIndex(int64_t value) {
    if (wide_) {
      append(&value, sizeof(value));
    } else {
      // Values that do not fit belong to empty or one-sized dimensions and are never used.
      const auto narrow = static_cast<int32_t>(value);
      append(&narrow, sizeof(narrow));
    }
  }
  void align(size_t alignment) {
    prepared_.bytes.resize((prepared_.bytes.size() + alignment - 1) / alignment * alignment);
  }

 private:
  PreparedLaunch& prepared_;
  const bool wide_;
};

} // namespace

void KernelExecutor::Preparation::addWorkspace(const LaunchInfo::Param& param, uint32_t offset) {
  constexpr uint64_t kAlignment = 256;
  const auto size = static_cast<uint64_t>(evaluator.evaluateInt(param.size));
  const bool is_semaphores = param.kind == KernelParam::Kind::Semaphores;
  uint64_t& total = is_semaphores ? prepared.semaphore_count : prepared.workspace_bytes;
  prepared.workspace_uses.push_back({offset, is_semaphores, total});
  total += is_semaphores ? size : (size + kAlignment - 1) / kAlignment * kAlignment;
}

namespace {

// Of a dimension of one element, whatever its tensor says: the next one that is allowed.
int64_t strideOfOne(const TensorMapRequest& request) {
  constexpr int64_t kUnit = 16;
  const int64_t before =
      request.stride_bytes.empty() ? request.element_bytes : request.stride_bytes.back();
  return (request.sizes.back() * before + kUnit - 1) / kUnit * kUnit;
}

} // namespace

void KernelExecutor::Preparation::addTensorMap(const LaunchInfo::Param& param, uint32_t offset) {
  const bool is_input = param.input >= 0;
  const TensorMapInfo& info = kernel->tensor_maps[static_cast<size_t>(param.map)];
  const TensorLayout layout = is_input ? layoutOfArgument(param.tv, args[param.input])
                                       : layoutOfOutput(param.tv, prepared.outputs[param.output]);
  const Shape strides = allocationStrides(param.tv, layout, evaluator);
  const auto allocation = TensorDomain::noReductions(param.tv->getMaybeAllocationDomain());
  TensorMapRequest request;
  request.element_bytes = static_cast<int>(dataTypeSizeBytes(param.dtype));
  request.swizzle = static_cast<TensorMapSwizzle>(info.swizzle);
  for (const TensorMapInfo::Dim& dim : info.dims) {
    int64_t size = 1;
    for (const size_t i : dim.memory) {
      size *= evaluator.evaluateInt(allocation[i]->getMaybeExpandedExtent());
    }
    if (!request.sizes.empty()) {
      const int64_t bytes = strides[dim.memory.back()] * request.element_bytes;
      request.stride_bytes.push_back(size == 1 ? strideOfOne(request) : bytes);
    }
    request.sizes.push_back(size);
    request.box.push_back(dim.box);
  }
  const ArgView* storage = is_input ? &args[param.input] : destination(param.output);
  request.data = storage == nullptr ? nullptr : storage->data;
  const std::string problem = tensorMapProblem(request);
  NVF_CHECK(problem.empty(), is_input ? "Input " : "Output ", is_input ? param.input : param.output,
            ", ", describe(param.tv), ", can not be copied by tma: ", problem);
  prepared.tensor_maps.push_back(
      {offset,
       is_input ? static_cast<uint32_t>(param.input)
                : static_cast<uint32_t>(args.size()) + static_cast<uint32_t>(param.output),
       request});
}

// No loop runs over an expanded dimension: of one of size 0 an element would be read all the same.
// (execute() decides what has no element before it schedules.)
void KernelExecutor::Preparation::checkHasElement(const TensorView* tv, uint32_t input) {
  bool expanded_to_nothing = false;
  for (const IterDomain* id : logicalIds(tv)) {
    if (evaluator.evaluateInt(id->getMaybeExpandedExtent()) == 0) {
      if (!id->hasExpandedExtent()) {
        return;
      }
      expanded_to_nothing = true;
    }
  }
  assume(!expanded_to_nothing || tv->uses().empty(), "Input ", input, ", ", tv,
         ", is expanded to size 0 and has no element, but the schedule reads one; use execute().");
}

namespace {

bool dividesIntegers(const Val* scalar) {
  return holdsBehind(scalar, [](const Val* v) {
    const auto* op = tryAs<ElementwiseOp>(v->definition());
    return op != nullptr && !isFloatingPoint(v->dtype()) && op->inputs().size() == 2 &&
           !op->in(1)->isConst() &&
           (op->op() == OpType::Div || op->op() == OpType::CeilDiv || op->op() == OpType::Mod ||
            op->op() == OpType::Remainder || op->op() == OpType::Fmod);
  });
}

} // namespace

void KernelExecutor::Preparation::packArguments() {
  using Patch = PreparedLaunch::Patch;
  const DataType index_type = executor.index_type_;
  ParameterWriter writer(prepared, index_type);
  const auto num_inputs = static_cast<uint32_t>(args.size());
  for (const LaunchInfo::Param& param : info.params) {
    const bool is_map = param.kind == KernelParam::Kind::TensorMap;
    const uint32_t offset = writer.begin(is_map ? alignof(TensorMapBytes) : 16);
    const auto input = static_cast<uint32_t>(param.input);
    switch (param.kind) {
      case KernelParam::Kind::Tensor: {
        if (param.tv->isCpuScalar() && param.input >= 0) {
          prepared.patches.push_back({Patch::Kind::CpuScalar, args[input].dtype, offset, input});
          writer.skip(kMaxScalarBytes);
          break;
        }
        const bool is_input = param.input >= 0;
        if (is_input) {
          checkHasElement(param.tv, input);
        }
        const TensorLayout layout = is_input
                                        ? layoutOfArgument(param.tv, args[input])
                                        : layoutOfOutput(param.tv, prepared.outputs[param.output]);
        prepared.patches.push_back(
            {Patch::Kind::Pointer, DataType::Null, offset,
             is_input ? input : num_inputs + static_cast<uint32_t>(param.output)});
        writer.skip(sizeof(void*));
        for (int64_t size : layout.sizes) {
          writer.appendIndex(size);
        }
        for (int64_t stride : allocationStrides(param.tv, layout, evaluator)) {
          writer.appendIndex(stride);
        }
        writer.align(8);
        break;
      }
      case KernelParam::Kind::Scalar: {
        const DataType dtype = param.dtype == DataType::Index ? index_type : param.dtype;
        if (param.input >= 0) {
          prepared.patches.push_back({Patch::Kind::Scalar, dtype, offset, input});
          writer.skip(kMaxScalarBytes);
        } else {
          const auto value = evaluator.evaluate(param.scalar);
          NVF_ERROR(value.has_value() || dividesIntegers(param.scalar), "no value for ",
                    param.scalar->toString());
          // A size divided by 0 has no value that anybody could ask for.
          std::byte buffer[kMaxScalarBytes] = {};
          if (value.has_value()) {
            writeScalar(buffer, *value, dtype);
          }
          writer.append(buffer, kMaxScalarBytes);
        }
        break;
      }
      case KernelParam::Kind::RngSeed:
      case KernelParam::Kind::RngOffset:
        prepared.patches.push_back({param.kind == KernelParam::Kind::RngSeed
                                        ? Patch::Kind::RngSeed
                                        : Patch::Kind::RngOffset,
                                    DataType::Null, offset, 0});
        writer.skip(sizeof(uint64_t));
        break;
      case KernelParam::Kind::TensorMap:
        addTensorMap(param, offset);
        writer.skip(sizeof(TensorMapBytes));
        break;
      case KernelParam::Kind::Workspace:
      case KernelParam::Kind::Semaphores:
        addWorkspace(param, offset);
        writer.skip(sizeof(void*));
        break;
    }
  }
}

// For an evaluation, which takes the arguments as they are.
void KernelExecutor::Preparation::listArguments() {
  const auto count = static_cast<uint32_t>(args.size() + prepared.outputs.size());
  for (uint32_t i = 0; i < count; ++i) {
    prepared.patches.push_back({PreparedLaunch::Patch::Kind::Pointer, DataType::Null, 0, i});
  }
}

} // namespace nvfuser
