// Backward normalizations reduce rows (for dx) and columns (for dw, db) of the same tensors. One
// kernel can do both if blocks walk over many rows and keep their own sums of the columns: a column
// reduction is then made in two steps, first over the rows of each walker, then over the walkers.
#pragma once

#include <fusion.h>
#include <runtime/device.h>

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
  int64_t sums = 0;      // of columns
  int64_t row_bytes = 0; // of an element of all the inputs that have both rows and columns
};
// Nullopt if the fusion has no column reduction next to a row reduction over the same dimensions.
std::optional<RowsAndColumns> findRowsAndColumns(Fusion* fusion);

// Who walks over the rows. A walker is a row of threads in each block of a cluster.
struct RowWalk {
  int64_t walkers = 0; // 0: a row is too long for one, its columns take a kernel of their own
  int64_t walkers_per_block = 1;
  int64_t threads = 1; // of a walker in one block
  int64_t cluster = 1; // blocks that share a row
  // Of a walker, the one in use included: of 2 the next is in registers, more are in shared memory.
  int64_t rows_under_way = 2;
};
// Depends on the number of rows in steps of powers of two, and only as long as there are few.
// `sums`, `row_bytes`: as in RowsAndColumns.
RowWalk chooseRowWalk(int64_t rows, int64_t columns, int64_t sums, int64_t row_bytes,
                      const DeviceInfo& device);

// Rewrites the column reductions of a fusion that also has row reductions over the same tensors.
// False if there are none.
bool splitColumnReductions(Fusion* fusion, int64_t walkers);

// For columns that have kernels of their own: what they sum is computed again from the inputs where
// that takes a few operations, so that no tensor of rows and columns passes between the kernels.
void repeatForColumns(Fusion* fusion);

} // namespace nvfuser
