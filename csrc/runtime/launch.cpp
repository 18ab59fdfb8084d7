// SPDX-License-Identifier: BSD-3-Clause
// Enqueueing a prepared launch: the only code that runs for every call of a known kernel.
#include <cuda/tensor_map.h>
#include <host/tensor_map.h>
#include <runtime/evaluation.h>
#include <runtime/kernel_executor.h>
#include <runtime/launch_bytes.h>
#include <runtime/launch_workspace.h>

#include <cstring>
#include <memory>

namespace nvfuser {
namespace {

template <class T>
size_t put(std::byte* to, T value) {
  std::memcpy(to, static_cast<const void*>(&value), sizeof(value));
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

struct EvaluatedArgs {
  std::vector<ArgView> inputs;
  std::vector<ArgView> outputs;
};

EvaluatedArgs evaluatedArgs(const PreparedLaunch& prepared, std::span<const ArgView> values) {
  const size_t num_inputs = prepared.patches.size() - prepared.outputs.size();
  EvaluatedArgs args;
  for (size_t i = 0; i < prepared.patches.size(); ++i) {
    const ArgView& value = values[prepared.patches[i].index];
    if (i < num_inputs) {
      args.inputs.push_back(value);
      continue;
    }
    const OutputShape& shape = prepared.outputs[i - num_inputs];
    ArgView& out = args.outputs.emplace_back();
    out.is_tensor = true;
    out.dtype = shape.dtype;
    out.device = prepared.device;
    out.rank = static_cast<int32_t>(shape.sizes.size());
    out.data = value.data;
    out.sizes = shape.sizes.data();
    out.strides = shape.strides.data();
    out.storage_elements = shape.storage_elements;
  }
  return args;
}

} // namespace

std::vector<Tensor> makeResults(const PreparedLaunch& prepared, std::span<const ArgView> values) {
  const EvaluatedArgs args = evaluatedArgs(prepared, values);
  return prepared.evaluated->make(args.inputs, args.outputs);
}

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

namespace {

void start(const PreparedLaunch& prepared, const LaunchConfig& config, void** params) {
  if (prepared.repeated == nullptr || !prepared.repeated->launch(config.stream, params)) {
    prepared.module->launch(config, params);
  }
}

void launchWithWorkspace(const PreparedLaunch& prepared, const LaunchConfig& config,
                         std::byte* bytes, void** params) {
  LaunchWorkspace workspace(prepared.module->device(), config.stream, prepared.workspace_bytes,
                            prepared.semaphore_count);
  for (const PreparedLaunch::WorkspaceUse& use : prepared.workspace_uses) {
    const void* address = use.is_semaphores ? static_cast<void*>(workspace.semaphores() + use.first)
                                            : static_cast<void*>(workspace.memory() + use.first);
    put(bytes + use.offset, address);
  }
  start(prepared, config, params);
  workspace.setLaunched();
}

// Tensor maps are read where the launch puts them, at multiples of 64 bytes.
constexpr size_t kParameterAlignment = 64;

void writeTensorMaps(const PreparedLaunch& prepared, std::span<const ArgView> values,
                     std::byte* bytes) {
  for (const PreparedLaunch::TensorMapUse& use : prepared.tensor_maps) {
    TensorMapRequest request = use.request;
    request.data = values[use.index].data;
    put(bytes + use.offset,
        prepared.device.isCuda() ? encodeCudaTensorMap(request) : encodeHostTensorMap(request));
  }
}

} // namespace

void launch(const PreparedLaunch& prepared, std::span<const ArgView> values, const PhiloxState& rng,
            void* stream) {
  if (prepared.empty) {
    return;
  }
  if (prepared.evaluated != nullptr) {
    const EvaluatedArgs args = evaluatedArgs(prepared, values);
    return prepared.evaluated->run(args.inputs, args.outputs, rng);
  }
  constexpr size_t kStackBytes = 2048;
  constexpr size_t kStackParams = 64;
  alignas(kParameterAlignment) std::byte stack_bytes[kStackBytes];
  void* stack_params[kStackParams];
  std::unique_ptr<std::byte[]> heap_bytes;
  std::unique_ptr<void*[]> heap_params;
  std::byte* bytes = stack_bytes;
  void** params = stack_params;
  if (prepared.bytes.size() > kStackBytes) {
    size_t space = prepared.bytes.size() + kParameterAlignment;
    heap_bytes = std::make_unique<std::byte[]>(space);
    void* aligned = heap_bytes.get();
    bytes = static_cast<std::byte*>(
        std::align(kParameterAlignment, prepared.bytes.size(), aligned, space));
  }
  if (prepared.offsets.size() > kStackParams) {
    heap_params = std::make_unique<void*[]>(prepared.offsets.size());
    params = heap_params.get();
  }
  std::memcpy(bytes, prepared.bytes.data(), prepared.bytes.size());
  for (size_t i = 0; i < prepared.offsets.size(); ++i) {
    params[i] = bytes + prepared.offsets[i];
  }
  using Kind = PreparedLaunch::Patch::Kind;
  for (const PreparedLaunch::Patch& patch : prepared.patches) {
    std::byte* to = bytes + patch.offset;
    switch (patch.kind) {
      case Kind::Pointer:
        put(to, values[patch.index].data);
        break;
      case Kind::Scalar:
        writeScalar(to, values[patch.index].scalar, patch.dtype);
        break;
      case Kind::CpuScalar:
        std::memcpy(to, values[patch.index].data,
                    static_cast<size_t>(dataTypeSizeBytes(patch.dtype)));
        break;
      case Kind::RngSeed:
        put(to, rng.seed);
        break;
      case Kind::RngOffset:
        put(to, rng.offset / 4);
        break;
    }
  }
  writeTensorMaps(prepared, values, bytes);
  LaunchConfig config = prepared.config;
  config.stream = stream;
  if (!prepared.workspace_uses.empty()) {
    launchWithWorkspace(prepared, config, bytes, params);
    return;
  }
  start(prepared, config, params);
}

} // namespace nvfuser
