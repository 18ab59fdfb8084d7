// SPDX-License-Identifier: BSD-3-Clause
// Tensor: allocation, views, and slow but exact element access.
#include <tensor/tensor.h>

#include <base/error.h>
#include <base/hash.h>
#include <base/options.h>
#include <base/string_utils.h>
#include <cuda/driver.h>
#include <host/memory_pool.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>

namespace nvfuser {

namespace {

size_t bytesForBits(int64_t elements, DataType dtype) {
  return static_cast<size_t>((elements * dataTypeSizeBits(dtype) + 7) / 8);
}

// Keeps freed memory in the pool instead of giving it back at every synchronization
// (CUmemPool_attribute 4).
void keepPoolMemory(int device) {
  const cuda::Driver& f = cuda::driver();
  constexpr int kReleaseThreshold = 4;
  cuda::DeviceHandle handle = 0;
  cuda::MemoryPool pool = nullptr;
  uint64_t threshold = UINT64_MAX;
  if (f.cuDeviceGet(&handle, device) == 0 && f.cuDeviceGetDefaultMemPool(&pool, handle) == 0) {
    f.cuMemPoolSetAttribute(pool, kReleaseThreshold, &threshold);
  }
}

std::shared_ptr<void> allocateCuda(size_t bytes, int device) {
  const cuda::Driver& f = cuda::driver();
  const cuda::ContextGuard guard(device);
  static const bool configured = (keepPoolMemory(device), true);
  static_cast<void>(configured);
  cuda::DevicePtr address = 0;
  cuda::check(f.cuMemAllocAsync(&address, std::max<size_t>(bytes, 1), nullptr),
              detail::streamToString("Cannot allocate ", bytes, " bytes on cuda:", device).c_str());
  return {reinterpret_cast<void*>(address), [device](void* data) {
            try {
              const cuda::ContextGuard free_guard(device);
              cuda::driver().cuMemFreeAsync(reinterpret_cast<cuda::DevicePtr>(data), nullptr);
            } catch (const std::exception&) { // NOLINT(bugprone-empty-catch)
              // The driver is shutting down; it frees everything.
            }
          }};
}

cuda::DevicePtr devicePtr(const void* data) {
  return reinterpret_cast<cuda::DevicePtr>(data);
}

// Between any two places; waits until it is done.
void copyBytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes) {
  if (bytes == 0) {
    return;
  }
  if (to_device.isHost() && from_device.isHost()) {
    std::memcpy(to, from, bytes);
    return;
  }
  const cuda::Driver& f = cuda::driver();
  const cuda::ContextGuard guard(to_device.isCuda() ? to_device.index : from_device.index);
  cuda::Result result = 0;
  if (to_device.isHost()) {
    result = f.cuMemcpyDtoHAsync(to, devicePtr(from), bytes, nullptr);
  } else if (from_device.isHost()) {
    result = f.cuMemcpyHtoDAsync(devicePtr(to), from, bytes, nullptr);
  } else {
    result = f.cuMemcpyDtoDAsync(devicePtr(to), devicePtr(from), bytes, nullptr);
  }
  cuda::check(result, "Cannot copy a tensor");
  cuda::check(f.cuStreamSynchronize(nullptr), "Cannot copy a tensor");
}

// Calls `visit(offset)` with the offset of every element in logical order.
template <class Visit>
void forEachOffset(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                   const Visit& visit) {
  Shape index(sizes.size(), 0);
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) {
    return;
  }
  int64_t offset = 0;
  while (true) {
    visit(offset);
    size_t d = sizes.size();
    while (d > 0) {
      --d;
      offset += strides[d];
      if (++index[d] < sizes[d]) {
        break;
      }
      offset -= sizes[d] * strides[d];
      index[d] = 0;
      if (d == 0) {
        return;
      }
    }
    if (sizes.empty()) {
      return;
    }
  }
}

int64_t wrapDim(int64_t d, int64_t rank) {
  NVF_CHECK(d >= -rank && d < rank, "Dimension ", d, " is out of range for a tensor of rank ",
            rank);
  return d < 0 ? d + rank : d;
}

} // namespace

int64_t storageElements(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) {
      return 0;
    }
    last += (sizes[i] - 1) * strides[i];
  }
  return last + 1;
}

Shape contiguousStrides(std::span<const int64_t> sizes) {
  Shape strides(sizes.size(), 1);
  int64_t stride = 1;
  for (size_t i = sizes.size(); i > 0; --i) {
    strides[i - 1] = stride;
    stride *= std::max<int64_t>(sizes[i - 1], 1);
  }
  return strides;
}

