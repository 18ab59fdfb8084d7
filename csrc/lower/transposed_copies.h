// SPDX-License-Identifier: BSD-3-Clause
// Loops over threads that transpose a part of a tensor.
#pragma once

#include <lower/context.h>

#include <array>

namespace nvfuser {

// Recognizes a loop that copies what lies next to each other along one of the threads' indices to
// where it lies so along the other. No vector loads neighbours and stores them apart; the device
// library has a function that transposes small squares in registers. `indices` and `extents`: of
// the threads along x, y and z, null where there is one.
//
//   for y < 16:                          copyTransposed(&T1[0], 16, &T0[i], n, 16, 64)
//     for x < 64:                ->
//       T1[x * 16 + y] = T0[i + y * n + x]
void findTransposedCopy(const LowerContext& ctx, ThreadLoop* loop,
                        const std::array<Val*, 3>& indices, const std::array<Val*, 3>& extents);

} // namespace nvfuser
