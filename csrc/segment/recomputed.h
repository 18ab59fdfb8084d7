// SPDX-License-Identifier: BSD-3-Clause
// What a kernel computes again rather than to read it, as it reads what that is made of anyway.
// What is cheaper in every segment whatever it reads is known before the cut (repeated.h).
#pragma once

#include <segment/segment.h>

#include <vector>

namespace nvfuser {

// Tensors that one kernel writes for others are computed by those where that takes a few operations
// on tensors in memory, and no more is read for it than is no longer written and read. Their
// expressions are `repeated` from then on. A segment of which nothing is left goes.
void recomputeWhatIsCheap(std::vector<Segment>& segments, WholeFusion& whole,
                          const SegmentJudge& judge);

} // namespace nvfuser
