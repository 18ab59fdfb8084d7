// SPDX-License-Identifier: BSD-3-Clause
// The one rule for approximate transcendental functions.
#pragma once

#include <kernel/kernel.h>

#include <unordered_set>

namespace nvfuser::codegen {

// The expressions of the kernel that may use nvf::approx::<op>: float32 ops of which every use
// ends, through float32 arithmetic in registers, in a conversion to a 16-bit or smaller float. The
// approximations (ex2.approx, rcp.approx and what is built from them) err by less than 2^-16 of the
// result, far below that rounding. Results that also leave the kernel as float32, or decide a
// comparison, keep the accurate functions, as does everything under
// NVFUSER_DISABLE=approx_transcendentals.
std::unordered_set<const Expr*> approximableOps(const Kernel* kernel);

} // namespace nvfuser::codegen
