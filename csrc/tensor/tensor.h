// SPDX-License-Identifier: BSD-3-Clause
// The Tensor value: where data lies and how, without any framework. It is what C++ programs pass to
// and get from the executors; Python tensors are seen through it too.
#pragma once

#include <base/small_vector.h>
#include <target/device.h>
#include <tensor/dlpack.h>
#include <type.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace nvfuser {

using Shape = SmallVector<int64_t, 8>;

// Copying is cheap and shares the data. Data type Float4_e2m1fn: sizes and strides count values of
// 4 bits, data points to the byte of the first (which is always the low half).
class Tensor {
 public:
  Tensor() = default;

  // Uninitialized. Host memory is aligned to 64 bytes and, with NVFUSER_POISON_MEMORY=1, filled
  // with 0xff (NaN in every floating-point type). CUDA memory comes from the driver's
  // stream-ordered pool.
  static Tensor empty(std::span<const int64_t> sizes, DataType dtype,
                      Device device = Device::host());
  static Tensor empty(std::initializer_list<int64_t> sizes, DataType dtype,
                      Device device = Device::host()) {
    return empty(std::span<const int64_t>(sizes.begin(), sizes.size()), dtype, device);
  }
  static Tensor emptyStrided(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                             DataType dtype, Device device = Device::host());
  static Tensor zeros(std::span<const int64_t> sizes, DataType dtype,
                      Device device = Device::host());
  static Tensor full(std::span<const int64_t> sizes, double value, DataType dtype,
                     Device device = Device::host());
  // Normally distributed (integers: uniform in [-8, 8]; bool: 0 or 1), the same for the same seed
  // everywhere.
  static Tensor random(std::span<const int64_t> sizes, DataType dtype,
                       Device device = Device::host(), uint64_t seed = 0);
  // Memory of somebody else; `owner` is held as long as a Tensor shares it, null if the caller sees
  // to that.
  static Tensor fromBlob(void* data, std::span<const int64_t> sizes,
                         std::span<const int64_t> strides, DataType dtype,
                         Device device = Device::host(), std::shared_ptr<void> owner = nullptr);
  static Tensor fromDLTensor(const dlpack::DLTensor& tensor, std::shared_ptr<void> owner = nullptr);
  // A contiguous copy of the values.
  template <class T>
  static Tensor fromVector(const std::vector<T>& values, std::span<const int64_t> sizes,
                           Device device = Device::host()) {
    return fromHostBytes(values.data(), values.size(), sizes, dataTypeOf<T>(), device);
  }

  bool defined() const {
    return dtype_ != DataType::Null;
  }
  void* data() const {
    return data_;
  }
  template <class T>
  T* data() const {
    return static_cast<T*>(data_);
  }
  DataType dtype() const {
    return dtype_;
  }
  Device device() const {
    return device_;
  }
  int64_t dim() const {
    return static_cast<int64_t>(sizes_.size());
  }
  const Shape& sizes() const {
    return sizes_;
  }
  const Shape& strides() const {
    return strides_;
  }
  // Negative dimensions count from the end.
  int64_t size(int64_t d) const;
  int64_t stride(int64_t d) const;
  int64_t numel() const;
  // Bytes from the first to the last element (0 without elements).
  size_t spanBytes() const;
  bool isContiguous() const;
  const std::shared_ptr<void>& owner() const {
    return owner_;
  }

  // Other views of the same data. The offset is in elements.
  Tensor asStrided(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                   int64_t offset = 0) const;
  Tensor permute(std::span<const int64_t> dims) const;
  Tensor transpose(int64_t d0, int64_t d1) const;
  Tensor slice(int64_t d, int64_t start, int64_t end, int64_t step = 1) const;
  Tensor expand(std::span<const int64_t> sizes) const;
  // Of the same bytes: Float4_e2m1fn_x2 as Float4_e2m1fn, with the extent of the dimension of
  // stride 1 doubled.
  Tensor unpackedFloat4() const;

  // Contiguous copy, on the given device.
  Tensor to(Device device) const;
  Tensor contiguous() const;
  // Overwrites the elements with those of a tensor of equal sizes and data type.
  void copyFrom(const Tensor& source);
  void fill(double value);

  // All elements in logical order, converted. For tests and reports: slow.
  std::vector<double> toDoubles() const;
  // All elements in logical order; T must be the tensor's own type.
  template <class T>
  std::vector<T> toVector() const {
    std::vector<T> values(static_cast<size_t>(numel()));
    copyToHostBytes(values.data(), dataTypeOf<T>());
    return values;
  }
  template <class T>
  T item() const {
    return toVector<T>().at(0);
  }

  // For another library: versioned, keeps the data alive until its deleter is called.
  dlpack::DLManagedTensorVersioned* toDLPack() const;

  // "float tensor of sizes [2, 3], strides [3, 1] on cpu"
  std::string toString() const;

 private:
  static Tensor fromHostBytes(const void* values, size_t count, std::span<const int64_t> sizes,
                              DataType dtype, Device device);
  void copyToHostBytes(void* values, DataType dtype) const;

  void* data_ = nullptr;
  DataType dtype_ = DataType::Null;
  Device device_;
  Shape sizes_;
  Shape strides_;
  std::shared_ptr<void> owner_;
};

// 1 + the largest offset of an element; 0 if there is none.
int64_t storageElements(std::span<const int64_t> sizes, std::span<const int64_t> strides);

Shape contiguousStrides(std::span<const int64_t> sizes);

// Null for a type that has no counterpart here.
DataType dataTypeFromDLPack(dlpack::DLDataType type);
dlpack::DLDataType dataTypeToDLPack(DataType type);
// UserError for a device that is neither host nor CUDA memory.
Device deviceFromDLPack(dlpack::DLDevice device);
dlpack::DLDevice deviceToDLPack(Device device);

// One element, converted (nearest even) from and to a double; `index` in elements of the type. The
// real part of a complex number; 64-bit integers lose what a double cannot hold.
double loadElement(const void* data, int64_t index, DataType dtype);
void storeElement(void* data, int64_t index, DataType dtype, double value);

// Copies one element bit by bit (half a byte for Float4_e2m1fn).
void copyElement(void* to, int64_t to_index, const void* from, int64_t from_index, DataType dtype);

} // namespace nvfuser
