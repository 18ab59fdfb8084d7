// SPDX-License-Identifier: BSD-3-Clause
// Which outputs of a kernel may be written over an input that nobody needs any more.
#pragma once

#include <executor/launch_plan.h>
#include <machine.h>

#include <vector>

namespace nvfuser {

// Bytes of the widest access of any kernel: two vectors of the schedulers'.
inline constexpr int64_t kWidestAccess = 2 * kVectorBytes;

// Those of a kernel in which each element of the input is loaded once, by the thread that writes
// the output's element in its place, or for it, and before, as that is computed of it. Whether
// anything else reads the input later is for the caller to know.
std::vector<LaunchPlan::Overwrite> overwrites(const LaunchPlan& plan, const LaunchPlan::Step& step);

} // namespace nvfuser
