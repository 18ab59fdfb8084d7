// SPDX-License-Identifier: BSD-3-Clause
// The largest elements of short rows as reductions: see the .cpp.
#pragma once

#include <fusion.h>

#include <cstdint>
#include <vector>

namespace nvfuser {

// Those of a fusion, in its order, that can be computed by reductions: they are sorted, k is a
// small constant, a position and an element fit into a word of 64 bits, and the rows are no
// reshape's.
std::vector<LibraryOp*> generatableTopKs(const Fusion* fusion);

// Extent of the dimension that it selects from.
Val* rowExtent(const LibraryOp* topk);

// `which` has a bit for each of generatableTopKs(); they become reductions.
void generateTopK(Fusion* fusion, uint64_t which);

} // namespace nvfuser
