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
  // Columns, as a stack joins them, lack the dimension along which they lie side by side.
  std::vector<TensorView*> parts;
  bool of_columns = false;
  // Each is computed element by element, with the loops of the others, if these have its size.
  bool in_one_kernel = false;
  // For each part: it needs a kernel that does not compute the others, as it depends on reductions,
  // on a library or on a scan. Nothing cuts it after that.
  std::vector<bool> has_own_kernel;
};

// Makes concatenations the last operations before outputs, rather than to compute single elements
// of what they join after it, if any of that is computed. Those that join concatenations join the
// parts of these.
void computeBeforeCats(Fusion* fusion);

// In the fusion's order.
std::vector<CatInParts> catsInParts(const Fusion* fusion);

// `which` has a bit for each of catsInParts(): its parts become outputs in its place, and are
// entered in `parts`. Outputs that are written to inputs stay.
void writeCatsInParts(Fusion* fusion, uint64_t which, const std::vector<InPlaceWrite>& writes,
                      std::vector<OutputPart>& parts);

} // namespace nvfuser
