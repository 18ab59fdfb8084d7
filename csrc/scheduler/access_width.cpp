// SPDX-License-Identifier: BSD-3-Clause
// See access_width.h.
#include <scheduler/access_width.h>

#include <algorithm>

namespace nvfuser {

namespace {

int64_t widthOfRun(const TensorView* tv, const std::vector<const IterDomain*>& along,
                   SchedulerRuntimeInfo& info) {
  const int64_t bits = dataTypeSizeBits(tv->dtype());
  if (bits < 8) {
    return 1;
  }
  int64_t width = kVectorBytes * 8 / bits;
  const auto limit = [&](int64_t v) {
    while (v % width != 0) {
      width /= 2;
    }
  };
  int64_t length = 1;
  for (const IterDomain* id : along) {
    length *= info.sizeOf(id);
  }
  limit(length);
  limit(std::max<int64_t>(info.alignmentOf(tv) * 8 / bits, 1));
  const auto& strides = info.stridesOf(tv);
  const auto logical = logicalIds(tv);
  for (size_t i = 0; i < strides.size() && i < logical.size(); ++i) {
    if (std::find(along.begin(), along.end(), logical[i]) == along.end() &&
        !logical[i]->isBroadcast()) {
      limit(strides[i]);
    }
  }
  // An output that is written over an input may have any strides.
  const auto& contiguity = tv->getContiguity();
  const bool has_gaps =
      std::any_of(contiguity.begin(), contiguity.end(), [](auto c) { return !c.value_or(true); });
  return strides.empty() && has_gaps ? 1 : width;
}

} // namespace

int64_t accessWidth(const TensorView* tv, const IterDomain* along, SchedulerRuntimeInfo& info) {
  return widthOfRun(tv, {along}, info);
}

int64_t accessWidth(const TensorView* tv, const std::vector<IterDomain*>& along,
                    SchedulerRuntimeInfo& info) {
  return widthOfRun(tv, {along.begin(), along.end()}, info);
}

} // namespace nvfuser
