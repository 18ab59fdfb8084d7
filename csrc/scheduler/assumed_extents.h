// SPDX-License-Identifier: BSD-3-Clause
// A persistent kernel is made for rows of one length, which is a constant in it.
#pragma once

#include <scheduler/reduction_analysis.h>
#include <scheduler/reduction_params.h>

namespace nvfuser {

// The reference's kept dimensions that have a part of the row on either side: positions along the
// row are as far apart as these are long.
std::vector<IterDomain*> keptWithinRow(const ReductionAnalysis& analysis);

// The extents of the reduced dimensions, and of those that lie within the row, are those of the
// parameters (Fusion::assumeExtent). What is computed of them, such as the number of elements that
// a mean is divided by, is a constant. Error: the parameters have too few.
void assumeRowLengths(Fusion* fusion, const ReductionAnalysis& analysis,
                      const ReductionParams& params);

} // namespace nvfuser
