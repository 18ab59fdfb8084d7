// The one rule for approximate transcendental functions.
#pragma once

#include <kernel/kernel.h>

#include <unordered_set>

namespace nvfuser::codegen {

// Statements of the kernel that may use nvf::approx::<op>: float32 results of which every use ends, through
// float32 arithmetic in registers, in a conversion to a 16-bit or smaller float. The approximations
// (ex2.approx, rcp.approx and what is built from them) err by a few units in the last place of
// float32, thousands of times below the rounding of the result. Switched off by
// NVFUSER_DISABLE=fast_transcendentals (then fp32 and 16-bit results use the same functions).
std::unordered_set<const Expr*> approximableOps(const Kernel* kernel);

} // namespace nvfuser::codegen
