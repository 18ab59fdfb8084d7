// SPDX-License-Identifier: BSD-3-Clause
// define_tensor: tensors that stand for fusion inputs, from declared shapes or from the sizes and
// strides of a real tensor.
#pragma once

#include <ir/tensor_view.h>

#include <cstdint>
#include <vector>

namespace nvfuser {

struct TensorDescriptor {
  // In order of decreasing stride; nullopt for size 1 and stride 0.
  TensorDomain::Contiguity contiguity;
  // stride_order[i] = rank of dimension i's stride, 0 fastest.
  std::vector<int64_t> stride_order;
};

// Layout of a tensor. Errors: lengths differ, a negative size or stride.
TensorDescriptor computeTensorDescriptor(const std::vector<int64_t>& sizes,
                                         const std::vector<int64_t>& strides);

// From a declared shape (-1 symbolic, 0 empty, 1 broadcast, > 1 static). `contiguity` is in
// allocation order; nullopt stands for a broadcast, and for an expanded one where the size is
// not 1. An empty stride order is row-major.
TensorView* defineTensor(const std::vector<int64_t>& shape,
                         const TensorDomain::Contiguity& contiguity,
                         DataType dtype = DataType::Float, bool is_cpu = false,
                         const std::vector<int64_t>& stride_order = {});
// The same flag for every dimension that is not of size 1.
TensorView* defineTensor(const std::vector<int64_t>& shape, bool contiguity = false,
                         DataType dtype = DataType::Float, bool is_cpu = false,
                         const std::vector<int64_t>& stride_order = {});
// From sizes and strides. Unless static_sizes, every size but 1 becomes symbolic.
TensorView* defineTensorFromStrides(const std::vector<int64_t>& sizes,
                                    const std::vector<int64_t>& strides,
                                    DataType dtype = DataType::Float, bool static_sizes = false,
                                    bool is_cpu = false);

} // namespace nvfuser
