// SPDX-License-Identifier: BSD-3-Clause
// Where expressions that no kernel computes together are cut: slices, of which each depends on
// those before it alone, and parts that have nothing in common.
#pragma once

#include <segment/segment.h>

#include <functional>
#include <unordered_map>
#include <vector>

namespace nvfuser {

// Views of a library's operands and results, and the op that has them.
using ViewsOfOps = std::unordered_map<const Expr*, const Expr*>;

// An expression is in a later slice than a boundary that it depends on. `views`, of library ops,
// are in the slices of those; then what can be computed in a later slice for the same traffic is,
// so that no kernel is made for it. What `is_late` is in a later slice than all that it depends on.
std::vector<std::vector<Expr*>> cutAt(
    const WholeFusion& whole, const std::vector<Expr*>& exprs,
    const std::function<bool(const Expr*)>& is_boundary, const ViewsOfOps* views = nullptr,
    const std::function<bool(const Expr*)>& is_late = [](const Expr*) { return false; });

// Parts that share no tensor made inside and, if `by_inputs`, no other that both read.
std::vector<std::vector<Expr*>> components(const WholeFusion& whole,
                                           const std::vector<Expr*>& exprs, bool by_inputs);

} // namespace nvfuser
