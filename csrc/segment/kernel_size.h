// SPDX-License-Identifier: BSD-3-Clause
// How much goes into one kernel, and where a fusion that is more than that is cut.
//
// The time that compilers take for an operation grows with the number of operations around it, and
// so do the registers. A larger fusion becomes several kernels, which are as large as they may be
// and pass as little as possible to each other.
#pragma once

#include <ir/nodes.h>

#include <string>
#include <vector>

namespace nvfuser {

// Why one kernel of these expressions (in topological order) would be too large; empty if it would
// not be.
std::string whyTooLarge(const std::vector<Expr*>& exprs);

// Pieces of expressions in topological order, none of them too large. A piece depends on none that
// follows it.
std::vector<std::vector<Expr*>> piecesOfBoundedSize(const std::vector<Expr*>& exprs);

} // namespace nvfuser
