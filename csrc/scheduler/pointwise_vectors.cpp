// SPDX-License-Identifier: BSD-3-Clause
// Which tensors of a pointwise schedule can be accessed by vectors of a width.
#include <scheduler/pointwise.h>

#include <scheduler/access_width.h>

#include <algorithm>

namespace nvfuser::pointwise {

const TensorView* updatedByStore(const TensorView* tv) {
  if (tv->definition() == nullptr || tv->definition()->kind() != ExprKind::ScatterStoreOp) {
    return nullptr;
  }
  const std::vector<Val*>& outputs = tv->fusion()->outputs();
  const auto at =
      static_cast<size_t>(std::find(outputs.begin(), outputs.end(), tv) - outputs.begin());
  return tv->fusion()->outputAliases().at(at).input->as<TensorView>();
}

bool canUseVectors(const PointwiseAnalysis& analysis, const TensorAccess& access,
                   std::span<const int64_t> axes, int64_t width, SchedulerRuntimeInfo& info) {
  const TensorView* tv = access.tv;
  const TensorView* updated = updatedByStore(tv);
  const TensorView* memory_of = updated == nullptr ? tv : updated;
  const int64_t bits = width * dataTypeSizeBits(tv->dtype());
  if (bits > 8 * kVectorBytes || bits % 8 != 0 || info.alignmentOf(memory_of) % (bits / 8) != 0) {
    return false;
  }
  const ContiguousRun run = runAlong(analysis, *access.version, axes);
  if (run.empty() || !std::all_of(run.multiples.begin(), run.multiples.end(),
                                  [&](const auto& v) { return info.productOf(v) % width == 0; })) {
    return false;
  }
  // Strides outside of the run must keep the alignment; those inside are products of its extents.
  const std::vector<int64_t>& strides = info.stridesOf(memory_of);
  if (strides.empty() && hasGaps(tv)) {
    return false;
  }
  const auto dims = logicalIds(tv);
  const std::vector<MemoryDim> memory = memoryDims(tv);
  for (size_t i = 0; i < strides.size(); ++i) {
    const bool in_run =
        std::any_of(memory.end() - static_cast<std::ptrdiff_t>(run.digits), memory.end(),
                    [&](const MemoryDim& dim) { return dim.id == dims[i]; });
    if (!in_run && info.sizeOf(dims[i]) > 1 && strides[i] % width != 0) {
      return false;
    }
    if (memory.back().id == dims[i] && strides[i] != 1 && info.sizeOf(dims[i]) > 1) {
      return false;
    }
  }
  return true;
}

} // namespace nvfuser::pointwise
