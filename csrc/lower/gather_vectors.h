// SPDX-License-Identifier: BSD-3-Clause
// Loads of whole vectors that hold the elements which a loop reads one by one.
#pragma once

#include <lower/uniform_elements.h>

namespace nvfuser {

// Of inputs that the schedule declares to be aligned (Fusion::declareAligned).
Statements gatherVectors(LowerContext& ctx, const Statements& nest, const UniformElements& uniform);

} // namespace nvfuser
