// SPDX-License-Identifier: BSD-3-Clause
// See access_width.h.
#include <scheduler/access_width.h>

#include <algorithm>

namespace nvfuser {

namespace {

int64_t widthOfRun(const TensorView* tv, const std::vector<const IterDomain*>& along,
                   SchedulerRuntimeInfo& info) {
  int64_t width = alignedWidth(tv, info);
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
  const auto& strides = info.stridesOf(tv);
  const auto logical = logicalIds(tv);
  for (size_t i = 0; i < strides.size() && i < logical.size(); ++i) {
    if (std::find(along.begin(), along.end(), logical[i]) == along.end() &&
        !logical[i]->isBroadcast()) {
      limit(strides[i]);
    }
  }
  return strides.empty() && hasGaps(tv) ? 1 : width;
}

} // namespace

int64_t alignedWidth(const TensorView* tv, SchedulerRuntimeInfo& info) {
  const int64_t bits = dataTypeSizeBits(tv->dtype());
  const int64_t aligned = info.alignmentOf(tv) * 8;
  return bits < 8 ? 1 : std::max<int64_t>(std::min(kVectorBytes * 8, aligned) / bits, 1);
}

bool hasGaps(const TensorView* tv) {
  const auto& contiguity = tv->getContiguity();
  return std::any_of(contiguity.begin(), contiguity.end(),
                     [](auto c) { return !c.value_or(true); });
}

int64_t accessWidth(const TensorView* tv, const IterDomain* along, SchedulerRuntimeInfo& info) {
  return widthOfRun(tv, {along}, info);
}

int64_t accessWidth(const TensorView* tv, const std::vector<IterDomain*>& along,
                    SchedulerRuntimeInfo& info) {
  return widthOfRun(tv, {along.begin(), along.end()}, info);
}

} // namespace nvfuser
