// SPDX-License-Identifier: BSD-3-Clause
// Differences that a compiler must not contract.
#pragma once

#include <kernel/kernel.h>

#include <unordered_set>

namespace nvfuser::codegen {

// Results of subtractions of a value and a mean that was made of it, where the value may be a
// product: fma(a, b, -mean(a * b)) would subtract the rounded product of a single element from the
// exact one, which leaves a rounding error where 0 is due, and so infinity where 0 / 0 is. Both
// must be the same rounded value (nvf::subtractRounded). Differences that are added to others only,
// and those from a maximum, of which the exponential is taken, may stay contracted.
std::unordered_set<const TensorView*> deviationsOfProducts(const Kernel* kernel);

} // namespace nvfuser::codegen
