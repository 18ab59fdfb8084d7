// SPDX-License-Identifier: BSD-3-Clause
// Which threads keep the columns of a normalization over outer dimensions on chip.
//
// Columns are read in whole lines by neighbouring threads (x); the rows are dealt to the threads of
// a column (y), to blocks that share it, and to a batch in each thread's registers.
#pragma once

#include <scheduler/cost.h>

#include <cstdint>
#include <string>

namespace nvfuser {

// What is to be normalized.
struct ColumnsOnChip {
  int64_t columns = 1;
  int64_t rows = 1;
  int64_t vector = 1;       // elements of a thread's accesses
  int64_t bits_kept = 32;   // for each element, across the end of a pass
  int64_t narrowest = 4;    // bytes of an element of the narrowest tensor
  double bytes_read = 4;    // for each element
  double bytes_written = 4; // for each element
  int64_t result_bytes = 4; // of the statistics of a column that are reduced together
  int64_t reductions = 1;   // that wait for each other, across blocks
};

// How they are shared out.
struct ColumnShares {
  using Scope = Tile::Scope;
  Scope scope = Scope::Block;
  int64_t threads_x = 1;
  int64_t threads_y = 1;
  int64_t blocks = 1; // that share the rows of a column
  int64_t batch = 1;  // rows of a thread
};

// The fastest way by an estimate of its time. `why` is set if there is none that is worth it: the
// columns do not fit on chip, or reading them again takes less time. Depends on the number of
// columns in steps.
ColumnShares shareColumns(const ColumnsOnChip& shape, const MachineModel& machine,
                          std::string* why);

} // namespace nvfuser
