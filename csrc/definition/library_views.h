// SPDX-License-Identifier: BSD-3-Clause
// Views of tensors in memory that a library reads: it takes strides, so that a transposed weight
// needs no copy.
#pragma once

#include <fusion.h>

#include <vector>

namespace nvfuser {

// Whether the expression gives another view of a tensor in memory.
bool isView(const Expr* e);

// An input, a library's result, or a view of what lies in memory.
bool isInMemory(const TensorView* tv);

// The views between a tensor in memory and the operand, in topological order: an input, a library's
// result, or what a kernel of ours writes for it, which then is not written in two orders. Empty if
// there is none, or something else.
std::vector<Expr*> viewsBehind(const TensorView* operand);

// Whether another expression than `op`, or a caller, needs one of the views behind its operand.
bool areNeededByOthers(const Fusion* fusion, const std::vector<Expr*>& views, const Expr* op);

} // namespace nvfuser
