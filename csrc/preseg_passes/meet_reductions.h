// SPDX-License-Identifier: BSD-3-Clause
// What may share a kernel with a reduction.
#pragma once

#include <fusion.h>

#include <unordered_set>

namespace nvfuser {

// Tensors that meet reductions: these depend on them, or what is computed of them depends on a
// reduction too.
std::unordered_set<const TensorView*> meetReductions(const Fusion* fusion);

// Of what is made of the tensor something is broadcast, such as a statistic that a normalization
// reads for each of its elements again.
bool isBroadcastLater(const TensorView* tv);

} // namespace nvfuser
