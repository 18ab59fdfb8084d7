// SPDX-License-Identifier: BSD-3-Clause
// The loops of a reduction kernel: those that its reference, a reduction, gets by the parameters.
// All other tensors follow them.
#pragma once

#include <scheduler/reduction_analysis.h>
#include <scheduler/reduction_params.h>

#include <functional>
#include <span>
#include <vector>

namespace nvfuser {

// Positions among the reference's loop axes.
struct ReferenceAxes {
  bool has_row_groups = false; // there is a loop over the rows of a persistent row group:
  int64_t rows = 0;            // this one
  int64_t tile = 0;            // leading axes around what a block has of all its rows at a time
  int64_t outer = 0;           // leading axes around a row
  int64_t batch = 0;           // first axis of the batch that is loaded at once
  int64_t bulk = 0;            // first axis of what a block reads of a row at once
  int64_t within_thread = -1;  // short dimensions (RowDims); -1: none
  int64_t trivial = 0;         // first of the dimensions of size 1
  int64_t num_trivial = 0;
  int64_t vector = -1; // -1: none
};

class ReferenceLoops {
 public:
  ReferenceLoops(Fusion* fusion, const ReductionAnalysis& analysis, const ReductionParams& params)
      : fusion_(fusion), analysis_(analysis), params_(params) {}

  // For each of several sets of reductions the axes are the same. Where tensors are exchanged
  // `at_tiles` is called when the reference has the axes [..., rows of the block (ReferenceAxes::
  // tile), the row, dimensions of size 1]. `kind_of` tells the reference's dimensions apart.
  enum class DimKind : uint8_t { Rows, Subrows, AlongRow, Short };
  void schedule(TensorView* reference, const std::function<DimKind(const IterDomain*)>& kind_of,
                const std::function<void()>& at_tiles = nullptr);
  const ReferenceAxes& axes() const {
    return axes_;
  }

 private:
  static IterDomain* splitInner(IterDomain*& id, Val* factor);
  static IterDomain* splitInner(IterDomain*& id, int64_t factor);
  static IterDomain* splitOuter(IterDomain*& id, Val* factor);
  static IterDomain* splitOuter(IterDomain*& id, int64_t factor);
  static Val* constant(IterDomain* id, int64_t value);
  void place(IterDomain* id, ParallelType type = ParallelType::Serial);
  static IterDomain* mergeAll(std::span<IterDomain* const> ids);
  // What lies in one piece of memory first: its index takes no division then.
  IterDomain* mergeReduced(std::vector<IterDomain*> ids) const;
  void placeRowGroups(IterDomain* rows, Val* count);
  void placeRows(IterDomain* rows);
  void checkExchange(const IterDomain* rows) const;
  void scheduleInner(IterDomain* row);
  void splitRowsOfTiles(std::vector<IterDomain*>& kept);
  IterDomain* splitRowsOfBlock(IterDomain*& rows);
  void placeSubrows();
  void placePersistentRow(IterDomain* row);
  void placePieces(IterDomain* row);
  IterDomain* splitThreadsOfRow(IterDomain*& row);
  IterDomain* splitBlocksOfRow(IterDomain*& row);
  void chooseAtLaunch(const IterDomain* rows, const IterDomain* row, Val* length);
  static Val* powerOfTwo(Val* v, int64_t fewest, int64_t most);
  static Val* wholeWarps(Val* threads, bool needs_warps);
  void scheduleOuter(IterDomain* columns, IterDomain* row);
  Val* blocksForColumns(const IterDomain* columns, const IterDomain* iterations);
  void placeSharingBlocks(IterDomain* blocks);
  void placeVectors(IterDomain* vectors);

  Fusion* fusion_;
  const ReductionAnalysis& analysis_;
  const ReductionParams& params_;
  ReferenceAxes axes_;
  std::vector<IterDomain*> order_;     // the reference's loop axes
  IterDomain* short_ = nullptr;        // its short dimensions
  IterDomain* subrows_ = nullptr;      // what a row has several of (params_.has_subrows)
  std::vector<IterDomain*> trivial_;   // its dimensions of size 1
  IterDomain* rows_of_tile_ = nullptr; // where they were split off before
  IterDomain* rows_of_thread_ = nullptr;
  // Of rows of any length: what the launch chooses.
  Val* threads_of_row_ = nullptr;
  Val* warps_of_row_ = nullptr; // with warp_pieces
  Val* blocks_of_row_ = nullptr;
  Val* rows_of_block_ = nullptr;
};

} // namespace nvfuser
