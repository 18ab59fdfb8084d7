// SPDX-License-Identifier: BSD-3-Clause
// Parameters of reductions on a machine whose one thread runs a block's threads in loops
// (MachineModel::threads_in_loops): the threads along x are what vector instructions work on.
#pragma once

#include <machine.h>
#include <scheduler/reduction_params.h>

#include <string>

namespace nvfuser::reduction {

// What is reduced, and bytes that are read for each element of it.
struct LoopedReduction {
  int64_t kept = 1;
  int64_t reduced = 1;
  double bytes = 4;
  // Something runs over the reduced dimensions after the reduction: inputs are read again.
  bool is_normalization = false;
};

// Rows are walked by one thread, with as many accumulators as there are threads in the block.
void chooseRowsInLoops(const LoopedReduction& what, const MachineModel& machine,
                       ReductionParams& params);
// Columns lie next to each other: one thread has several, and walks over the rows. Why there are no
// parameters: what is read again would not be in the cache any more.
std::string chooseColumnsInLoops(const LoopedReduction& what, const MachineModel& machine,
                                 ReductionParams& params);

} // namespace nvfuser::reduction
