// SPDX-License-Identifier: BSD-3-Clause
// What segments read and write, as far as that is known before they have sizes.
#pragma once

#include <segment/segment.h>

#include <vector>

namespace nvfuser {

// A choice of fewer bytes that costs something else must be of so many of them at most.
inline constexpr double kNotably = 0.99;

// Of a dimension. One whose size is not known counts more than any type.
double extentOf(const IterDomain* id);
double elementsOf(const Val* tensor);
// Bytes.
double sizeOf(const Val* tensor);

double bytesOf(const std::vector<Val*>& vals);

// Of all that a segment reads and writes.
double traffic(const Segment& segment);

// Those before a segment that share tensors with it, those with the largest first: at most `most`,
// so that planning stays linear.
std::vector<size_t> relatedBefore(const std::vector<Segment>& segments, size_t i, size_t most);

} // namespace nvfuser
