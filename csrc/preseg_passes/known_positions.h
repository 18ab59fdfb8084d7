// SPDX-License-Identifier: BSD-3-Clause
// Positions that are known before anything runs: (i + 3) % n of a roll, i + 2 of a window.
#pragma once

#include <ir/nodes.h>

#include <cstdint>
#include <vector>

namespace nvfuser {

// first, first + step, ...
struct Run {
  int64_t first;
  int64_t count;
  int64_t step;
  int64_t last() const {
    return first + (count - 1) * step;
  }
};

// The elements of a tensor of integers with one dimension. Empty: they are not known, or of more
// than two runs.
std::vector<Run> knownPositions(const TensorView* tv);

} // namespace nvfuser
