// Outputs whose memory order nobody asked for take over that of the inputs: a normalization of a
// channels-last tensor is channels-last too.
#pragma once

#include <fusion.h>

namespace nvfuser {

// Gives each of the outputs that has no allocation domain the order of the first of those inputs
// that have most dimensions, if its dimensions are the output's.
void inferAllocationOrder(Fusion* fusion, const std::vector<TensorView*>& outputs);

} // namespace nvfuser
