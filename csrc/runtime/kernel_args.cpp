// SPDX-License-Identifier: BSD-3-Clause
// Argument lists, and the memory and random state that calls get when the caller has none of their
// own.
#include <runtime/kernel_args.h>

#include <base/error.h>
#include <base/string_utils.h>

#include <array>
#include <mutex>
#include <sstream>

namespace nvfuser {

ArgView ArgView::of(const Tensor& tensor) {
  ArgView view;
  view.is_tensor = true;
  view.dtype = tensor.dtype();
  view.rank = static_cast<int32_t>(tensor.dim());
  view.device = tensor.device();
  view.data = tensor.data();
  view.sizes = tensor.sizes().data();
  view.strides = tensor.strides().data();
  return view;
}

ArgView ArgView::of(ScalarValue value) {
  ArgView view;
  view.scalar = value;
  return view;
}

const Tensor& KernelArgs::tensor(size_t i) const {
  NVF_CHECK(i < args_.size() && isTensor(i), "Argument ", i, " is not a tensor.");
  return std::get<Tensor>(args_[i]);
}

const ScalarValue& KernelArgs::scalar(size_t i) const {
  NVF_CHECK(i < args_.size() && !isTensor(i), "Argument ", i, " is not a scalar.");
  return std::get<ScalarValue>(args_[i]);
}

std::vector<ArgView> KernelArgs::views() const {
  std::vector<ArgView> views;
  views.reserve(args_.size());
  for (const KernelArg& arg : args_) {
    if (const Tensor* tensor = std::get_if<Tensor>(&arg)) {
      NVF_CHECK(tensor->defined(), "Argument ", views.size(), " is an undefined tensor.");
      views.push_back(ArgView::of(*tensor));
    } else {
      views.push_back(ArgView::of(std::get<ScalarValue>(arg)));
    }
  }
  return views;
}

std::string KernelArgs::toString() const {
  std::ostringstream out;
  for (const ArgView& view : views()) {
    out << "  " << nvfuser::toString(view) << "\n";
  }
  return out.str();
}

std::string toString(const ArgView& arg) {
  std::ostringstream out;
  if (arg.is_tensor) {
    out << arg.dtype << " tensor of sizes [" << join(arg.sizeSpan()) << "], strides ["
        << join(arg.strideSpan()) << "] on " << arg.device << " at " << arg.data;
  } else {
    out << "scalar ";
    std::visit(
        [&](const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
            out << "without value";
          } else if constexpr (std::is_same_v<std::decay_t<decltype(value)>, bool>) {
            out << (value ? "true" : "false");
          } else {
            out << value;
          }
        },
        arg.scalar);
  }
  return out.str();
}

void TensorAllocator::put(size_t position, Tensor tensor) {
  if (outputs_.size() <= position) {
    outputs_.resize(position + 1);
  }
  outputs_[position] = std::move(tensor);
}

void* TensorAllocator::allocate(size_t position, const TensorDesc& desc) {
  int64_t spanned = 1;
  for (size_t d = 0; d < desc.sizes.size(); ++d) {
    spanned += (desc.sizes[d] - 1) * desc.strides[d];
  }
  Tensor tensor;
  if (desc.storage_elements > spanned) {
    // A view of storage with a padding at its end.
    const std::array<int64_t, 1> storage = {desc.storage_elements};
    tensor = Tensor::empty(storage, desc.dtype, desc.device).asStrided(desc.sizes, desc.strides);
  } else {
    tensor = Tensor::emptyStrided(desc.sizes, desc.strides, desc.dtype, desc.device);
  }
  void* data = tensor.data();
  put(position, std::move(tensor));
  return data;
}

void TensorAllocator::adopt(size_t position, const Tensor& tensor, const TensorDesc& desc) {
  put(position, tensor.asStrided(desc.sizes, desc.strides));
}

void TensorAllocator::returnInput(size_t position, size_t input) {
  put(position, inputs_.tensor(input));
}

void TensorAllocator::returnView(size_t position, size_t input, int64_t offset,
                                 const TensorDesc& desc) {
  put(position, inputs_.tensor(input).asStrided(desc.sizes, desc.strides, offset));
}

void TensorAllocator::returnSame(size_t position, size_t other, int64_t offset,
                                 const std::optional<TensorDesc>& seen) {
  const Tensor& tensor = outputs_.at(other);
  put(position, seen.has_value() ? tensor.asStrided(seen->sizes, seen->strides, offset) : tensor);
}

void* TensorAllocator::allocateWorkspace(size_t bytes, Device device) {
  const int64_t size = static_cast<int64_t>(bytes);
  Tensor tensor = Tensor::empty({size}, DataType::UInt8, device);
  void* data = tensor.data();
  workspaces_.emplace_back(data, std::move(tensor));
  return data;
}

void TensorAllocator::releaseWorkspace(void* memory, Device /*device*/) {
  std::erase_if(workspaces_, [&](const auto& entry) { return entry.first == memory; });
}

KernelArgs TensorAllocator::take() {
  KernelArgs result;
  for (Tensor& tensor : outputs_) {
    result.push(std::move(tensor));
  }
  outputs_.clear();
  return result;
}

namespace {
std::mutex default_rng_mutex;
} // namespace

DefaultRngState& DefaultRngState::instance() {
  static DefaultRngState state;
  return state;
}

void DefaultRngState::setSeed(uint64_t seed) {
  std::lock_guard lock(default_rng_mutex);
  state_ = {seed, 0};
}

PhiloxState DefaultRngState::advance(Device /*device*/, uint64_t numbers) {
  std::lock_guard lock(default_rng_mutex);
  const PhiloxState now = state_;
  state_.offset += numbers;
  return now;
}

} // namespace nvfuser
