// SPDX-License-Identifier: BSD-3-Clause
// Caching: copies inserted before or after a tensor (TensorView::cacheBefore, cacheAfter,
// cacheFork), and copies of expressions for recomputation.
#pragma once

#include <fusion.h>

#include <unordered_map>
#include <vector>

namespace nvfuser {

// The same op with inputs and outputs replaced as told; everything else that it refers to stays.
// The copy takes over the definition of its outputs.
Expr* copyExprWith(Fusion* fusion, Expr* expr, const std::unordered_map<Val*, Val*>& replacements);

// A tensor like `tv` (dtype, logical and root dimensions with the transforms between them), in
// registers and without definition.
TensorView* newTensorLike(TensorView* tv);

// Computes `tv` a second time: a copy of its definition that reads `inputs` (as many as the
// definition has) and writes the returned new tensor.
TensorView* recompute(TensorView* tv, const std::vector<Val*>& inputs);

// Views one of the other, in topological order, a second time: of `tv`, where the first one reads
// another tensor. Returns the last one, or `tv` if there is none.
TensorView* recomputeViews(const std::vector<Expr*>& views, TensorView* tv);

} // namespace nvfuser
