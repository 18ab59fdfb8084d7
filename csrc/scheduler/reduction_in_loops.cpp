// SPDX-License-Identifier: BSD-3-Clause
// See reduction_in_loops.h.
#include <scheduler/reduction_in_loops.h>

#include <base/integer_math.h>

#include <algorithm>

namespace nvfuser::reduction {

namespace {

// Of a block, so that its share is worth the combination of results and the call [hand, see
// machine.h].
constexpr double kFewestBytes = 256 << 10;

// Rounding errors grow with the number of values that are added to an accumulator one after the
// other. More than so many are shared by blocks, whose sums are combined in the end; a block has
// enough to do then.
constexpr int64_t kMostAdditions = 4096;

// Blocks that share a row or column, of which each adds the values in turn to so many accumulators.
// Where rows alone would leave cores idle there are enough for all of them.
int64_t sharingBlocks(const LoopedReduction& what, int64_t blocks, int64_t accumulators,
                      const MachineModel& machine) {
  const int64_t for_accuracy = ceilDiv(what.reduced, accumulators * kMostAdditions);
  if (machine.sms == 1 || blocks >= 2 * machine.sms) {
    return for_accuracy;
  }
  const double bytes = what.bytes * static_cast<double>(what.kept) *
                       static_cast<double>(what.reduced) / static_cast<double>(blocks);
  const auto enough = static_cast<int64_t>(bytes / kFewestBytes);
  const int64_t for_cores = std::min(ceilDiv(machine.blocksOfCores(), blocks), enough);
  return std::max({for_accuracy, for_cores, int64_t{1}});
}

} // namespace

void chooseRowsInLoops(const LoopedReduction& what, const MachineModel& machine,
                       ReductionParams& params) {
  params.fastest_dim = true;
  const int64_t accumulators = machine.lanesAtOnce();
  // Rows shorter than a vector: a thread for each, and the loop over the row around that.
  const int64_t threads =
      what.reduced < machine.lanes ? 1 : std::min(accumulators, powerOfTwoFrom(what.reduced));
  params.lparams.bindUnsafe(threads, ParallelType::TIDx);
  const int64_t rows =
      std::min(std::max<int64_t>(accumulators / threads, 1), powerOfTwoFrom(what.kept));
  int64_t blocks = what.kept;
  if (rows > 1) {
    params.lparams.bindUnsafe(rows, ParallelType::TIDy);
    blocks = ceilDiv(what.kept, rows);
  }
  const int64_t sharing = what.is_normalization ? 1 : sharingBlocks(what, blocks, threads, machine);
  if (sharing > 1) {
    params.cross_grid_inner_reduction = true;
    params.lparams.bindUnsafe(sharing, ParallelType::BIDy);
  }
}

std::string chooseColumnsInLoops(const LoopedReduction& what, const MachineModel& machine,
                                 ReductionParams& params) {
  // As many columns as an access to memory is worth (a page), fewer where the rows are to stay in
  // the cache.
  constexpr int64_t kRunBytes = 4096;
  const auto bytes = static_cast<int64_t>(std::max(what.bytes, 1.0));
  int64_t threads = powerOfTwoUpTo(std::max<int64_t>(kRunBytes / bytes, machine.lanesAtOnce()));
  threads = std::min({threads, powerOfTwoFrom(what.kept), machine.max_threads_per_block});
  if (what.is_normalization) {
    const int64_t room = machine.keptInCore() / bytes / what.reduced;
    if (room < machine.lanesAtOnce() && room < what.kept) {
      return "columns of " + std::to_string(what.reduced) + " rows do not stay in the cache";
    }
    threads = std::min(threads, powerOfTwoUpTo(room));
  }
  params.lparams.bindUnsafe(threads, ParallelType::TIDx);
  const int64_t blocks = ceilDiv(what.kept, threads);
  const int64_t sharing = what.is_normalization ? 1 : sharingBlocks(what, blocks, 1, machine);
  if (sharing > 1) {
    params.cross_grid_outer_reduction = true;
    params.lparams.bindUnsafe(sharing, ParallelType::BIDy);
  }
  return {};
}

} // namespace nvfuser::reduction
