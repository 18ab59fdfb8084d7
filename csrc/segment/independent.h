// SPDX-License-Identifier: BSD-3-Clause
// Segments that have loops of the same sizes share a kernel although nothing connects them, such as
// the last sums of a backward normalization, the steps of an optimizer, or the weights of layers
// that are each normalized: what each of them reads is often little against the launch of a kernel.
#pragma once

#include <segment/segment.h>

#include <vector>

namespace nvfuser {

// Joins those of the segments that do not depend on each other and that the judge accepts as one of
// the same scheduler, unless that raises the peak of memory notably. The segments stay in an order
// in which they can be launched.
void joinIndependent(std::vector<Segment>& segments, const WholeFusion& whole,
                     const SegmentJudge& judge);

} // namespace nvfuser
