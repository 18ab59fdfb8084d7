// SPDX-License-Identifier: BSD-3-Clause
// Arrays of Python libraries: seeing them as plain pointers, sizes and strides, and making new
// ones.
//
// torch.Tensor (torch >= 2.10) is read through the C functions of its DLPack exchange table: no
// Python object is made and nothing is synchronized. New tensors come from torch's own allocator
// and are ordinary tensors of it. Everything else has a slower way: older torch through its
// attributes, other libraries through __dlpack__,
// __cuda_array_interface__ or __array_interface__. torch is neither linked nor imported before it
// is needed; where it is not installed, NumPy arrays are made.
//
// The GIL must be held in all functions. Errors are UserErrors (a Python error that caused one is
// cleared).
#pragma once

#include <bindings/py_ref.h>
#include <tensor/tensor.h>

#include <cstdint>
#include <span>

namespace nvfuser::python {

// An array argument during a call. Sizes and strides count elements (packed fp4: bytes of two
// values, dtype Float4_e2m1fn_x2), and stay valid while this object and the Python array live.
struct BorrowedArray {
  void* data = nullptr;
  DataType dtype = DataType::Null;
  Device device;
  int32_t rank = 0;
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;
  // The producer does not want it written.
  bool read_only = false;
  // The data is that of a copy: what is written to it does not reach the array (conjugated and
  // negated views).
  bool is_copy = false;

  // What the pointers depend on where that is not the array itself.
  PyRef keep_alive;
  Shape own_sizes;
  Shape own_strides;

  BorrowedArray() = default;
  BorrowedArray(const BorrowedArray&) = delete;
  BorrowedArray& operator=(const BorrowedArray&) = delete;
  BorrowedArray(BorrowedArray&& other) noexcept;
  BorrowedArray& operator=(BorrowedArray&& other) noexcept;
};

// Whether the object is an array of some library (a tensor, not a number).
bool isArray(PyObject* object);
bool isTorchTensor(PyObject* object);

// False if the object is no array. Throws if it is one that cannot be used: sparse, without data of
// its own (meta, fake), on another kind of device, of an element type that has no counterpart.
bool borrow(PyObject* object, BorrowedArray& array);

// The array as a Tensor that keeps it alive. It may be destroyed by any thread.
Tensor toTensor(PyObject* object);

// The array that toTensor() made a Tensor of which this one is a view from the first element on;
// null if there is none.
PyRef arrayOf(const Tensor& tensor);

// A new array and where its data is.
struct NewArray {
  PyRef object;
  void* data = nullptr;
};

// Uninitialized; strides in elements. A torch.Tensor, or a NumPy array where torch is not
// installed. What torch's allocator raises is thrown as it is (pybind11::error_already_set).
NewArray newArray(std::span<const int64_t> sizes, std::span<const int64_t> strides, DataType dtype,
                  Device device);

// Another view of an array's storage, `offset` elements after its first one.
PyRef newView(PyObject* array, std::span<const int64_t> sizes, std::span<const int64_t> strides,
              int64_t offset);

// The array itself if it is of the library that newArray() uses, else a view of it there.
PyRef asOwnKind(PyObject* array);

// Hands a Tensor's data to Python without copying it.
PyRef wrapTensor(const Tensor& tensor);

// The stream that torch currently uses on a CUDA device (a CUstream); null, the default stream,
// without torch.
void* currentStream(Device device);

// torch.get_num_threads() of this thread; 0 without torch.
unsigned torchThreadCount();

// torch's object for a data type ("torch.float32"), a borrowed reference; null if this torch has
// none.
PyObject* torchDtype(DataType dtype);
bool torchAvailable();

// For tests: pretends that torch has no exchange table, or that it is not installed.
void setExchangeForTesting(bool use_exchange_table, bool use_torch);

// Adds the functions that let Python tests look at all this (describe, new_array, ...) as submodule
// `_interop`. Returns false with a Python error set if that fails.
bool addInteropModule(PyObject* module);

} // namespace nvfuser::python
