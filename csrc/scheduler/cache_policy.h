// SPDX-License-Identifier: BSD-3-Clause
// What L2 should do with what a kernel reads.
//
// A kernel that reads as much as it writes, and much more than the cache holds, is faster if the
// lines it reads are given up last (evict_last in PTX): the cache then writes results to memory
// soon and in order, instead of late and scattered. (docs/measurements/normalizations.md)
#pragma once

#include <fusion.h>
#include <scheduler/runtime_info.h>

namespace nvfuser {

bool gainsFromEvictingInputsLast(const Fusion* fusion, SchedulerType type,
                                 SchedulerRuntimeInfo& info);

// Of a scheduled fusion: all vector loads of inputs.
void evictInputsLast(Fusion* fusion);

} // namespace nvfuser
