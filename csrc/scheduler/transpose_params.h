// SPDX-License-Identifier: BSD-3-Clause
// Parameters of the transpose scheduler (transpose.h).
#pragma once

#include <scheduler/param_fields.h>

#include <vector>

namespace nvfuser {

// Blocks compute tiles of tile_2 x tile_1 elements: dimension 1 is the innermost one of the first
// group of tensors, dimension 2 that of the second. See transpose.cpp for the loops.
class TransposeParams : public ListedParams<TransposeParams> {
 public:
  static constexpr const char* kTitle = "Transpose Parameters";

  TransposeParams() : ListedParams(SchedulerType::Transpose) {
    tag = "Transpose heuristics";
  }

  // Number of axes, counted from the innermost in the group's memory, that are merged into the
  // tile's dimension.
  int64_t merged_1 = 1;
  int64_t merged_2 = 1;
  // Extents of a tile and widths of the groups' vectors in elements, and threads of a block: powers
  // of two.
  int64_t tile_1 = 32;
  int64_t tile_2 = 32;
  int64_t vectorization_1 = 1;
  int64_t vectorization_2 = 1;
  int64_t threads = 128;
  // Consecutive blocks lie along dimension 2 rather than 1.
  bool blocks_along_2 = false;
  // One thread of the machine runs a block's threads in loops (MachineModel::threads_in_loops):
  // tiles lie in memory as they are, and nothing waits in registers until all is loaded.
  bool threads_in_loops = false;
  // As in PointwiseParams.
  std::vector<int64_t> not_vectorized;

  template <class Visitor>
  static void fields(Visitor&& visit) {
    visit("merged_1", &TransposeParams::merged_1);
    visit("merged_2", &TransposeParams::merged_2);
    visit("tile_1", &TransposeParams::tile_1);
    visit("tile_2", &TransposeParams::tile_2);
    visit("vectorization_1", &TransposeParams::vectorization_1);
    visit("vectorization_2", &TransposeParams::vectorization_2);
    visit("threads", &TransposeParams::threads);
    visit("blocks_along_2", &TransposeParams::blocks_along_2);
    visit("threads_in_loops", &TransposeParams::threads_in_loops);
    visit("not_vectorized", &TransposeParams::not_vectorized);
  }

  // Threads along dimension 1, and the rest of them.
  int64_t blockDimX() const;
  int64_t blockDimY() const;
  // Error if the numbers do not fit together.
  void check() const;
};

} // namespace nvfuser
