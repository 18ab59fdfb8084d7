// SPDX-License-Identifier: BSD-3-Clause
// Segments in an order in which they can be launched, and what stays of it when two are joined.
#pragma once

#include <segment/segment.h>

#include <vector>

namespace nvfuser {

// For the segments from `first` to `last`: which of them need results of `first`, directly or not.
std::vector<bool> needResultsOf(const std::vector<Segment>& segments, size_t first, size_t last);

// The segments between both that need results of the first and make what the second needs, directly
// or not: without them the two cannot be one kernel.
std::vector<size_t> enclosedBy(const std::vector<Segment>& segments, size_t first, size_t second);

// Puts one segment in the place of two. `after`, as needResultsOf says: what needs the first's
// results goes behind it, all else that was between the two before it. Where it is then.
size_t placeJoined(std::vector<Segment>& segments, Segment joined, size_t first, size_t second,
                   const std::vector<bool>& after);

// A pointwise kernel goes behind its neighbour if they do not need each other, read the same
// tensors and the neighbour writes less: what the pointwise one writes takes the place of these
// tensors in L2. It begins with what was read last (executor/kernel_orders.h).
void readBeforeWriting(std::vector<Segment>& segments);

} // namespace nvfuser
