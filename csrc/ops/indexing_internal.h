// SPDX-License-Identifier: BSD-3-Clause
// The parts of the indexing builders that concretization shares: operands are checked and
// converted, dims are wrapped.
#pragma once

#include <ops/utils.h>

namespace nvfuser::ops_utils {

TensorView* indexSelectDim(TensorView* in, TensorView* index, int64_t dim);
// See RollOp. Dimensions of a view that are made of several have known sizes.
TensorView* rollDims(TensorView* in, const std::vector<int64_t>& offsets,
                     const std::vector<int64_t>& view_dims);
TensorView* selectDim(TensorView* in, Val* index, int64_t dim);
TensorView* gatherDim(TensorView* in, TensorView* index, int64_t dim, bool exact);
TensorView* scatterDim(TensorView* in, TensorView* index, Val* src, int64_t dim);
TensorView* embeddingRows(TensorView* weight, TensorView* index);

} // namespace nvfuser::ops_utils
