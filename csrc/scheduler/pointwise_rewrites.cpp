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
  std::vector<Val*> inner;                // of the dimensions inside of it
  std::vector<bool> has_own_kernel;
  std::vector<bool> has_sibling;
  bool in_one_kernel = false;
  bool is_computed = false;
  std::vector<std::vector<Val*>> shared; // extents of what several parts read
  bool needs_runs = false;
  int64_t element_bytes = 0;
};

KnownCat known(const CatInParts& cat) {
  KnownCat out;
  out.has_own_kernel = cat.has_own_kernel;
  out.has_sibling = cat.has_sibling;
  out.in_one_kernel = cat.in_one_kernel;
  out.is_computed = cat.is_computed;
  const auto whole = logicalIds(cat.cat->output(0));
  out.needs_runs = cat.needs_runs;
  for (size_t d = static_cast<size_t>(cat.cat->dim()) + 1; d < whole.size(); ++d) {
    out.inner.push_back(whole[d]->extent());
  }
  out.element_bytes = dataTypeSizeBytes(cat.cat->output(0)->dtype());
  const auto extents_of = [](const TensorView* tv) {
    std::vector<Val*> extents;
    for (const IterDomain* id : logicalIds(tv)) {
      extents.push_back(id->extent());
    }
    return extents;
  };
  std::ranges::transform(cat.read_by_several, std::back_inserter(out.shared), extents_of);
  for (const TensorView* part : cat.parts) {
    const std::vector<Val*>& extents = out.extents.emplace_back(extents_of(part));
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

// What several parts read is less than each of them, also if all read it.
bool readApart(const KnownCat& cat, WholeDefinition& definition) {
  const auto readers = static_cast<int64_t>(cat.extents.size());
  return std::ranges::all_of(cat.shared, [&](const std::vector<Val*>& shared) {
    return std::ranges::all_of(cat.extents, [&](const std::vector<Val*>& part) {
      return definition.product(shared) * readers <= definition.product(part);
    });
  });
}

// Parts of one size have their loops in common. Parts that have kernels of their own are not read
// again to be copied: if that takes longer than a launch, where others take one. So do several
// others, if memory takes longer for them and a warp's vectors lie together: where one kernel
// computes all parts, each thread has guards and registers for all of them, and less under way.
bool isWorthIt(const KnownCat& cat, WholeDefinition& definition) {
  constexpr int64_t kFewestBytes = 1 << 20; // [hand]
  // A kernel's indices are as wide as its tensors need, but parts are as far apart as the whole is.
  constexpr int64_t kMostElements = int64_t{1} << 30;
  const int64_t inner_bytes = definition.product(cat.inner) * cat.element_bytes;
  if (cat.needs_runs && inner_bytes < kVectorBytes) {
    return false;
  }
  const MachineModel& machine = definition.machine();
  const double of_launch = machine.kernel_start * machine.memory_bandwidth; // bytes
  const bool read_apart = readApart(cat, definition);
  bool equal = true;
  bool are_large = cat.is_computed && read_apart;
  int64_t others = 0;
  int64_t bytes = 0;
  int64_t all = 0;
  for (size_t p = 0; p < cat.extents.size(); ++p) {
    const int64_t elements = definition.product(cat.extents[p]);
    if (elements == 0) {
      return false;
    }
    all += elements;
    const int64_t length = definition.product({cat.lengths[p]});
    equal = equal && length == definition.product({cat.lengths[0]});
    const bool is_own = cat.has_own_kernel[p] || (cat.has_sibling[p] && read_apart);
    const int64_t of_part = elements * cat.element_bytes;
    others += is_own ? 0 : 1;
    bytes += is_own ? of_part : 0;
    are_large = are_large && length * inner_bytes >= kWarp * kVectorBytes &&
                (is_own || 2 * static_cast<double>(of_part) >= of_launch);
  }
  const bool saves_kernel = others == 0 || (others == 1 && bytes >= kFewestBytes);
  return all <= kMostElements && ((cat.in_one_kernel && equal) || saves_kernel || are_large);
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
