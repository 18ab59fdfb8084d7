// SPDX-License-Identifier: BSD-3-Clause
// Arguments of fusions and kernels: tensors and scalars. KernelArgs owns what it lists; ArgView
// borrows, so that a binding can pass tensors of another library without a copy of their metadata.
// OutputAllocator and RngState are how the caller supplies memory and random state.
#pragma once

#include <ir/base_nodes.h>
#include <target/device.h>
#include <tensor/tensor.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace nvfuser {

// One borrowed argument. Sizes and strides count elements (for packed fp4: bytes that hold two) and
// must outlive the call that gets the view.
struct ArgView {
  bool is_tensor = false;
  DataType dtype = DataType::Null; // of a tensor
  int32_t rank = 0;
  Device device{};
  void* data = nullptr; // address of the first element
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;
  // What may be addressed from `data` on, in elements, if it is more than sizes and strides say
  // (block scales in their own layout); else 0.
  int64_t storage_elements = 0;
  ScalarValue scalar; // if !is_tensor

  static ArgView of(const Tensor& tensor);
  static ArgView of(ScalarValue value);

  std::span<const int64_t> sizeSpan() const {
    return {sizes, static_cast<size_t>(rank)};
  }
  std::span<const int64_t> strideSpan() const {
    return {strides, static_cast<size_t>(rank)};
  }
};

using KernelArg = std::variant<Tensor, ScalarValue>;

class KernelArgs {
 public:
  KernelArgs() = default;
  KernelArgs(std::initializer_list<KernelArg> args) : args_(args) {}

  void push(Tensor tensor) {
    args_.emplace_back(std::move(tensor));
  }
  void push(ScalarValue value) {
    args_.emplace_back(value);
  }
  void push(bool value) {
    push(ScalarValue(value));
  }
  void push(int value) {
    push(ScalarValue(static_cast<int64_t>(value)));
  }
  void push(int64_t value) {
    push(ScalarValue(value));
  }
  void push(double value) {
    push(ScalarValue(value));
  }

  size_t size() const {
    return args_.size();
  }
  bool empty() const {
    return args_.empty();
  }
  bool isTensor(size_t i) const {
    return std::holds_alternative<Tensor>(args_.at(i));
  }
  // Error: not a tensor.
  const Tensor& tensor(size_t i) const;
  // Error: not a scalar.
  const ScalarValue& scalar(size_t i) const;
  const KernelArg& operator[](size_t i) const {
    return args_.at(i);
  }
  auto begin() const {
    return args_.begin();
  }
  auto end() const {
    return args_.end();
  }

  // Valid while this list is neither changed nor destroyed.
  std::vector<ArgView> views() const;
  // One line per argument (NVFUSER_DUMP=kernel_args).
  std::string toString() const;

 private:
  std::vector<KernelArg> args_;
};

std::string toString(const ArgView& arg);

// What an output looks like: sizes and strides in elements (packed fp4: in bytes of two, with the
// dtype Float4_e2m1fn_x2). The spans stay valid as long as the launch plan that they come from,
// that is during the call that hands them out.
struct TensorDesc {
  DataType dtype;
  Device device;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
  int64_t
      storage_elements; // that an allocation must hold: 1 + sum((size - 1) * stride), 0 if empty
};

// Receives the outputs of a call. Positions count the returned (not hidden) outputs; each position
// is given exactly once, in no particular order.
class OutputAllocator {
 public:
  virtual ~OutputAllocator() = default;
  // Output `position` is a new tensor; returns the address of its first element (may be null if
  // empty).
  virtual void* allocate(size_t position, const TensorDesc& desc) = 0;
  // Output `position` is a tensor that was made by others, seen with the sizes and strides of
  // `desc`.
  virtual void adopt(size_t position, const Tensor& tensor, const TensorDesc& desc) = 0;
  // Output `position` is the argument `input` itself.
  virtual void returnInput(size_t position, size_t input) = 0;
  // Output `position` shares storage with the argument `input`, from `offset` elements after its
  // first element.
  virtual void returnView(size_t position, size_t input, int64_t offset,
                          const TensorDesc& desc) = 0;
  // Output `position` is the same tensor as output `other`, which was given before, or its memory
  // with the sizes and strides of `seen` from `offset` elements after its first element.
  virtual void returnSame(size_t position, size_t other, int64_t offset,
                          const std::optional<TensorDesc>& seen) = 0;
  // Device memory for intermediate tensors, aligned to 256 bytes. Must stay valid, in stream order,
  // until released.
  virtual void* allocateWorkspace(size_t bytes, Device device) = 0;
  virtual void releaseWorkspace(void* memory, Device device) = 0;
};

// Fills a KernelArgs with Tensors that this library allocates.
class TensorAllocator : public OutputAllocator {
 public:
  // `inputs` are the arguments of the call, for outputs that share their storage.
  explicit TensorAllocator(const KernelArgs& inputs) : inputs_(inputs) {}
  void* allocate(size_t position, const TensorDesc& desc) override;
  void adopt(size_t position, const Tensor& tensor, const TensorDesc& desc) override;
  void returnInput(size_t position, size_t input) override;
  void returnView(size_t position, size_t input, int64_t offset, const TensorDesc& desc) override;
  void returnSame(size_t position, size_t other, int64_t offset,
                  const std::optional<TensorDesc>& seen) override;
  void* allocateWorkspace(size_t bytes, Device device) override;
  void releaseWorkspace(void* memory, Device device) override;
  KernelArgs take();

 private:
  void put(size_t position, Tensor tensor);

  const KernelArgs& inputs_;
  std::vector<Tensor> outputs_;
  std::vector<std::pair<void*, Tensor>> workspaces_;
};

struct PhiloxState {
  uint64_t seed = 0;
  uint64_t offset = 0; // in numbers: a multiple of 4
};

// The random generator that stateful ops draw from.
class RngState {
 public:
  virtual ~RngState() = default;
  // The state now; then the generator's offset is advanced by `numbers` (4 for each stateful op).
  virtual PhiloxState advance(Device device, uint64_t numbers) = 0;
};

// A generator of this process, for callers without one of their own. Seed 0 until set.
class DefaultRngState : public RngState {
 public:
  static DefaultRngState& instance();
  void setSeed(uint64_t seed);
  PhiloxState advance(Device device, uint64_t numbers) override;

 private:
  PhiloxState state_;
};

// Where and how a call runs.
struct RunContext {
  Device device{};
  void* stream = nullptr;  // CUstream; null is the default stream
  RngState* rng = nullptr; // null: DefaultRngState
};

} // namespace nvfuser
