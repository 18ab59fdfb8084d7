// SPDX-License-Identifier: BSD-3-Clause
// Tensors that are contiguous along another dimension than the loops of a kernel run along: their
// elements change threads in a tile of shared memory, so that all of global memory is accessed by
// vectors.
//
// A block has a tile: dimension 1 is what the threads of the kernel's own loops run along (the
// first group of tensors), dimension 2 is what the tensors are contiguous along that are exchanged
// (the second group). Copies between global memory and the tile have loops of their own, whose
// vectors run along dimension 2, and share nothing with the other loops but those around the tile.
#pragma once

#include <ir/nodes.h>

#include <cstdint>
#include <vector>

namespace nvfuser {

// Axes of a tensor when it has been split into tiles and no further.
struct TileAxes {
  std::vector<IterDomain*> leading; // around the tile, outermost first
  std::vector<IterDomain*> others;  // of one element
  IterDomain* dimension_2 = nullptr;
  IterDomain* dimension_1 = nullptr;
};

// Takes the inner `factor` iterations off.
IterDomain* splitOff(IterDomain*& id, int64_t factor);

class TileExchange {
 public:
  // Elements along the tile's dimensions, and of the groups' vectors.
  int64_t tile_1 = 1;
  int64_t tile_2 = 1;
  int64_t vector_1 = 1;
  int64_t vector_2 = 1;
  int64_t threads_x = 1;
  int64_t threads_y = 1;
  bool unswitch = false; // whole tiles are copied without predicates
  bool threads_in_loops = false;

  // Loops of a copy of the second group, which it is given; the copies are
  //   global memory -> shared, or global memory -> registers -> shared
  // of an input, and the other way round of an output.
  void scheduleCopy(TensorView* tv, const TileAxes& axes) const;
  // Where the tile's elements lie in shared memory.
  void allocate(TensorView* shared, const TileAxes& axes) const;
  // Of shared memory, with what the swizzle adds.
  int64_t bytes(DataType dtype) const;
  // Around each tile: the last of the leading loops is split, if only in form, for a guard that is
  // evaluated once.
  static IterDomain* unswitched(std::vector<IterDomain*>& leading);

 private:
  int64_t chunkWidth(DataType dtype) const;
  int64_t rowsOfLine(DataType dtype) const;
  int64_t permutedChunks(DataType dtype) const;
};

} // namespace nvfuser
