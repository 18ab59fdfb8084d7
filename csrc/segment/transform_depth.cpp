// SPDX-License-Identifier: BSD-3-Clause
// See transform_depth.h.
#include <segment/transform_depth.h>

#include <ir/visitor.h>

#include <algorithm>
#include <unordered_map>

namespace nvfuser {
namespace {

// Slices, reshapes or pads in a chain: the time of planning grows with the square of that number
// (measured, docs/measurements/kernel_size.md).
constexpr size_t kMostInARow = 16;

bool hasTransforms(const TensorView* tv) {
  return tv->hasRoot() && !transformsBetween(tv->getRootDomain(), tv->getLogicalDomain()).empty();
}

// Which piece of a chain a tensor is in that was transformed so often.
size_t pieceOf(size_t depth) {
  return (std::max<size_t>(depth, 1) - 1) / kMostInARow;
}

} // namespace

const char* const kTooManyTransforms = "too many reshapes, slices and pads follow each other";

std::unordered_set<const Expr*> cutsOfDeepTransforms(const std::vector<Expr*>& exprs) {
  std::unordered_map<const TensorView*, size_t> depth; // of those made here: transformed so often
  std::unordered_set<const Expr*> cuts;
  for (const Expr* e : exprs) {
    const std::vector<TensorView*> producers = tensorInputs(e);
    size_t deepest = 0;
    for (const TensorView* producer : producers) {
      const auto made = depth.find(producer);
      deepest = std::max(deepest, made == depth.end() ? 0 : made->second);
    }
    for (TensorView* out : tensorOutputs(e)) {
      depth[out] = deepest + (hasTransforms(out) ? 1 : 0);
    }
    const size_t piece = pieceOf(depth[tensorOutputs(e).front()]);
    for (const TensorView* producer : producers) {
      const auto made = depth.find(producer);
      if (made != depth.end() && pieceOf(made->second) < piece) {
        cuts.insert(producer->definition());
      }
    }
  }
  return cuts;
}

} // namespace nvfuser
