// SPDX-License-Identifier: BSD-3-Clause
// The Python side of a call: arguments as ArgViews, outputs as new Python arrays, and torch's
// random generators.
#pragma once

#include <bindings/torch_exchange.h>
#include <runtime/kernel_args.h>

#include <span>
#include <utility>
#include <vector>

namespace nvfuser::python {

// Sees what `array` sees, and is valid as long.
ArgView viewOf(const BorrowedArray& array);

// Holds the GIL in its scope, whether or not the thread held it before.
class GilHolder {
 public:
  GilHolder() : acquired_(PyGILState_Check() == 0) {
    if (acquired_) {
      state_ = PyGILState_Ensure();
    }
  }
  ~GilHolder() {
    if (acquired_) {
      PyGILState_Release(state_);
    }
  }
  GilHolder(const GilHolder&) = delete;
  GilHolder& operator=(const GilHolder&) = delete;

 private:
  bool acquired_;
  PyGILState_STATE state_ = {};
};

// Makes a call's outputs. To be created and destroyed with the GIL held; in between the call may
// run without it.
class PyOutputAllocator : public OutputAllocator {
 public:
  // `arguments` are the call's arguments in the order of its ArgViews; they must outlive this
  // object.
  explicit PyOutputAllocator(std::span<PyObject* const> arguments) : arguments_(arguments) {}

  void* allocate(size_t position, const TensorDesc& desc) override;
  void adopt(size_t position, const Tensor& tensor, const TensorDesc& desc) override;
  void returnInput(size_t position, size_t input) override;
  void returnView(size_t position, size_t input, int64_t offset, const TensorDesc& desc) override;
  void returnSame(size_t position, size_t other, int64_t offset,
                  const std::optional<TensorDesc>& seen) override;
  void* allocateWorkspace(size_t bytes, Device device) override;
  void releaseWorkspace(void* memory, Device device) override;

  // A new list of the outputs.
  PyRef takeList();

 protected:
  void put(size_t position, PyRef object);

 private:
  PyRef& output(size_t position) {
    return position < kInline ? first_[position] : more_[position - kInline];
  }

  std::span<PyObject* const> arguments_;
  // The first few outputs without the heap.
  static constexpr size_t kInline = 4;
  PyRef first_[kInline];
  std::vector<PyRef> more_;
  size_t count_ = 0;
  std::vector<std::pair<void*, PyRef>> workspaces_;
};

} // namespace nvfuser::python
