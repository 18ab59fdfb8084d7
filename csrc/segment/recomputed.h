// SPDX-License-Identifier: BSD-3-Clause
// What a kernel computes again rather than to read it, as it reads what that is made of anyway, or
// as that is in memory anyway (inputs and results) and little: the losses of rows are looked up
// again in the logits by the kernel that adds them up. What is cheaper in every segment whatever it
// reads is known before the cut (repeated.h).
#pragma once

#include <segment/segment.h>

#include <vector>

namespace nvfuser {

// Tensors that one kernel writes for others are computed by those where that takes a few operations
// on tensors in memory, and hardly more is read for it than is no longer written and read; a lookup
// reads a sector for each element. What is computed with has the digits that it was made with: a
// result that was rounded stands for itself alone. Their expressions are `repeated` from then on. A
// segment of which nothing is left goes.
void recomputeWhatIsCheap(std::vector<Segment>& segments, WholeFusion& whole,
                          const SegmentJudge& judge);

// A tensor that a library reads is written; kernels after that compute it again of inputs and
// results for no more bytes if notably less memory is in use at a time then.
void recomputeForMemory(std::vector<Segment>& segments, WholeFusion& whole,
                        const SegmentJudge& judge);

} // namespace nvfuser
