// SPDX-License-Identifier: BSD-3-Clause
// Pass, for blocks whose threads run in loops: results that go past the caches, and rows that come
// into them ahead.
//
//   for x < 64:                       for x < 64:
//     T1[i + x] = exp(T0[i + x])  ->    S[x] = exp(T0[i + x])
//                                     streamOut(&T1[i], S, 64)
//
// A core reads a line of memory into its caches to write an element of it, but not if it writes
// whole lines with instructions for that, which no compiler chooses for a loop. So the elements of
// one loop over threads are put together on the stack. What the kernel reads again, or writes
// element by element, is written as ever.
//
// Where a row is read a second time it is in the caches, and memory has nothing to do. The row of
// the next block is asked for there.
#pragma once

#include <lower/context.h>

namespace nvfuser {

// Sets ThreadLoop::streamed and fetched_ahead if the schedule streams its outputs
// (Fusion::streamsOutputs).
void findStreamedStores(const LowerContext& ctx, const Statements& nest);

} // namespace nvfuser
