// SPDX-License-Identifier: BSD-3-Clause
// How the rows of a backward normalization are shared out, where each row is reduced and columns
// are summed over the rows: what registers have room for decides, and where there is a choice the
// estimate of cost.h.
#pragma once

#include <machine.h>

#include <algorithm>
#include <cstdint>

namespace nvfuser {

// Persistent row groups, which take one row after the other, or several at once. A group is a
// block, or all blocks of a cluster; each row of its threads has a row.
struct RowGroups {
  // 0 or less: columns take a kernel of their own, since a row is too long for a group, or there
  // are so few that most of the device would be idle.
  static constexpr int64_t kFewRows = -1;
  // Of a cluster whose size the launch chooses: stores to the shared memory of other blocks are
  // illegal instructions in a launch without clusters, and with one block each it is one (H200).
  static constexpr int64_t kFewestBlocks = 2;
  // Iterations that a group makes at least, as rows are not shared out evenly otherwise [hand].
  static constexpr int64_t kFewestRows = 4;
  // In shared memory: the one in use, one that is reduced or copied meanwhile, and one or two on
  // their way.
  static constexpr int64_t kFewestSharedRows = 3;
  int64_t count = 0;
  int64_t rows_of_block = 1; // at once
  int64_t threads = 1;       // of a row in one block
  int64_t cluster = 1;       // blocks that share a row
  // One after the other, the one in use included: of 2 the next is in registers, more are in shared
  // memory.
  int64_t rows_under_way = 2;
  // The next row is reduced while the blocks of the cluster combine what they have of this one:
  // rows are read twice from shared memory.
  bool prefetches_reduction = false;
};

// The rows that they share. `sums`, `row_bytes`, `reduced_once`: as in RowsAndColumns
// (preseg_passes/column_reductions.h).
struct GroupedRows {
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t sums = 1;
  int64_t row_bytes = 1;
  bool reduced_once = true;
};
// The row groups of one kernel for rows of any length: a thread always has room for as many
// elements, and each launch has the threads, rows of a block and blocks of a cluster that a row
// needs.
struct AnyRowGroups {
  int64_t elements = 0;      // 0: there is none for such rows
  int64_t threads = 0;       // at most, of a row in a block
  int64_t rows_of_block = 1; // at most
  int64_t cluster = 1;       // blocks at most, a power of two
  int64_t rows_under_way = 2;
  bool prefetches_reduction = false;
  // Of all rows that a block has at a time, at most.
  int64_t threadsOfBlock() const {
    return std::max(threads, rows_of_block * kWarp); // a row has a warp at least
  }
};
// The same for all rows that are multiples of the same vectors, but for those that take several
// blocks.
AnyRowGroups chooseAnyRowGroups(const GroupedRows& grouped, const MachineModel& machine);
// The groups of such a kernel; 0 or less as in RowGroups.
int64_t rowGroupsOf(const AnyRowGroups& groups, const GroupedRows& grouped,
                    const MachineModel& machine);

// Whether one of so many threads of a block, on an SM of its own, has registers for so many
// elements of a row and for the sums of their columns.
bool fitsRegisters(const GroupedRows& grouped, int64_t elements, int64_t threads,
                   const MachineModel& machine);

// Depends on the number of rows in steps of powers of two, and only as long as there are few.
RowGroups chooseRowGroups(const GroupedRows& grouped, const MachineModel& machine);

} // namespace nvfuser
