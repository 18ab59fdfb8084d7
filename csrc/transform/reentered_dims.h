// SPDX-License-Identifier: BSD-3-Clause
// Dimensions that are squeezed or reduced and come back further on.
#pragma once

#include <transform/tensor_graph.h>

#include <functional>
#include <utility>
#include <vector>

namespace nvfuser {

// A loop over a dimension that comes back would have to be left and entered again. Tensors that are
// computed before that share no such loop with those that are computed after it: the former, each
// with what it has of the dimension. `is_dim`: whether a domain is of the dimension.
std::vector<std::pair<const TensorView*, const IterDomain*>> reenteredDims(
    const TensorGraph& graph, const std::function<bool(const IterDomain*)>& is_dim);

} // namespace nvfuser
