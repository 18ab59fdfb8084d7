// How the rows of a backward normalization are shared out, where each row is reduced and columns
// are summed over the rows: what registers have room for decides, and where there is a choice the
// estimate of cost.h.
#pragma once

#include <machine.h>

#include <algorithm>
#include <cstdint>

namespace nvfuser {

// Who walks over the rows. A walker is a row of threads in each block of a cluster.
struct RowWalk {
  // 0 or less: columns take a kernel of their own, since a row is too long for a walker, or there
  // are so few that most of the device would be idle.
  static constexpr int64_t kFewRows = -1;
  // Of a cluster whose size the launch chooses: stores to the shared memory of other blocks are
  // illegal instructions in a launch without clusters, and with one block each it is one (H200).
  static constexpr int64_t kFewestBlocks = 2;
  int64_t walkers = 0;
  int64_t walkers_per_block = 1;
  int64_t threads = 1; // of a walker in one block
  int64_t cluster = 1; // blocks that share a row
  // Of a walker, the one in use included: of 2 the next is in registers, more are in shared memory.
  int64_t rows_under_way = 2;
  // The next row is reduced while the blocks of the cluster combine what they have of this one:
  // rows are read twice from shared memory.
  bool reduces_ahead = false;
};

// What is walked over. `sums`, `row_bytes`, `reduced_once`: as in RowsAndColumns
// (preseg_passes/column_reductions.h).
struct WalkedRows {
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t sums = 1;
  int64_t row_bytes = 1;
  bool reduced_once = true;
};
// How one kernel walks over rows of any length: a thread always has room for as many elements, and
// each launch has the threads, walkers of a block and blocks of a cluster that a row needs.
struct AnyRowWalk {
  int64_t elements = 0;          // 0: there is none for such rows
  int64_t threads = 0;           // at most, of a walker in a block
  int64_t walkers_per_block = 1; // at most
  int64_t cluster = 1;           // blocks at most, a power of two
  int64_t rows_under_way = 2;
  bool reduces_ahead = false;
  // Of all rows that a block has at a time, at most.
  int64_t threadsOfBlock() const {
    return std::max(threads, walkers_per_block * kWarp); // a row has a warp at least
  }
};
// The same for all rows that are multiples of the same vectors, but for those that take several
// blocks.
AnyRowWalk chooseAnyRowWalk(const WalkedRows& walked, const MachineModel& machine);
// The walkers of such a kernel; 0 or less as in RowWalk.
int64_t walkersOf(const AnyRowWalk& walk, const WalkedRows& walked, const MachineModel& machine);

// Depends on the number of rows in steps of powers of two, and only as long as there are few.
RowWalk chooseRowWalk(const WalkedRows& walked, const MachineModel& machine);

} // namespace nvfuser
