// SPDX-License-Identifier: BSD-3-Clause
// What caches should do with what a kernel reads and writes.
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

// A core reads a line before it writes a part of it. What a kernel reads and writes does not fit
// into the last-level cache of the host anyway: results are then written by whole lines past the
// caches (lower/streamed_stores.h). (docs/measurements/cpu.md)
bool gainsFromStreamingOutputs(const Fusion* fusion, SchedulerRuntimeInfo& info);

} // namespace nvfuser
