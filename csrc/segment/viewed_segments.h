// SPDX-License-Identifier: BSD-3-Clause
// Segments that only name the dimensions of a tensor anew, which another segment wrote.
#pragma once

#include <segment/segment.h>

#include <unordered_set>

namespace nvfuser {

// Such a segment takes no kernel: its result is the memory of what it reads, a MemoryViewOp of the
// fusion, and the segment goes. `kept` are tensors whose memory has gaps.
void viewInsteadOfCopies(Fusion* fusion, SegmentedFusion& segmented,
                         const std::unordered_set<const Val*>& kept);

} // namespace nvfuser
