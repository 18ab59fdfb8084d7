// SPDX-License-Identifier: BSD-3-Clause
// An order of segments in which little memory is in use at a time: what frees most and makes least
// comes first, and what only adds comes as late as it can. What a library takes for itself while it
// runs counts.
#pragma once

#include <segment/segment.h>

#include <vector>

namespace nvfuser {

// Changes the order of segments, which is one in which they can be launched, to another one if that
// needs notably less memory. What draws random numbers of a library stays in its order. Nothing is
// changed where tensors are written in place, as then it matters when others are read.
void orderForMemory(std::vector<Segment>& segments);

// Bytes of all tensors that segments make, where they are the most, in the order given.
double peakBytes(const std::vector<Segment>& segments);

} // namespace nvfuser
