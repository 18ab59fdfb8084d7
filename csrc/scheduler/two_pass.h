// SPDX-License-Identifier: BSD-3-Clause
// Statistics of a row that stays on chip are computed in two passes (the mean, then the deviations
// from it): more accurate than Welford's update and free of divisions.
#pragma once

#include <fusion.h>

namespace nvfuser {

// Replaces every Welford op whose counts nobody reads.
void replaceWelfordByTwoPasses(Fusion* fusion);

} // namespace nvfuser
