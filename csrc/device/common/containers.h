// SPDX-License-Identifier: BSD-3-Clause
// Tensor arguments and register arrays.
#pragma once

//@ piece Tensor
// A tensor argument, passed by value. The runtime packs the same bytes: pointer, extents of the
// logical domain, strides (in elements) of the allocation domain, padded to 8 bytes.
template <class T, int LogicalRank, int AllocRank>
struct Tensor {
  T* data;
  nvfuser_index_t logical_size[LogicalRank];
  nvfuser_index_t alloc_stride[AllocRank];

  NVF_FN NVF_ELEMENT(T) operator[](nvfuser_index_t index) const {
    return static_cast<NVF_ELEMENT(T)>(data[index]);
  }
};

template <class T>
struct Tensor<T, 0, 0> {
  T* data;

  NVF_FN NVF_ELEMENT(T) operator[](nvfuser_index_t index) const {
    return static_cast<NVF_ELEMENT(T)>(data[index]);
  }
};

//@ piece CpuScalar
// A tensor of rank 0 in host memory, passed by value.
template <class T>
struct CpuScalar {
  T value;

  NVF_FN const T& operator[](nvfuser_index_t) const {
    return value;
  }
};

//@ piece Array
// Registers. Aligned to Align elements so that whole vectors can be moved at once. A kernel for
// tensors without elements has arrays of none, which C++ does not have.
template <class T, int N, int Align = 1>
struct alignas(sizeof(T) * Align) Array {
  T array[N > 0 ? N : 1];

  NVF_FN NVF_ELEMENT(T) operator[](int index) {
    return static_cast<NVF_ELEMENT(T)>(array[index]);
  }

  NVF_FN const T& operator[](int index) const {
    return array[index];
  }

  NVF_FN void set(T value) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      array[i] = value;
    }
  }
};

//@ piece nvf::CacheOp
namespace nvf {
enum class CacheOp { Unspecified, AllLevels, Streaming, Global, EvictLast };
} // namespace nvf
