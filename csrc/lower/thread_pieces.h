// SPDX-License-Identifier: BSD-3-Clause
// Loops over threads without divisions by element.
#pragma once

#include <lower/context.h>

namespace nvfuser {

// Cuts the loop over the threads along x (`index` below `extent`) where a quotient or a comparison
// in its body's indices and conditions changes. In each piece these are the same, and remainders go
// up by one:
//
//   for x < n:                            for x0 < n:
//     T1[x] = T0[x / k, x % k]              end = min(n, x0 + k - x0 % k)
//                                 ->        for x0 <= x < end:
//                                             T1[x] = T0[x0 / k, x0 % k + (x - x0)]
//                                           x0 = end
void cutIntoPieces(const LowerContext& ctx, ThreadLoop* loop, Val* index, Val* extent);

} // namespace nvfuser
