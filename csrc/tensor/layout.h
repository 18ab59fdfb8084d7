// SPDX-License-Identifier: BSD-3-Clause
// Sizes and strides of the tensors that TensorViews stand for: which strides the allocation domain
// has, and how an output is laid out.
#pragma once

#include <fusion.h>
#include <ir/evaluator.h>
#include <ir/nodes.h>
#include <ir/tensor_view.h>
#include <tensor/tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace nvfuser {

// Sizes and strides of a tensor by logical (non-reduction) dimension, in elements of the
// TensorView's dtype.
struct TensorLayout {
  Shape sizes;
  Shape strides;

  int64_t numel() const;
  int64_t storageElements() const {
    return nvfuser::storageElements(sizes, strides);
  }
};

// The allocation's strides of a tensor with this layout, one for each non-reduction allocation
// domain; dimensions of size 1 get the stride that a contiguous tensor would have there, whatever
// the argument says. Error: the tensor cannot be seen as its allocation domain.
Shape allocationStrides(const TensorView* tv, const TensorLayout& layout,
                        ScalarEvaluator& evaluator);

// A dense layout in the order of the allocation domain; expanded dimensions get stride 0.
TensorLayout denseLayout(const TensorView* tv, ScalarEvaluator& evaluator);

// The layout of a library's result that holds swizzled block scales (LibraryOp::isSwizzled), and
// how many elements its storage has: rows and columns are padded. None for other tensors.
struct SwizzledLayout {
  TensorLayout layout;
  int64_t storage_elements;
};
std::optional<SwizzledLayout> swizzledLayout(const TensorView* tv, ScalarEvaluator& evaluator);

// Sizes of the logical domain. Error: one is negative, or larger than any memory.
Shape logicalSizes(const TensorView* tv, ScalarEvaluator& evaluator);

// Tensors whose sizes are checked before anything is planned: those with an extent that a slice or
// pad computes, which may turn out to be negative, and those that are made of sizes alone.
std::vector<const TensorView*> tensorsOfComputedSize(const Fusion& fusion);

// The allocation order and contiguity of `out`, which will be written into the storage of `input`,
// become the input's.
void adoptLayout(TensorView* out, const TensorView* input);

} // namespace nvfuser
