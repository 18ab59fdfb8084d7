// SPDX-License-Identifier: BSD-3-Clause
// Writes to the storage of inputs, and the cut: a segment that reads an input must not come after
// the one that overwrites it.
#pragma once

#include <fusion.h>
#include <preseg_passes/in_place_write.h>
#include <segment/segment.h>

#include <unordered_set>
#include <vector>

namespace nvfuser {

// The expressions that must come after all others.
std::unordered_set<const Expr*> finalCopies(const std::vector<InPlaceWrite>& writes);

// Whether the cut respects the direct writes; one that it does not is turned into a copy (the
// fusion must then be cut anew).
bool segmentsRespectWrites(Fusion* fusion, const SegmentedFusion& segmented,
                           std::vector<InPlaceWrite>& writes);

} // namespace nvfuser