Tensor Tensor::empty(std::span<const int64_t> sizes, DataType dtype, Device device) {
  return emptyStrided(sizes, contiguousStrides(sizes), dtype, device);
}

Tensor Tensor::emptyStrided(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                            DataType dtype, Device device) {
  NVF_CHECK(sizes.size() == strides.size(), "A tensor of rank ", sizes.size(), " cannot have ",
            strides.size(), " strides");
  for (size_t i = 0; i < sizes.size(); ++i) {
    NVF_CHECK(sizes[i] >= 0 && strides[i] >= 0, "Sizes and strides must not be negative, got size ",
              sizes[i], " and stride ", strides[i], " of dimension ", i);
  }
  const size_t bytes = bytesForBits(storageElements(sizes, strides), dtype);
  std::shared_ptr<void> owner =
      device.isHost() ? allocateHostMemory(bytes) : allocateCuda(bytes, device.index);
  NVF_CHECK(owner != nullptr, "Out of memory: cannot allocate ", bytes, " bytes on the host");
  void* data = owner.get();
  return fromBlob(data, sizes, strides, dtype, device, std::move(owner));
}

Tensor Tensor::zeros(std::span<const int64_t> sizes, DataType dtype, Device device) {
  return full(sizes, 0, dtype, device);
}

Tensor Tensor::full(std::span<const int64_t> sizes, double value, DataType dtype, Device device) {
  Tensor tensor = empty(sizes, dtype, device);
  tensor.fill(value);
  return tensor;
}

