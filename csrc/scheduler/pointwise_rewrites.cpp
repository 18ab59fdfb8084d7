// SPDX-License-Identifier: BSD-3-Clause
// Which results that are concatenations are written part by part.
#include <scheduler/pointwise.h>

#include <preseg_passes/cats_in_parts.h>
#include <scheduler/wanted.h>

#include <algorithm>
#include <memory>

namespace nvfuser {

namespace {

// What does not depend on sizes.
struct KnownCat {
  std::vector<std::vector<Val*>> extents; // of each part
  std::vector<Val*> lengths;              // along the concatenation
  std::vector<bool> has_own_kernel;
  bool in_one_kernel = false;
  std::vector<Val*> run; // elements of a part that lie together, if that matters
  int64_t element_bytes = 0;
};

KnownCat known(const CatInParts& cat) {
  KnownCat out;
  out.has_own_kernel = cat.has_own_kernel;
  out.in_one_kernel = cat.in_one_kernel;
  const auto whole = logicalIds(cat.cat->output(0));
  for (size_t d = static_cast<size_t>(cat.cat->dim()) + 1; cat.needs_runs && d < whole.size();
       ++d) {
    out.run.push_back(whole[d]->extent());
  }
  out.element_bytes = dataTypeSizeBytes(cat.cat->output(0)->dtype());
  for (const TensorView* part : cat.parts) {
    const auto dims = logicalIds(part);
    std::vector<Val*>& extents = out.extents.emplace_back();
    std::transform(dims.begin(), dims.end(), std::back_inserter(extents),
                   [](const IterDomain* id) { return id->extent(); });
    out.lengths.push_back(cat.of_stack ? cat.cat->fusion()->oneVal()
                                       : extents[static_cast<size_t>(cat.cat->dim())]);
  }
  return out;
}

// As they were before any of them was rewritten.
const std::vector<KnownCat>& knownCats(WholeDefinition& definition) {
  HeuristicCache& cache = definition.cacheOf(SchedulerType::PointWise);
  if (cache.data == nullptr) {
    auto cats = std::make_shared<std::vector<KnownCat>>();
    for (const CatInParts& cat : catsInParts(definition.fusion())) {
      cats->push_back(known(cat));
    }
    cache.data = std::move(cats);
  }
  return *static_cast<const std::vector<KnownCat>*>(cache.data.get());
}

// Parts of one size have their loops in common. Parts that have kernels of their own are not read
// again to be copied: if that takes longer than a launch, as the others take one.
bool isWorthIt(const KnownCat& cat, WholeDefinition& definition) {
  constexpr int64_t kFewestBytes = 1 << 20; // [hand]
  // A kernel's indices are as wide as its tensors need, but parts are as far apart as the whole is.
  constexpr int64_t kMostElements = int64_t{1} << 30;
  if (!cat.run.empty() && definition.product(cat.run) * cat.element_bytes < kVectorBytes) {
    return false;
  }
  bool equal = true;
  int64_t others = 0;
  int64_t bytes = 0;
  int64_t all = 0;
  for (size_t p = 0; p < cat.extents.size(); ++p) {
    const int64_t elements = definition.product(cat.extents[p]);
    if (elements == 0) {
      return false;
    }
    all += elements;
    equal = equal && definition.product({cat.lengths[p]}) == definition.product({cat.lengths[0]});
    others += cat.has_own_kernel[p] ? 0 : 1;
    bytes += cat.has_own_kernel[p] ? elements * cat.element_bytes : 0;
  }
  return all <= kMostElements &&
         ((cat.in_one_kernel && equal) || (others <= 1 && bytes >= kFewestBytes));
}

} // namespace

void PointwiseScheduler::wantRewrites(WholeDefinition& definition, Wanted& wanted) const {
  const std::vector<KnownCat>& cats = knownCats(definition);
  if (!definition.makesKernels() || !definition.wishes().writes_cats_in_parts) {
    return;
  }
  for (size_t i = 0; i < std::min<size_t>(cats.size(), 64); ++i) {
    if (isWorthIt(cats[i], definition)) {
      wanted.rewrites.cats_in_parts |= uint64_t{1} << i;
    }
  }
}

} // namespace nvfuser
