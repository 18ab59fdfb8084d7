// SPDX-License-Identifier: BSD-3-Clause
// What operations on tensors are like, by kind: one table (op_traits.cpp) for the questions that
// passes, schedulers and the planner ask. What a pass does with each kind is its own business. All
// are false of transforms of domains and of statements of kernels.
#pragma once

#include <ir/base_nodes.h>

namespace nvfuser {

// Each element of the result is one of the operand's: a copy, or a view.
bool movesElements(const Expr* e);
// An element is computed of the operands' elements at the same place; dimensions may be permuted,
// those of size 1 may come, go or be repeated.
bool isByPosition(const Expr* e);
// What it does depends on sizes, beyond the number of its iterations.
bool dependsOnSizes(const Expr* e);
// Two of them with the same fields and operands have the same results.
bool isDetermined(const Expr* e);
// Every element of the result depends on few elements of each operand, at positions that views can
// express or that a lookup reads.
bool isPointwise(const Expr* e);
// Reads only as many elements of its first operand as its result has.
bool readsPart(const Expr* e);
// Reads its first operand at positions that others name; see lookedUpTensor() in logical_map.h.
bool looksUp(const Expr* e);

// An elementary function of a tensor's elements, or random numbers: many instructions.
bool isFunction(const Expr* e);

// A copy at which the fusion is to be cut, as the user said.
bool isBoundary(const Expr* e);

} // namespace nvfuser
