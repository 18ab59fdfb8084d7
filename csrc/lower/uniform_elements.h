// SPDX-License-Identifier: BSD-3-Clause
// Elements of a vector that are one value.
#pragma once

#include <lower/context.h>

#include <unordered_map>

namespace nvfuser {

// Registers whose elements are equal, so many at a time: blocks of that length, the first at 0.
using UniformElements = std::unordered_map<const TensorView*, int64_t>;

// The loop runs over a few elements of a thread, one statement after the other: its extent.
// 0: it does not.
int64_t elementsOf(const ForLoop* loop);
// These statements, without loops around them that run once.
Statements statementsOf(const ForLoop* loop);

// Whether anything in `v`, positions in tensors included, depends on the symbol.
bool readsWith(const Val* v, const Val* symbol);

// The pass: what is the same for all elements of such a loop is computed once.
Statements computeUniformElements(LowerContext& ctx, const Statements& nest,
                                  UniformElements& uniform);

} // namespace nvfuser
