// Backward normalizations reduce rows (for dx) and columns (for dw, db) of the same tensors. One
// kernel can do both if every block walks over many rows and keeps its own sums of the columns: a
// column reduction is then made in two steps, first over the rows of each block, then over the
// blocks.
#pragma once

#include <fusion.h>

namespace nvfuser {

// A reduction over the rows of each of several blocks: its root is [rows..., columns...], its
// logical domain [blocks, columns..., rows of a block].
bool isPartialReduction(const TensorView* tv);

// Rewrites the column reductions of a fusion that also has row reductions over the same tensors.
// `blocks` is the number of partial results. False if there are none.
bool splitColumnReductions(Fusion* fusion, int64_t blocks);

} // namespace nvfuser
