// SPDX-License-Identifier: BSD-3-Clause
// What every segment computes for itself, as that takes less than to write and read it: an up-cast,
// the comparison that a mask is, a broadcast, random numbers, a normalization of an input whose
// statistics are known.
#pragma once

#include <fusion.h>

#include <unordered_set>

namespace nvfuser {

// Expressions that are never what a segment is made for: no output, no library and no lookup reads
// them, and they make of a tensor a larger one, or a few operations compute them of inputs and of
// smaller tensors, for less than they would take to be written and read, or of a much smaller size.
std::unordered_set<const Expr*> repeatedExprs(const Fusion* fusion);

// An output, a library or a lookup has it in memory.
bool mustBeInMemory(const TensorView* tv);

// Each element is computed of those at its position.
bool isComputedByElement(const Expr* e);

} // namespace nvfuser
