// From argument metadata to a launch: output layouts, grid and block, checks of what the kernel assumes, and
// the bytes of the kernel's parameters. Launching itself only patches addresses and scalars into them.
#include <runtime/kernel_executor.h>

#include <base/error.h>
#include <base/string_utils.h>
#include <ir/evaluator.h>
#include <runtime/tensor_layout.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <unordered_map>

namespace nvfuser {

struct KernelExecutor::LaunchInfo {
  struct Param {
    KernelParam::Kind kind;
    DataType dtype = DataType::Null; // of a scalar
    const TensorView* tv = nullptr;
    Val* scalar = nullptr;
    int input = -1; // position among the kernel's inputs, or
    int output = -1; // among its outputs
  };
  std::vector<Param> params;
  std::vector<int> alias_input; // for each output
  std::vector<int> same_as; // for each output
  std::vector<bool> hidden; // for each output
};

KernelExecutor::KernelExecutor(
    int64_t fusion_id,
    int64_t concrete_id,
    int64_t runtime_id,
    int64_t group_id)
    : fusion_id_(fusion_id), concrete_id_(concrete_id), runtime_id_(runtime_id), group_id_(group_id) {}
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
    LaunchInfo::Param param{.kind = p.kind, .dtype = p.dtype};
    if (p.kind == KernelParam::Kind::Tensor) {
      param.tv = p.val->as<TensorView>();
      param.input = positionOf(inputs, p.val);
      param.output = param.input < 0 ? positionOf(outputs, p.val) : -1;
      NVF_ERROR(
          param.input >= 0 || param.output >= 0,
          "kernel parameter ",
          p.name,
          " is neither input nor output");
    } else if (p.kind == KernelParam::Kind::Scalar) {
      param.scalar = p.val;
      param.input = positionOf(inputs, p.val);
    }
    info_->params.push_back(param);
  }
}

PreparedLaunch KernelExecutor::prepare(
    std::span<const ArgView> args,
    const LaunchParams& launch_constraints) const {
  NVF_CHECK(isLowered(), "The kernel was not compiled yet.");
  checkInputs(kernel_.get(), args, device_);
  ScalarEvaluator evaluator;
  bindInputs(kernel_->inputs(), args, evaluator);

  PreparedLaunch prepared;
  prepared.module = module_;
  prepareOutputs(args, evaluator, prepared);
  prepared.empty = std::all_of(prepared.outputs.begin(), prepared.outputs.end(), [](const OutputShape& o) {
    return o.storage_elements == 0;
  });
  if (prepared.empty) {
    return prepared;
  }
  prepareGeometry(launch_constraints, evaluator, prepared);
  for (const DivisibilityCheck& check : kernel_->divisibility_checks) {
    const int64_t value = evaluator.evaluateInt(check.value);
    const int64_t factor = evaluator.evaluateInt(check.factor);
    NVF_CHECK(
        factor != 0 && value % factor == 0,
        check.what,
        ": the kernel was scheduled for an extent that is divisible by ",
        factor,
        ", but got ",
        value,
        ".");
  }
  checkVectorAccesses(args, evaluator, prepared);
  packArguments(args, evaluator, prepared);
  return prepared;
}

