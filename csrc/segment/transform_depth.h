// SPDX-License-Identifier: BSD-3-Clause
// Reshapes, slices and pads in a row. All tensors of a kernel run through the loops of its outputs,
// so that a tensor's loops repeat the transforms of every such operation after it, and a kernel
// with n in a row takes time in the order of n squared to plan. Chains that are longer than any
// model's are therefore cut.
#pragma once

#include <ir/nodes.h>

#include <unordered_set>
#include <vector>

namespace nvfuser {

// Of expressions in topological order those after which to cut, so that no kernel has more than 16
// of them in a row.
std::unordered_set<const Expr*> cutsOfDeepTransforms(const std::vector<Expr*>& exprs);
// What to say of a kernel that is cut for that.
extern const char* const kTooManyTransforms;

} // namespace nvfuser
