// SPDX-License-Identifier: BSD-3-Clause
// The arguments of a call from Python: flattened, borrowed, and seen as ArgViews.
#pragma once

#include <base/small_vector.h>
#include <bindings/py_allocator.h>
#include <executor/fusion_executor_cache.h>

#include <pybind11/pybind11.h>

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace nvfuser::python {

// Borrows for its lifetime. The GIL must be held when it is made and destroyed.
class CallArguments {
 public:
  // `inputs`: any iterable; lists and tuples inside are flattened one level. Error: an entry that
  // is neither an array nor a number.
  explicit CallArguments(pybind11::handle inputs);
  CallArguments(const CallArguments&) = delete;
  CallArguments& operator=(const CallArguments&) = delete;

  std::span<const ArgView> views() const {
    return {views_.data(), views_.size()};
  }
  std::span<PyObject* const> objects() const {
    return {objects_.data(), objects_.size()};
  }
  // The arguments as values that own what they need.
  KernelArgs toKernelArgs() const;
  // Device of the first tensor on a GPU, else none.
  std::optional<Device> cudaDevice() const;

 private:
  void add(PyObject* item);
  BorrowedArray& nextArray();

  pybind11::object keep_alive_; // a list, if the iterable was not one
  // The first few arguments without the heap; an array is made when an argument is a tensor.
  static constexpr size_t kInline = 6;
  SmallVector<PyObject*, kInline> objects_;
  SmallVector<ArgView, kInline> views_;
  std::optional<BorrowedArray> inline_[kInline];
  size_t inline_count_ = 0;
  std::deque<BorrowedArray> more_;
};

// Runs the fusion in torch's current stream; a new list of its outputs. Queueing kernels keeps the
// interpreter (it is not worth giving it to others), running them on the CPU gives it away.
PyRef runFusion(FusionExecutorCache& cache, const CallArguments& args,
                std::optional<Device> device = std::nullopt);

// None, an index, a string or a torch.device. Errors: not a CUDA device or the CPU; index out of
// range.
std::optional<Device> toDevice(pybind11::handle device);

} // namespace nvfuser::python