Tensor Tensor::random(std::span<const int64_t> sizes, DataType dtype, Device device,
                      uint64_t seed) {
  Tensor tensor = empty(sizes, dtype);
  const int64_t components = isComplex(dtype) ? 2 : 1;
  const DataType part = realTypeOf(dtype);
  for (int64_t i = 0; i < tensor.numel() * components; ++i) {
    const uint64_t bits = hashCombine(seed, static_cast<uint64_t>(i));
    double value = 0;
    if (isBoolean(dtype)) {
      value = static_cast<double>(bits & 1);
    } else if (isIntegral(dtype)) {
      value = static_cast<double>(bits % 17) - (isUnsigned(dtype) ? 0 : 8);
    } else {
      // Box-Muller; neither factor can be infinite.
      constexpr double kTwoPi = 6.283185307179586;
      const double u = (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
      const double v = static_cast<double>(mixBits(bits + 1) >> 11) * 0x1p-53;
      value = std::sqrt(-2 * std::log(u)) * std::cos(kTwoPi * v);
    }
    storeElement(tensor.data_, i, part, value);
  }
  return device.isHost() ? tensor : tensor.to(device);
}

Tensor Tensor::fromBlob(void* data, std::span<const int64_t> sizes,
                        std::span<const int64_t> strides, DataType dtype, Device device,
                        std::shared_ptr<void> owner) {
  NVF_ERROR(dtype != DataType::Null && dtype != DataType::Index);
  NVF_ERROR(sizes.size() == strides.size());
  Tensor tensor;
  tensor.data_ = data;
  tensor.dtype_ = dtype;
  tensor.device_ = device;
  tensor.sizes_ = Shape(sizes);
  tensor.strides_ = Shape(strides);
  tensor.owner_ = std::move(owner);
  return tensor;
}

Tensor Tensor::fromDLTensor(const dlpack::DLTensor& tensor, std::shared_ptr<void> owner) {
  const DataType dtype = dataTypeFromDLPack(tensor.dtype);
  NVF_CHECK(dtype != DataType::Null,
            "Arrays with this element type are not supported (DLPack code ", int(tensor.dtype.code),
            ", ", int(tensor.dtype.bits), " bits, ", tensor.dtype.lanes, " lanes)");
  const std::span<const int64_t> sizes(tensor.shape, static_cast<size_t>(tensor.ndim));
  const Shape strides =
      tensor.strides != nullptr
          ? Shape(std::span<const int64_t>(tensor.strides, static_cast<size_t>(tensor.ndim)))
          : contiguousStrides(sizes);
  return fromBlob(static_cast<char*>(tensor.data) + tensor.byte_offset, sizes, strides, dtype,
                  deviceFromDLPack(tensor.device), std::move(owner));
}

Tensor Tensor::fromHostBytes(const void* values, size_t count, std::span<const int64_t> sizes,
                             DataType dtype, Device device) {
  Tensor tensor = empty(sizes, dtype, device);
  NVF_CHECK(count == static_cast<size_t>(tensor.numel()), "Got ", count, " values for a tensor of ",
            tensor.numel(), " elements");
  copyBytes(tensor.data_, device, values, Device::host(), tensor.spanBytes());
  return tensor;
}

int64_t Tensor::size(int64_t d) const {
  return sizes_[size_t(wrapDim(d, dim()))];
}

int64_t Tensor::stride(int64_t d) const {
  return strides_[size_t(wrapDim(d, dim()))];
}

int64_t Tensor::numel() const {
  return std::accumulate(sizes_.begin(), sizes_.end(), int64_t(1), std::multiplies<>());
}

size_t Tensor::spanBytes() const {
  return bytesForBits(storageElements(sizes_, strides_), dtype_);
}

bool Tensor::isContiguous() const {
  int64_t expected = 1;
  for (size_t i = sizes_.size(); i > 0; --i) {
    const int64_t size = sizes_[i - 1];
    if (size == 0) {
      return true;
    }
    if (size != 1 && strides_[i - 1] != expected) {
      return false;
    }
    expected *= size;
  }
  return true;
}

Tensor Tensor::asStrided(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                         int64_t offset) const {
  const int64_t bits = offset * dataTypeSizeBits(dtype_);
  NVF_CHECK(bits % 8 == 0, "A view of packed 4-bit values must start at an even element");
  return fromBlob(static_cast<char*>(data_) + bits / 8, sizes, strides, dtype_, device_, owner_);
}

Tensor Tensor::permute(std::span<const int64_t> dims) const {
  NVF_CHECK(dims.size() == sizes_.size(), "permute needs ", sizes_.size(), " dimensions, got ",
            dims.size());
  Shape sizes;
  Shape strides;
  for (int64_t d : dims) {
    sizes.push_back(size(d));
    strides.push_back(stride(d));
  }
  return asStrided(sizes, strides);
}

Tensor Tensor::transpose(int64_t d0, int64_t d1) const {
  Shape sizes = sizes_;
  Shape strides = strides_;
  const auto a = static_cast<size_t>(wrapDim(d0, dim()));
  const auto b = static_cast<size_t>(wrapDim(d1, dim()));
  std::swap(sizes[a], sizes[b]);
  std::swap(strides[a], strides[b]);
  return asStrided(sizes, strides);
}

Tensor Tensor::slice(int64_t d, int64_t start, int64_t end, int64_t step) const {
  const auto i = static_cast<size_t>(wrapDim(d, dim()));
  NVF_CHECK(0 <= start && start <= end && end <= sizes_[i] && step > 0, "Cannot slice [", start,
            ":", end, ":", step, "] from an extent of ", sizes_[i]);
  Shape sizes = sizes_;
  Shape strides = strides_;
  sizes[i] = (end - start + step - 1) / step;
  strides[i] *= step;
  return asStrided(sizes, strides, start * strides_[i]);
}

Tensor Tensor::expand(std::span<const int64_t> sizes) const {
  NVF_CHECK(sizes.size() >= sizes_.size(), "expand cannot remove dimensions");
  const size_t added = sizes.size() - sizes_.size();
  Shape strides(sizes.size(), 0);
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const bool same = sizes[added + i] == sizes_[i];
    NVF_CHECK(same || sizes_[i] == 1, "Cannot expand an extent of ", sizes_[i], " to ",
              sizes[added + i]);
    strides[added + i] = same ? strides_[i] : 0;
  }
  return asStrided(sizes, strides);
}

Tensor Tensor::unpackedFloat4() const {
  NVF_CHECK(dtype_ == DataType::Float4_e2m1fn_x2,
            "Not a tensor of packed 4-bit values: ", toString());
  Shape sizes = sizes_;
  Shape strides = strides_;
  // The last dimension of stride 1 that is not broadcast, else the last.
  size_t inner = sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (strides[i] == 1 && (inner == sizes.size() || sizes[i] != 1)) {
      inner = i;
    }
  }
  NVF_CHECK(inner < sizes.size(),
            "Packed 4-bit values must be contiguous along one dimension: ", toString());
  for (size_t i = 0; i < sizes.size(); ++i) {
    strides[i] *= i == inner ? 1 : 2;
  }
  sizes[inner] *= 2;
  return fromBlob(data_, sizes, strides, DataType::Float4_e2m1fn, device_, owner_);
}

Tensor Tensor::contiguous() const {
  return isContiguous() ? *this : to(device_);
}