void KernelExecutor::prepareOutputs(
    std::span<const ArgView> args,
    ScalarEvaluator& evaluator,
    PreparedLaunch& prepared) const {
  const std::vector<Val*>& outputs = kernel_->outputs();
  prepared.outputs.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    OutputShape& out = prepared.outputs[i];
    out.alias_input = info_->alias_input[i];
    out.same_as = info_->same_as[i];
    out.hidden = info_->hidden[i];
    auto* tv = outputs[i]->as<TensorView>();
    TensorLayout layout;
    if (out.alias_input >= 0) {
      layout = layoutOfArgument(
          kernel_->inputs()[out.alias_input]->as<TensorView>(), args[out.alias_input]);
      const Shape sizes = logicalSizes(tv, evaluator);
      NVF_CHECK(
          std::equal(sizes.begin(), sizes.end(), layout.sizes.begin(), layout.sizes.end()),
          "The output ",
          tv->toString(),
          " of sizes [",
          join(sizes),
          "] can not be written into input ",
          out.alias_input,
          ", ",
          kernel_->inputs()[out.alias_input]->toString(),
          ", of sizes [",
          join(layout.sizes),
          "].");
    } else {
      layout = denseLayout(tv, evaluator);
    }
    out.dtype = tv->dtype() == DataType::Index ? index_type_ : tv->dtype();
    if (out.dtype == DataType::Float4_e2m1fn) {
      // Handed out as bytes of two values.
      out.dtype = DataType::Float4_e2m1fn_x2;
      bool halved = false;
      for (size_t d = 0; d < layout.sizes.size(); ++d) {
        if (!halved && layout.strides[d] == 1 && layout.sizes[d] != 1) {
          NVF_CHECK(
              layout.sizes[d] % 2 == 0,
              "The output ",
              tv->toString(),
              " holds two values in a byte, so its innermost extent must be even, but it is ",
              layout.sizes[d],
              ".");
          layout.sizes[d] /= 2;
          halved = true;
        } else {
          NVF_CHECK(
              layout.strides[d] % 2 == 0 || layout.sizes[d] == 1,
              "The output ",
              tv->toString(),
              " holds two values in a byte and can not have stride ",
              layout.strides[d],
              ".");
          layout.strides[d] = std::max<int64_t>(layout.strides[d] / 2, 1);
        }
      }
      NVF_CHECK(
          halved || layout.numel() == 0,
          "The output ",
          tv->toString(),
          " holds two values in a byte, so it needs a dimension of even extent.");
    }
    out.sizes.assign(layout.sizes.begin(), layout.sizes.end());
    out.strides.assign(layout.strides.begin(), layout.strides.end());
    out.storage_elements = layout.storageElements();
  }
}

void KernelExecutor::prepareGeometry(
    const LaunchParams& launch_constraints,
    ScalarEvaluator& evaluator,
    PreparedLaunch& prepared) const {
  const DeviceInfo& device = deviceInfo(device_);
  auto extent = [&](ParallelType type) -> int64_t {
    auto it = kernel_->parallel_extents.find(type);
    if (it == kernel_->parallel_extents.end()) {
      return 1;
    }
    const int64_t value = evaluator.evaluateInt(it->second);
    for (const LaunchParams* constraints : {&launch_constraints, &launch_constraints_}) {
      if (constraints->hasDim(type)) {
        NVF_CHECK(
            constraints->getDim(type) == value,
            "The schedule needs ",
            parallelExtentName(type),
            " = ",
            value,
            ", but the launch parameters ask for ",
            constraints->getDim(type),
            ".");
      }
    }
    return value;
  };
  const std::array<int64_t, 3> grid = {
      extent(ParallelType::BIDx), extent(ParallelType::BIDy), extent(ParallelType::BIDz)};
  const std::array<int64_t, 3> block = {
      extent(ParallelType::TIDx), extent(ParallelType::TIDy), extent(ParallelType::TIDz)};
  const char* axis[] = {"x", "y", "z"};
  int64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    NVF_CHECK(
        grid[i] <= device.max_grid_dim[i],
        "The schedule binds ",
        grid[i],
        " blocks to blockIdx.",
        axis[i],
        ", but ",
        device.name,
        " takes at most ",
        device.max_grid_dim[i],
        ".");
    NVF_CHECK(
        block[i] <= device.max_block_dim[i],
        "The schedule binds ",
        block[i],
        " threads to threadIdx.",
        axis[i],
        ", but ",
        device.name,
        " takes at most ",
        device.max_block_dim[i],
        ".");
    NVF_ERROR(grid[i] > 0 && block[i] > 0, "a launch extent of ", name_, " is 0");
    threads *= block[i];
  }
  NVF_CHECK(
      threads <= device.max_threads_per_block,
      "The schedule needs ",
      threads,
      " threads in a block (",
      join(block, " x "),
      "), but ",
      device.name,
      " takes at most ",
      device.max_threads_per_block,
      ".");
  const int64_t shared =
      kernel_->shared_bytes == nullptr ? 0 : evaluator.evaluateInt(kernel_->shared_bytes);
  NVF_CHECK(
      shared <= static_cast<int64_t>(device.shared_per_block_optin),
      "The schedule needs ",
      shared,
      " bytes of shared memory in a block, but ",
      device.name,
      " has at most ",
      device.shared_per_block_optin,
      ".");
  LaunchConfig& config = prepared.config;
  config.grid = {uint32_t(grid[0]), uint32_t(grid[1]), uint32_t(grid[2])};
  config.block = {uint32_t(block[0]), uint32_t(block[1]), uint32_t(block[2])};
  config.dynamic_shared_bytes = static_cast<uint32_t>(shared);
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

