// SPDX-License-Identifier: BSD-3-Clause
// Which outputs of a kernel may be written over an input that nobody needs any more.
#pragma once

#include <executor/launch_plan.h>

#include <vector>

namespace nvfuser {

// Values of a plan.
struct Overwrite {
  uint32_t input;
  uint32_t output;
};

// Of a kernel that computes element by element, those in which each element is read for the last
// time by the thread that writes the one in its place, before it does. Whether anything else reads
// the input later is for the caller to know.
std::vector<Overwrite> overwrites(const LaunchPlan& plan, const LaunchPlan::Step& step);

} // namespace nvfuser
