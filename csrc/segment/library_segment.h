// SPDX-License-Identifier: BSD-3-Clause
// What belongs to a library segment: the operation, and before it the views of tensors in memory
// that it reads. A library takes strides, so that a transposed weight needs no copy.
#pragma once

#include <fusion.h>

#include <unordered_map>
#include <vector>

namespace nvfuser {

// Whether the expression is a segment of its own (a library's op with views of its operands) that
// no kernel of ours computes: a library's op, or a view of what lies in memory.
bool takesNoKernel(const Expr* e);
// Whether expressions are such a segment.
bool isWithoutKernel(const std::vector<Expr*>& exprs);

// The operation, if the expressions (in topological order) are one library segment: what comes
// before it are views that nothing else needs. Else null.
const LibraryOp* librarySegmentOp(const std::vector<Expr*>& exprs);

// For each expression among those given that belongs to the segment of a library op, that op.
std::unordered_map<const Expr*, const Expr*> viewsOfLibraryOps(const Fusion* fusion,
                                                               const std::vector<Expr*>& exprs);

// Bytes that a library takes for itself while it evaluates the operation, about: attention's
// backward pass sums the gradient of the query in float, and where heads of keys and values are
// fewer than those of the query it makes a gradient for each of these before it adds them up.
double bytesTaken(const LibraryOp& op);

} // namespace nvfuser