void KernelExecutor::checkVectorAccesses(
    std::span<const ArgView> args,
    ScalarEvaluator& evaluator,
    const PreparedLaunch& prepared) const {
  for (const VectorAccess& access : kernel_->vector_accesses) {
    const int input = positionOf(kernel_->inputs(), access.tv);
    const int output = input >= 0 ? -1 : positionOf(kernel_->outputs(), access.tv);
    NVF_ERROR(input >= 0 || output >= 0, "vector access to an intermediate tensor");
    const int alias = output >= 0 ? prepared.outputs[output].alias_input : input;
    TensorLayout layout = input >= 0 ? layoutOfArgument(access.tv, args[input])
                                     : layoutOfOutput(access.tv, prepared.outputs[output]);
    const std::string name = input >= 0
        ? "Input " + std::to_string(input) + ", " + access.tv->toString() + ","
        : "Output " + std::to_string(output) + ", " + access.tv->toString() + ",";
    if (alias >= 0) {
      const int64_t bits = access.width * dataTypeSizeBits(access.tv->dtype(), index_type_);
      const auto address = reinterpret_cast<uintptr_t>(args[alias].data);
      NVF_CHECK(
          address % static_cast<uintptr_t>(std::max<int64_t>(bits / 8, 1)) == 0,
          name,
          " is not aligned to the ",
          bits / 8,
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
          evaluator.evaluateInt(allocation[i]->getMaybeExpandedExtent()) == 1) {
        continue;
      }
      if (innermost) {
        NVF_CHECK(
            stride == 1,
            name,
            " must have stride 1 in its innermost dimension, which the schedule vectorizes, but has ",
            stride,
            ".");
        innermost = false;
        continue;
      }
      const bool contiguous = i < contiguity.size() && contiguity[i].value_or(false);
      NVF_CHECK(
          contiguous || stride % access.width == 0,
          name,
          " has stride ",
          stride,
          ", which is not divisible by the vector width ",
          access.width,
          " of the schedule.");
    }
  }
}

namespace {

// Appends parameters as the kernel declares them (INTERFACES: pointer, sizes, strides, padded to 8 bytes).
class ParameterWriter {
 public:
  ParameterWriter(PreparedLaunch& prepared, DataType index_type)
      : prepared_(prepared), wide_(index_type == DataType::Int) {}

  uint32_t begin() {
    align(16);
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

template <class T>
size_t put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(value));
  return sizeof(value);
}

double asDouble(const ScalarValue& value) {
  if (const auto* d = std::get_if<double>(&value)) {
    return *d;
  }
  if (const auto* i = std::get_if<int64_t>(&value)) {
    return static_cast<double>(*i);
  }
  if (const auto* b = std::get_if<bool>(&value)) {
    return *b ? 1.0 : 0.0;
  }
  if (const auto* c = std::get_if<std::complex<double>>(&value)) {
    return c->real();
  }
  return 0;
}

int64_t asInt(const ScalarValue& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) {
    return *i;
  }
  return static_cast<int64_t>(asDouble(value));
}

std::complex<double> asComplex(const ScalarValue& value) {
  const auto* c = std::get_if<std::complex<double>>(&value);
  return c != nullptr ? *c : std::complex<double>(asDouble(value), 0);
}

// Writes a scalar as the kernel declares it; at most 16 bytes.
size_t writeScalar(std::byte* to, const ScalarValue& value, DataType dtype) {
  switch (dtype) {
    case DataType::Bool:
      return put(to, asDouble(value) != 0.0);
    case DataType::Int:
    case DataType::UInt64:
      return put(to, asInt(value));
    case DataType::Int32:
    case DataType::UInt32:
      return put(to, static_cast<int32_t>(asInt(value)));
    case DataType::Double:
      return put(to, asDouble(value));
    case DataType::Float:
      return put(to, static_cast<float>(asDouble(value)));
    case DataType::ComplexDouble:
      return put(to, asComplex(value));
    case DataType::ComplexFloat:
      return put(to, std::complex<float>(asComplex(value)));
    default:
      // Half, BFloat16, fp8, small integers.
      storeElement(to, 0, dtype, asDouble(value));
      return static_cast<size_t>(dataTypeSizeBytes(dtype));
  }
}

} // namespace

