// SPDX-License-Identifier: BSD-3-Clause
// Results that are concatenations, written part by part: see the .cpp.
#pragma once

#include <fusion.h>
#include <preseg_passes/in_place_write.h>
#include <preseg_passes/moved_views.h>

#include <cstdint>
#include <vector>

namespace nvfuser {

// A concatenation of computed tensors that is an output, and read by nobody else.
struct CatInParts {
  CatOp* cat = nullptr;
  // What a stack joins lacks the dimension along which it lies side by side.
  std::vector<TensorView*> parts;
  bool of_stack = false;
  // That is worth it only where many elements of a part lie together: the parts would be computed
  // with little in common, and vectors of the whole are lost.
  bool needs_runs = false;
  // Each is computed element by element, with the loops of the others, if these have its size.
  bool in_one_kernel = false;
  // What several parts are made of.
  std::vector<const TensorView*> read_by_several;
  // Some part is more than a copy.
  bool is_computed = false;
  // For each part: it needs a kernel that does not compute the others, as it depends on reductions,
  // on a library or on a scan. Nothing cuts it after that.
  std::vector<bool> has_own_kernel;
  // Or another result has its loops.
  std::vector<bool> has_sibling;
};

// Makes concatenations the last operations before outputs, rather than to compute single elements
// of what they join after it, or to permute it, if any of that is computed. Those that join
// concatenations join the parts of these.
void computeBeforeCats(Fusion* fusion);

// In the fusion's order.
std::vector<CatInParts> catsInParts(const Fusion* fusion);

// `which` has a bit for each of catsInParts(): its parts become outputs in its place, and are
// entered in `parts`. Outputs that are written to inputs stay.
void writeCatsInParts(Fusion* fusion, uint64_t which, const std::vector<InPlaceWrite>& writes,
                      std::vector<OutputPart>& parts);

} // namespace nvfuser
