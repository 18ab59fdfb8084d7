// Backward normalizations reduce rows (for dx) and columns (for dw, db) of the same tensors. One
// kernel can do both if blocks walk over many rows and keep their own sums of the columns: a column
// reduction is then made in two steps, first over the rows of each walker, then over the walkers.
#pragma once

#include <fusion.h>

#include <optional>
#include <vector>

namespace nvfuser {

// A reduction over the rows of each of several walkers: its root is [rows..., columns...], its
// logical domain [walkers, columns..., rows of a walker].
bool isPartialReduction(const TensorView* tv);

// Extents of what is reduced both by rows and by columns.
struct RowsAndColumns {
  std::vector<Val*> rows;
  std::vector<Val*> columns;
  int64_t sums = 0;         // of columns
  int64_t row_bytes = 0;    // of an element of all the inputs that have both rows and columns
  bool reduced_once = true; // see reducesRowsOnce
};
// Nullopt if the fusion has no column reduction next to a row reduction over the same dimensions.
std::optional<RowsAndColumns> findRowsAndColumns(Fusion* fusion);
// Whether no reduction of rows depends on another one, and none has several results. The planner
// asks it of a fusion, the scheduler of the part that it gets: both choose the same walk.
bool reducesRowsOnce(Fusion* fusion);

// Rewrites the column reductions of a fusion that also has row reductions over the same tensors.
// False if there are none.
bool splitColumnReductions(Fusion* fusion, int64_t walkers);
// The same for a number of walkers that differs from call to call. What stands for it; null if
// there are no such reductions.
Val* splitColumnReductions(Fusion* fusion);

// For columns that have kernels of their own: what they sum is computed again from the inputs where
// that takes a few operations, so that no tensor of rows and columns passes between the kernels.
void repeatForColumns(Fusion* fusion);

} // namespace nvfuser
