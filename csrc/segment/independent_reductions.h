// SPDX-License-Identifier: BSD-3-Clause
// Segments that reduce the same dimensions of different tensors, such as the last sums of a
// backward normalization, share a kernel although nothing connects them: what each of them reads is
// often little against the launch of a kernel.
#pragma once

#include <segment/segment.h>

#include <vector>

namespace nvfuser {

// Joins those of the segments that do not depend on each other and that the judge accepts as one
// reduction. The segments stay in an order in which they can be launched.
void joinIndependentReductions(std::vector<Segment>& segments, const WholeFusion& whole,
                               const SegmentJudge& judge);

} // namespace nvfuser