void KernelExecutor::packArguments(
    std::span<const ArgView> args,
    ScalarEvaluator& evaluator,
    PreparedLaunch& prepared) const {
  ParameterWriter writer(prepared, index_type_);
  using Patch = PreparedLaunch::Patch;
  for (const LaunchInfo::Param& param : info_->params) {
    const uint32_t offset = writer.begin();
    switch (param.kind) {
      case KernelParam::Kind::Tensor: {
        if (param.tv->isCpuScalar() && param.input >= 0) {
          const DataType dtype = args[param.input].dtype;
          prepared.patches.push_back(
              {Patch::Kind::CpuScalar, dtype, offset, static_cast<uint32_t>(param.input)});
          writer.skip(16);
          break;
        }
        const bool is_input = param.input >= 0;
        const TensorLayout layout = is_input
            ? layoutOfArgument(param.tv, args[param.input])
            : layoutOfOutput(param.tv, prepared.outputs[param.output]);
        prepared.patches.push_back(
            {is_input ? Patch::Kind::InputPointer : Patch::Kind::OutputPointer,
             DataType::Null,
             offset,
             static_cast<uint32_t>(is_input ? param.input : param.output)});
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
        const DataType dtype = param.dtype == DataType::Index ? index_type_ : param.dtype;
        if (param.input >= 0) {
          prepared.patches.push_back(
              {Patch::Kind::Scalar, dtype, offset, static_cast<uint32_t>(param.input)});
          writer.skip(16);
        } else {
          auto value = evaluator.evaluate(param.scalar);
          NVF_ERROR(value.has_value(), "no value for ", param.scalar->toString());
          std::byte buffer[16] = {};
          writer.append(buffer, std::max<size_t>(writeScalar(buffer, *value, dtype), 16));
        }
        break;
      }
      case KernelParam::Kind::RngSeed:
        prepared.patches.push_back({Patch::Kind::RngSeed, DataType::Null, offset, 0});
        writer.skip(8);
        break;
      case KernelParam::Kind::RngOffset:
        prepared.patches.push_back({Patch::Kind::RngOffset, DataType::Null, offset, 0});
        writer.skip(8);
        break;
    }
  }
}

void launch(
    const PreparedLaunch& prepared,
    std::span<const ArgView> inputs,
    std::span<void* const> output_addresses,
    const PhiloxState& rng,
    void* stream) {
  if (prepared.empty) {
    return;
  }
  constexpr size_t kStackBytes = 2048;
  constexpr size_t kStackParams = 64;
  alignas(16) std::byte stack_bytes[kStackBytes];
  void* stack_params[kStackParams];
  std::unique_ptr<std::byte[]> heap_bytes;
  std::unique_ptr<void*[]> heap_params;
  std::byte* bytes = stack_bytes;
  void** params = stack_params;
  if (prepared.bytes.size() > kStackBytes) {
    heap_bytes = std::make_unique<std::byte[]>(prepared.bytes.size());
    bytes = heap_bytes.get();
  }
  if (prepared.offsets.size() > kStackParams) {
    heap_params = std::make_unique<void*[]>(prepared.offsets.size());
    params = heap_params.get();
  }
  std::memcpy(bytes, prepared.bytes.data(), prepared.bytes.size());
  for (size_t i = 0; i < prepared.offsets.size(); ++i) {
    params[i] = bytes + prepared.offsets[i];
  }
  for (const PreparedLaunch::Patch& patch : prepared.patches) {
    std::byte* to = bytes + patch.offset;
    switch (patch.kind) {
      case PreparedLaunch::Patch::Kind::InputPointer:
        put(to, inputs[patch.index].data);
        break;
      case PreparedLaunch::Patch::Kind::OutputPointer:
        put(to, output_addresses[patch.index]);
        break;
      case PreparedLaunch::Patch::Kind::Scalar:
        writeScalar(to, inputs[patch.index].scalar, patch.dtype);
        break;
      case PreparedLaunch::Patch::Kind::CpuScalar:
        std::memcpy(to, inputs[patch.index].data, static_cast<size_t>(dataTypeSizeBytes(patch.dtype)));
        break;
      case PreparedLaunch::Patch::Kind::RngSeed:
        put(to, rng.seed);
        break;
      case PreparedLaunch::Patch::Kind::RngOffset:
        put(to, rng.offset / 4);
        break;
    }
  }
  LaunchConfig config = prepared.config;
  config.stream = stream;
  prepared.module->launch(config, params);
}

} // namespace nvfuser
