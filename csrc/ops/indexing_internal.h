// SPDX-License-Identifier: BSD-3-Clause
// The parts of the indexing builders that concretization shares: operands are checked and
// converted, dims are wrapped.
#pragma once

#include <ops/utils.h>

namespace nvfuser::ops_utils {

TensorView* indexSelectDim(TensorView* in, TensorView* index, int64_t dim);
// By an offset for each dimension (RollOp).
TensorView* rollDims(TensorView* in, const std::vector<int64_t>& offsets);
TensorView* selectDim(TensorView* in, Val* index, int64_t dim);
TensorView* gatherDim(TensorView* in, TensorView* index, int64_t dim, bool exact);
TensorView* scatterDim(TensorView* in, TensorView* index, Val* src, int64_t dim);
TensorView* embeddingRows(TensorView* weight, TensorView* index);

} // namespace nvfuser::ops_utils
