// SPDX-License-Identifier: BSD-3-Clause
// TensorViewBuilder, the make*Tensor functions and defineTensor.
#include <ir/tensor_builder.h>

#include <base/error.h>
#include <ir/builder.h>

#include <algorithm>

namespace nvfuser {

namespace {

void checkShapeEntry(int64_t value, size_t index) {
  NVF_CHECK(value >= -1, "The value ", value, " at index ", index,
            " was neither symbolic(-1), zero_element(0), broadcast(1), or static(>1).");
}

// Position in memory of each dimension: result[p] is the dimension that stands at p, slowest first.
// Errors: not a permutation.
std::vector<size_t> allocationPermutation(const std::vector<int64_t>& stride_order, size_t rank) {
  NVF_CHECK(stride_order.size() == rank,
            "define_tensor: stride_order argument must have one entry per dimension (", rank,
            "), but has ", stride_order.size(), ".");
  const auto n = static_cast<int64_t>(rank);
  std::vector<size_t> permutation(rank);
  std::vector<bool> seen(rank, false);
  for (size_t d = 0; d < rank; ++d) {
    const int64_t order = stride_order[d] < 0 ? stride_order[d] + n : stride_order[d];
    NVF_CHECK(order >= 0 && order < n,
              "define_tensor: stride_order argument is out of range: entry ", stride_order[d],
              " for rank ", n, ".");
    const auto position = static_cast<size_t>(n - 1 - order);
    NVF_CHECK(!seen[position], "define_tensor: duplicated stride_order entries: ", stride_order[d],
              ".");
    seen[position] = true;
    permutation[position] = d;
  }
  return permutation;
}

} // namespace

// ---- TensorViewBuilder

TensorViewBuilder& TensorViewBuilder::shape(const std::vector<int64_t>& shape) {
  std::vector<Val*> extents;
  for (size_t i = 0; i < shape.size(); ++i) {
    checkShapeEntry(shape[i], i);
    extents.push_back(shape[i] == -1 ? IrBuilder::create<Val>(DataType::Index)
                                     : IrBuilder::index(shape[i]));
  }
  return this->shape(std::move(extents));
}

TensorViewBuilder& TensorViewBuilder::shape(std::vector<Val*> shape) {
  NVF_CHECK(!ndims_ || *ndims_ == static_cast<int64_t>(shape.size()), "The shape has ",
            shape.size(), " entries, but ndims is ", ndims_.value_or(0), ".");
  ndims_ = static_cast<int64_t>(shape.size());
  shape_ = std::move(shape);
  return *this;
}

TensorViewBuilder& TensorViewBuilder::ndims(int64_t n) {
  NVF_CHECK(n >= 0, "A tensor can't have ", n, " dimensions.");
  NVF_CHECK(shape_.empty() || n == static_cast<int64_t>(shape_.size()), "ndims is ", n,
            ", but the shape has ", shape_.size(), " entries.");
  ndims_ = n;
  return *this;
}

TensorViewBuilder& TensorViewBuilder::dtype(DataType dtype) {
  dtype_ = dtype;
  return *this;
}

TensorViewBuilder& TensorViewBuilder::contiguity(bool contiguous) {
  uniform_contiguity_ = contiguous;
  return *this;
}

TensorViewBuilder& TensorViewBuilder::contiguity(TensorDomain::Contiguity contiguity) {
  contiguity_ = std::move(contiguity);
  return *this;
}

TensorViewBuilder& TensorViewBuilder::strideOrder(std::vector<int64_t> order) {
  stride_order_ = std::move(order);
  return *this;
}

TensorViewBuilder& TensorViewBuilder::expanded(std::vector<bool> expanded) {
  expanded_ = std::move(expanded);
  return *this;
}

TensorView* TensorViewBuilder::build() const {
  const auto rank = static_cast<size_t>(ndims_.value_or(0));
  NVF_CHECK(expanded_.empty() || expanded_.size() == rank,
            "The expanded argument must have one entry per dimension (", rank, "), but has ",
            expanded_.size(), ".");
  std::vector<Val*> extents = shape_;
  while (extents.size() < rank) {
    extents.push_back(IrBuilder::create<Val>(DataType::Index));
  }
  TensorDomain::Ids logical;
  for (size_t d = 0; d < rank; ++d) {
    const bool is_expanded = !expanded_.empty() && expanded_[d];
    if (is_expanded || extents[d]->isOneInt()) {
      Val* one = IrBuilder::activeContainer()->oneVal();
      IterDomainBuilder broadcast(one);
      broadcast.iterType(IterType::Broadcast);
      if (is_expanded && !extents[d]->isOneInt()) {
        broadcast.expandedExtent(extents[d]);
      }
      logical.push_back(broadcast.build());
    } else {
      logical.push_back(IterDomainBuilder(extents[d]).build());
    }
  }
  TensorDomain::Ids allocation = logical;
  if (!stride_order_.empty()) {
    const std::vector<size_t> permutation = allocationPermutation(stride_order_, rank);
    std::transform(permutation.begin(), permutation.end(), allocation.begin(),
                   [&](size_t d) { return logical[d]; });
  }
  TensorDomain::Contiguity contiguity =
      TensorDomain::contiguityFilledWith(allocation, uniform_contiguity_.value_or(false));
  if (contiguity_) {
    NVF_CHECK(contiguity_->size() == rank,
              "The contiguity argument must have one entry per dimension (", rank, "), but has ",
              contiguity_->size(), ".");
    for (size_t p = 0; p < rank; ++p) {
      // A flag on a broadcast says nothing: its stride is never used.
      NVF_CHECK(allocation[p]->isBroadcast() || (*contiguity_)[p].has_value(),
                "The contiguity of a broadcast dimension is None, and that of any other is True or "
                "False.");
      if (!allocation[p]->isBroadcast()) {
        contiguity[p] = (*contiguity_)[p];
      }
    }
  }
  auto* domain = IrBuilder::create<TensorDomain>(logical, TensorDomain::Contiguity{});
  if (stride_order_.empty()) {
    domain->setContiguity(std::move(contiguity));
  } else {
    domain->setAllocationDomain(std::move(allocation), std::move(contiguity));
  }
  return IrBuilder::create<TensorView>(domain, dtype_);
}

// ---- make*Tensor

TensorView* makeContigTensor(int64_t ndims, DataType dtype) {
  return TensorViewBuilder().ndims(ndims).dtype(dtype).contiguity(true).build();
}

TensorView* makeSymbolicTensor(int64_t ndims, DataType dtype) {
  return TensorViewBuilder().ndims(ndims).dtype(dtype).contiguity(false).build();
}

TensorView* makeContigConcreteTensor(const std::vector<int64_t>& shape, DataType dtype) {
  return TensorViewBuilder().shape(shape).dtype(dtype).contiguity(true).build();
}

TensorView* makeConcreteTensor(const std::vector<int64_t>& shape, DataType dtype) {
  return TensorViewBuilder().shape(shape).dtype(dtype).contiguity(false).build();
}

// ---- define_tensor

TensorDescriptor computeTensorDescriptor(const std::vector<int64_t>& sizes,
                                         const std::vector<int64_t>& strides) {
  NVF_CHECK(sizes.size() == strides.size(), "compute_tensor_descriptor: there are ", sizes.size(),
            " sizes but ", strides.size(), " strides.");
  const size_t rank = sizes.size();
  std::vector<size_t> order;
  for (size_t d = 0; d < rank; ++d) {
    NVF_CHECK(sizes[d] >= 0, "compute_tensor_descriptor: the size ", sizes[d], " at index ", d,
              " is negative.");
    NVF_CHECK(strides[d] >= 0, "compute_tensor_descriptor: the stride ", strides[d], " at index ",
              d, " is negative.");
    if (strides[d] != 0) {
      order.push_back(d);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  // A stride of 0 says nothing about where the dimension stands: it keeps its own place.
  for (size_t d = 0; d < rank; ++d) {
    if (strides[d] == 0) {
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(d), d);
    }
  }
  TensorDescriptor descriptor;
  descriptor.contiguity.resize(rank);
  descriptor.stride_order.resize(rank);
  int64_t next_span = 1; // elements that the next inner dimension spans
  for (size_t p = rank; p-- > 0;) {
    const size_t d = order[p];
    descriptor.stride_order[d] = static_cast<int64_t>(rank - 1 - p);
    if (sizes[d] == 0) {
      // Expanded or not, there is no element that could be read once for all.
      descriptor.contiguity[p] = false;
      continue;
    }
    if (sizes[d] == 1 || strides[d] == 0) {
      continue;
    }
    descriptor.contiguity[p] = strides[d] == next_span;
    next_span = strides[d] * sizes[d];
  }
  return descriptor;
}

namespace {

// A byte of two fp4 values is defined as the two values: the fastest dimension doubles.
void unpackFp4(std::vector<int64_t>& shape, const std::vector<int64_t>& stride_order,
               DataType& dtype) {
  if (dtype != DataType::Float4_e2m1fn_x2) {
    return;
  }
  NVF_CHECK(!shape.empty(), "define_tensor: a packed fp4 tensor needs at least one dimension.");
  dtype = DataType::Float4_e2m1fn;
  auto fastest = std::find(stride_order.begin(), stride_order.end(), 0);
  const auto d = fastest == stride_order.end()
                     ? shape.size() - 1
                     : static_cast<size_t>(fastest - stride_order.begin());
  if (shape[d] > 0) {
    shape[d] *= 2;
  }
}

// [n-1, ..., 0] is the order without any statement, and so is none.
bool isRowMajor(const std::vector<int64_t>& stride_order, size_t rank) {
  if (!stride_order.empty() && stride_order.size() != rank) {
    return false;
  }
  for (size_t d = 0; d < stride_order.size(); ++d) {
    if (stride_order[d] != static_cast<int64_t>(stride_order.size() - 1 - d)) {
      return false;
    }
  }
  return true;
}

// Only of a 0-d tensor it says something: that one may be on the CPU next to CUDA tensors. All
// others of a call are on one device, the CPU or a GPU.
TensorView* withCpuFlag(TensorView* tv, bool is_cpu) {
  tv->setCpuScalar(is_cpu && tv->getLogicalDomain().empty());
  return tv;
}

void checkShape(const std::vector<int64_t>& shape) {
  for (size_t i = 0; i < shape.size(); ++i) {
    checkShapeEntry(shape[i], i);
  }
}

} // namespace

TensorView* defineTensor(const std::vector<int64_t>& shape,
                         const TensorDomain::Contiguity& contiguity, DataType dtype, bool is_cpu,
                         const std::vector<int64_t>& stride_order) {
  checkShape(shape);
  NVF_CHECK(contiguity.size() == shape.size(), "define_tensor: Length of contiguity argument (",
            contiguity.size(), ") must match that of shape argument (", shape.size(), ")");
  std::vector<bool> expanded(shape.size(), false);
  const std::vector<size_t> permutation = stride_order.empty()
                                              ? std::vector<size_t>{}
                                              : allocationPermutation(stride_order, shape.size());
  for (size_t p = 0; p < shape.size(); ++p) {
    const size_t d = permutation.empty() ? p : permutation[p];
    expanded[d] = !contiguity[p].has_value() && shape[d] != 1;
  }
  std::vector<int64_t> sizes = shape;
  unpackFp4(sizes, stride_order, dtype);
  TensorDomain::Contiguity flags = contiguity;
  for (size_t p = 0; p < shape.size(); ++p) {
    const size_t d = permutation.empty() ? p : permutation[p];
    // A single byte of fp4 became two values next to each other.
    if (!flags[p].has_value() && !expanded[d] && sizes[d] != 1) {
      flags[p] = true;
    }
  }
  TensorViewBuilder builder;
  builder.shape(sizes).dtype(dtype).contiguity(std::move(flags)).expanded(expanded);
  if (!isRowMajor(stride_order, shape.size())) {
    builder.strideOrder(stride_order);
  }
  return withCpuFlag(builder.build(), is_cpu);
}

TensorView* defineTensor(const std::vector<int64_t>& shape, bool contiguity, DataType dtype,
                         bool is_cpu, const std::vector<int64_t>& stride_order) {
  checkShape(shape);
  std::vector<int64_t> sizes = shape;
  unpackFp4(sizes, stride_order, dtype);
  TensorViewBuilder builder;
  builder.shape(sizes).dtype(dtype).contiguity(contiguity);
  if (!isRowMajor(stride_order, shape.size())) {
    builder.strideOrder(stride_order);
  }
  return withCpuFlag(builder.build(), is_cpu);
}

TensorView* defineTensorFromStrides(const std::vector<int64_t>& sizes,
                                    const std::vector<int64_t>& strides, DataType dtype,
                                    bool static_sizes, bool is_cpu) {
  NVF_CHECK(sizes.size() == strides.size(), "define_tensor: there are ", sizes.size(),
            " sizes but ", strides.size(), " strides.");
  const TensorDescriptor descriptor = computeTensorDescriptor(sizes, strides);
  std::vector<int64_t> shape = sizes;
  if (!static_sizes) {
    std::replace_if(shape.begin(), shape.end(), [](int64_t s) { return s != 1; }, -1);
  }
  return defineTensor(shape, descriptor.contiguity, dtype, is_cpu, descriptor.stride_order);
}

} // namespace nvfuser
