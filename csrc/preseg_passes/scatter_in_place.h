// SPDX-License-Identifier: BSD-3-Clause
// Scatters whose result lies in the memory of the tensor that they update: see the .cpp.
#pragma once

#include <fusion.h>
#include <preseg_passes/in_place_write.h>

#include <cstdint>
#include <vector>

namespace nvfuser {

// The scatters of a fusion, in its order.
std::vector<ScatterOp*> scattersOf(const Fusion* fusion);

// Whether a kernel over the elements of the index can write them.
bool canBeInPlace(const ScatterOp* scatter);

// Whether what it updates is computed for it alone, so that no copy is needed.
bool isMadeForScatter(const Fusion* fusion, const ScatterOp* scatter);

// `which` has a bit for each scatter of the fusion, in its order. `writes`, which are not resolved
// yet, say which inputs may be updated themselves, if their storage is not seen elsewhere.
void scatterInPlace(Fusion* fusion, uint64_t which, const std::vector<InPlaceWrite>& writes,
                    bool overlap);

// Whether the write is that of a scatter which updates the input itself.
bool isScatteredInto(const InPlaceWrite& write);
// That scatter updates a copy of the input from now on.
void scatterIntoCopy(Fusion* fusion, const InPlaceWrite& write);

} // namespace nvfuser
