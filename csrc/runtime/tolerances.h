// SPDX-License-Identifier: BSD-3-Clause
// How far outputs may be from references: by their dtype and by how many elements are accumulated
// on the way to them.
#pragma once

#include <fusion.h>
#include <runtime/kernel_args.h>

#include <span>
#include <vector>

namespace nvfuser {

struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

// Elements that one element of each output accumulates for these inputs: along a path from an input
// to the output the product of the extents that are reduced or scanned; of all paths the largest.
// 1 where nothing is. Error: the arguments do not fit the fusion's inputs.
std::vector<double> accumulatedElements(const Fusion& fusion, std::span<const ArgView> args);

// For values that are sums of `elements` products or fewer. Integers are exact.
Tolerance toleranceOf(DataType dtype, double elements);

// For each output of the fusion, those that update inputs included.
std::vector<Tolerance> outputTolerances(const Fusion& fusion, std::span<const ArgView> args);

} // namespace nvfuser
