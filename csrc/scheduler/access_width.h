// SPDX-License-Identifier: BSD-3-Clause
// The widest access that a tensor's memory allows along one of its dimensions.
#pragma once

#include <scheduler/runtime_info.h>

namespace nvfuser {

// In elements; a power of two. `along`: its innermost dimension in memory, which is contiguous. The
// sizes, strides and addresses at hand are multiples of it.
// With several dimensions they are in one piece of memory, the innermost one first.
int64_t accessWidth(const TensorView* tv, const IterDomain* along, SchedulerRuntimeInfo& info);
int64_t accessWidth(const TensorView* tv, const std::vector<IterDomain*>& along,
                    SchedulerRuntimeInfo& info);

// Rows are aligned if they have so many whole vectors: shorter ones have too many ends [widths].
inline constexpr int64_t kFewestAligned = 192;

// What the size of its elements and its address alone allow.
int64_t alignedWidth(const TensorView* tv, SchedulerRuntimeInfo& info);

// That parameters list for a tensor, by its position; of those that they do not list 1.
inline int64_t widthAt(const std::vector<int64_t>& widths, size_t position) {
  return position < widths.size() ? widths[position] : 1;
}

// An output that is written over an input with gaps may have any strides.
bool hasGaps(const TensorView* tv);

} // namespace nvfuser