Tensor Tensor::to(Device device) const {
  if (isContiguous()) {
    Tensor result = emptyStrided(sizes_, contiguousStrides(sizes_), dtype_, device);
    copyBytes(result.data_, device, data_, device_, spanBytes());
    return result;
  }
  // Bring the whole span over and pick the elements on the host.
  Tensor span = *this;
  if (device_.isCuda()) {
    span = emptyStrided(sizes_, strides_, dtype_);
    copyBytes(span.data_, Device::host(), data_, device_, spanBytes());
  }
  Tensor result = empty(sizes_, dtype_);
  int64_t i = 0;
  forEachOffset(sizes_, strides_, [&](int64_t offset) {
    copyElement(result.data_, i++, span.data_, offset, dtype_);
  });
  return device.isHost() ? result : result.to(device);
}

void Tensor::copyFrom(const Tensor& source) {
  NVF_CHECK(source.sizes_ == sizes_ && source.dtype_ == dtype_, "Cannot copy a ", source.toString(),
            " into a ", toString());
  const Tensor packed = source.contiguous();
  if (isContiguous()) {
    copyBytes(data_, device_, packed.data_, packed.device_, spanBytes());
    return;
  }
  const Tensor values = packed.device_.isHost() ? packed : packed.to(Device::host());
  Tensor span = *this;
  if (device_.isCuda()) {
    // What lies between the elements must survive.
    span = emptyStrided(sizes_, strides_, dtype_);
    copyBytes(span.data_, Device::host(), data_, device_, spanBytes());
  }
  int64_t i = 0;
  forEachOffset(sizes_, strides_, [&](int64_t offset) {
    copyElement(span.data_, offset, values.data_, i++, dtype_);
  });
  if (device_.isCuda()) {
    copyBytes(data_, device_, span.data_, Device::host(), spanBytes());
  }
}

void Tensor::fill(double value) {
  Tensor values = device_.isHost() ? *this : empty(sizes_, dtype_);
  const bool complex = isComplex(dtype_);
  forEachOffset(values.sizes_, values.strides_, [&](int64_t offset) {
    if (complex) {
      storeElement(values.data_, 2 * offset, realTypeOf(dtype_), value);
      storeElement(values.data_, 2 * offset + 1, realTypeOf(dtype_), 0);
    } else {
      storeElement(values.data_, offset, dtype_, value);
    }
  });
  if (device_.isCuda()) {
    copyFrom(values);
  }
}

std::vector<double> Tensor::toDoubles() const {
  const Tensor host = device_.isHost() ? *this : to(Device::host());
  std::vector<double> values;
  values.reserve(static_cast<size_t>(numel()));
  forEachOffset(host.sizes_, host.strides_,
                [&](int64_t offset) { values.push_back(loadElement(host.data_, offset, dtype_)); });
  return values;
}

void Tensor::copyToHostBytes(void* values, DataType dtype) const {
  NVF_CHECK(dtype == dtype_, "Asked for elements of type ", dtype, " of a ", toString());
  const Tensor packed = to(Device::host());
  copyBytes(values, Device::host(), packed.data_, Device::host(), packed.spanBytes());
}

std::string Tensor::toString() const {
  if (!defined()) {
    return "undefined tensor";
  }
  return detail::streamToString(dtype_, " tensor of sizes [", join(sizes_), "], strides [",
                                join(strides_), "] on ", device_);
}

dlpack::DLManagedTensorVersioned* Tensor::toDLPack() const {
  struct Holder {
    dlpack::DLManagedTensorVersioned managed = {};
    Tensor tensor;
  };
  auto* holder = new Holder{{}, *this};
  // 4-bit values have no counterpart with strides; they leave as pairs.
  NVF_CHECK(dtype_ != DataType::Float4_e2m1fn,
            "4-bit values can only be handed out as packed pairs (Float4_e2m1fn_x2)");
  dlpack::DLManagedTensorVersioned& managed = holder->managed;
  managed.version = {dlpack::kMajorVersion, dlpack::kMinorVersion};
  managed.manager_ctx = holder;
  managed.deleter = [](dlpack::DLManagedTensorVersioned* self) {
    delete static_cast<Holder*>(self->manager_ctx);
  };
  managed.dl_tensor.data = data_;
  managed.dl_tensor.device = deviceToDLPack(device_);
  managed.dl_tensor.ndim = static_cast<int32_t>(sizes_.size());
  managed.dl_tensor.dtype = dataTypeToDLPack(dtype_);
  managed.dl_tensor.shape = holder->tensor.sizes_.data();
  managed.dl_tensor.strides = holder->tensor.strides_.data();
  return &managed;
}

} // namespace nvfuser
