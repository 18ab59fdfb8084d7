// See transform_depth.h.
#include <segment/transform_depth.h>

#include <ir/visitor.h>

#include <algorithm>
#include <unordered_map>

namespace nvfuser {
namespace {

// Planning takes about 1 ms for each operation of a chain of that many slices, 6 ms for one of 100.
constexpr size_t kMostInARow = 32;

bool hasTransforms(const TensorView* tv) {
  return tv->hasRoot() && !transformsBetween(tv->getRootDomain(), tv->getLogicalDomain()).empty();
}

} // namespace

std::vector<TensorView*> cutsOfDeepTransforms(const Fusion* fusion) {
  std::unordered_map<const TensorView*, size_t> depth; // transformed so often; inputs were not
  std::vector<TensorView*> cuts;
  for (const Expr* e : fusion->exprs()) {
    const std::vector<TensorView*> producers = tensorInputs(e);
    size_t deepest = 0;
    for (const TensorView* producer : producers) {
      deepest = std::max(deepest, depth[producer]);
    }
    for (TensorView* out : tensorOutputs(e)) {
      depth[out] = deepest + (hasTransforms(out) ? 1 : 0);
    }
    const size_t piece = depth[tensorOutputs(e).front()] / kMostInARow;
    for (TensorView* producer : producers) {
      if (producer->definition() != nullptr && depth[producer] / kMostInARow < piece) {
        cuts.push_back(producer);
      }
    }
  }
  return cuts;
}

} // namespace nvfuser
