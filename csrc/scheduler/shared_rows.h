// SPDX-License-Identifier: BSD-3-Clause
// What all rows share, such as the weights of a normalization, in kernels whose persistent row
// groups take rows that begin within vectors: where such a row's elements lie in the threads
// depends on the group.
#pragma once

#include <fusion.h>

#include <functional>
#include <unordered_set>

namespace nvfuser {

// Broadcasts along the rows move to the tensors that are loaded, which `is_shared_load` tells:
//
//   w = load(weight); c = cast(w); r = broadcast(c)   ->   w = load(weight); b = broadcast(w); r =
//   cast(b)
//
// and equal ones become one. Returns them: they have loops over row groups, which loads lack.
std::unordered_set<const TensorView*> broadcastLoads(
    Fusion* fusion, const std::function<bool(const TensorView*)>& is_shared_load);

} // namespace nvfuser
