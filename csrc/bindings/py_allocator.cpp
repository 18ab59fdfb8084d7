// SPDX-License-Identifier: BSD-3-Clause
// Outputs as Python arrays.
#include <bindings/py_allocator.h>

#include <base/error.h>

#include <algorithm>
#include <array>

namespace nvfuser::python {

namespace {

constexpr size_t kWorkspaceAlignment = 256;

} // namespace

ArgView viewOf(const BorrowedArray& array) {
  ArgView view;
  view.is_tensor = true;
  view.dtype = array.dtype;
  view.rank = array.rank;
  view.device = array.device;
  view.data = array.data;
  view.sizes = array.sizes;
  view.strides = array.strides;
  return view;
}

void PyOutputAllocator::put(size_t position, PyRef object) {
  if (count_ <= position) {
    count_ = position + 1;
    more_.resize(count_ - std::min(count_, kInline));
  }
  NVF_ERROR(!output(position), "output ", position, " was given twice");
  output(position) = std::move(object);
}

void* PyOutputAllocator::allocate(size_t position, const TensorDesc& desc) {
  const GilHolder gil;
  int64_t spanned = 1;
  for (size_t d = 0; d < desc.sizes.size(); ++d) {
    spanned += (desc.sizes[d] - 1) * desc.strides[d];
  }
  if (desc.storage_elements > spanned) [[unlikely]] {
    // A view of storage with a padding at its end.
    const std::array<int64_t, 1> sizes = {desc.storage_elements};
    const std::array<int64_t, 1> strides = {1};
    const NewArray storage = newArray(sizes, strides, desc.dtype, desc.device);
    put(position, newView(storage.object.get(), desc.sizes, desc.strides, 0));
    return storage.data;
  }
  NewArray array = newArray(desc.sizes, desc.strides, desc.dtype, desc.device);
  put(position, std::move(array.object));
  return array.data;
}

void PyOutputAllocator::adopt(size_t position, const Tensor& tensor, const TensorDesc& desc) {
  const GilHolder gil;
  const PyRef array = arrayOf(tensor);
  if (!array) {
    put(position, wrapTensor(tensor.asStrided(desc.sizes, desc.strides)));
    return;
  }
  BorrowedArray seen;
  borrow(array.get(), seen);
  const ArgView view = viewOf(seen);
  const bool is_same = std::ranges::equal(view.sizeSpan(), desc.sizes) &&
                       std::ranges::equal(view.strideSpan(), desc.strides);
  put(position,
      is_same ? PyRef::share(array.get()) : newView(array.get(), desc.sizes, desc.strides, 0));
}

void PyOutputAllocator::returnInput(size_t position, size_t input) {
  const GilHolder gil;
  put(position, asOwnKind(arguments_[input]));
}

void PyOutputAllocator::returnView(size_t position, size_t input, int64_t offset,
                                   const TensorDesc& desc) {
  const GilHolder gil;
  put(position, newView(arguments_[input], desc.sizes, desc.strides, offset));
}

void PyOutputAllocator::returnSame(size_t position, size_t other, int64_t offset,
                                   const std::optional<TensorDesc>& seen) {
  const GilHolder gil;
  NVF_ERROR(other < count_, "output ", position, " is to be one that is not there");
  put(position, seen.has_value() ? newView(output(other).get(), seen->sizes, seen->strides, offset)
                                 : PyRef(output(other)));
}

void* PyOutputAllocator::allocateWorkspace(size_t bytes, Device device) {
  const GilHolder gil;
  const std::array<int64_t, 1> sizes = {static_cast<int64_t>(bytes + kWorkspaceAlignment)};
  const std::array<int64_t, 1> strides = {1};
  NewArray array = newArray(sizes, strides, DataType::UInt8, device);
  const auto address = reinterpret_cast<uintptr_t>(array.data);
  void* memory = reinterpret_cast<void*>((address + kWorkspaceAlignment - 1) / kWorkspaceAlignment *
                                         kWorkspaceAlignment);
  workspaces_.emplace_back(memory, std::move(array.object));
  return memory;
}

void PyOutputAllocator::releaseWorkspace(void* memory, Device) {
  // torch's allocator reuses memory in the order of the stream, so it may go while kernels still
  // run.
  const GilHolder gil;
  const auto it = std::find_if(workspaces_.begin(), workspaces_.end(),
                               [&](const auto& entry) { return entry.first == memory; });
  NVF_ERROR(it != workspaces_.end(), "released a workspace that was never allocated");
  workspaces_.erase(it);
}

PyRef PyOutputAllocator::takeList() {
  PyRef list =
      checked(PyList_New(static_cast<Py_ssize_t>(count_)), "Cannot make a list of outputs");
  for (size_t i = 0; i < count_; ++i) {
    NVF_ERROR(output(i), "output ", i, " was not given");
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), output(i).release());
  }
  count_ = 0;
  more_.clear();
  return list;
}

} // namespace nvfuser::python
