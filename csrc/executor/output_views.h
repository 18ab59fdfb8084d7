// SPDX-License-Identifier: BSD-3-Clause
// Outputs that are nothing but another look at an input's memory: found in the definition, laid out
// for given shapes.
#pragma once

#include <fusion.h>
#include <ir/evaluator.h>
#include <runtime/bind_inputs.h>

#include <optional>
#include <vector>

namespace nvfuser {

struct ViewChain {
  int input = -1;                 // position of the fusion input
  std::vector<const Expr*> exprs; // from the input to the output
};

// The chain of copies, permutations, slices, reshapes, broadcasts, expands and squeezes that makes
// `out` from a fusion input, if there is one. CPU scalars are not viewed (their outputs belong on
// the device), nor is packed fp4.
std::optional<ViewChain> findViewChain(const Fusion* fusion, const TensorView* out);

struct ViewLayout {
  TensorLayout layout;
  int64_t offset = 0; // elements
};

// nullopt if this layout of the input has no such view: a reshape that needs a copy, or another
// memory order than the output asks for.
std::optional<ViewLayout> layoutOfView(const ViewChain& chain, const TensorView* out,
                                       const ArgView& input, ScalarEvaluator& evaluator);

// Strides that show the same elements in row-major order under other sizes, if there are such.
std::optional<Shape> reshapeStrides(const TensorLayout& from, const Shape& sizes);

} // namespace nvfuser
