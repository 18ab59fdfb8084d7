// SPDX-License-Identifier: BSD-3-Clause
// Choosing parameters of reductions and normalizations for given shapes: one object for a fusion
// and its shapes. What reductions of rows and of columns get is in reduction_heuristics.cpp, what
// keeps rows or columns on chip in persistent_heuristics.cpp, and what is copied to shared memory
// for that in staging_heuristics.cpp; all use what comes first.
#pragma once

#include <scheduler/outer_persistent.h>
#include <scheduler/reduction.h>
#include <scheduler/row_groups.h>
#include <scheduler/stage_splitter.h>

#include <memory>
#include <string>

namespace nvfuser::reduction {

// Sources of numbers: see machine.h; [widths] is docs/measurements/dynamic_widths.md.

// Bytes of the weights that all rows share, for an element: more leave no registers for the row.
inline constexpr double kFewWeights = 2;
// Elements of a vector that is not worth halving [hand].
inline constexpr int64_t kFewElements = 4;
// Rows that are on their way by bulk copies, the one in use included [hand].
inline constexpr int64_t kMostStages = 4;

class ReductionChooser {
 public:
  ReductionChooser(SchedulerType type, Fusion* fusion, const ReductionAnalysis& analysis,
                   SchedulerRuntimeInfo& info);
  ChosenParams run();

 private:
  int64_t mostElements() const;
  int64_t elementsOfPosition() const;
  int64_t elementsOfThread() const;
  int64_t fewerElements() const;
  int64_t largeBlock() const;
  int64_t thirdOfShared() const;
  bool wantsAnyExtent(bool of_rows) const;
  int64_t vectorsOfRow() const;
  int64_t unrollFor(int64_t vectors_per_thread) const;
  double rowBytes() const;
  bool isNarrow() const;

  // --- vectors ---
  int64_t possibleWidth(const TensorView* tv, bool along_row);
  int64_t widthOfRun(const TensorView* tv, const std::vector<IterDomain*>& dims,
                     const ContiguousRun& run);
  int64_t widestVector() const;
  void chooseVectors();
  void limitVectors(int64_t most);
  void setInnerVector();
  bool isAlongShort(const TensorView* tv) const;
  int64_t shortWidth(const TensorView* tv);
  int64_t vectorByLines(int64_t widest);
  int64_t vectorWithinColumns(int64_t widest) const;
  int64_t strideAlong(const TensorView* tv) const;
  void alignRows(int64_t narrow_bytes, int64_t fewest_vectors);
  bool isOneRow(const TensorView* tv) const;

  // --- reductions of rows ---
  bool isForOneThread(int64_t vectors) const;
  int64_t threadsForRow(int64_t vectors, int64_t each, int64_t most) const;
  void shareRows();
  int64_t vectorsAtOnce(int64_t vectors, int64_t threads) const;
  bool looksUp() const;
  int64_t fastestThreads(int64_t vectors);
  int64_t rowsOfBlock(int64_t threads_x);
  bool startsTooMany(int64_t blocks);
  void bindRows(int64_t threads_x);
  void bindAnyRows(int64_t most_threads, int64_t most_rows);
  void chooseInner();
  bool shareLookups(int64_t vectors);
  void splitInnerOverGrid(int64_t iterations);

  // --- reductions of columns ---
  int64_t vectorBytes() const;
  // A block's threads, and how many blocks share its columns, all of which run at once.
  struct ColumnsOfBlock {
    int64_t threads_x = 1;
    int64_t threads_y = 1;
    int64_t split = 1;
    int64_t threadsOfColumn() const {
      return threads_y * split;
    }
  };
  ColumnsOfBlock columnsOfBlock(int64_t columns, int64_t line, int64_t at_once) const;
  void chooseOuter();
  void bindColumns(int64_t threads_x, int64_t threads_y, int64_t unroll);
  void splitColumnsOverGrid(int64_t blocks);
  void chooseAnyColumns();
  int64_t mostOuterThreads() const;
  int64_t rowsAtOnce(int64_t bytes) const;
  int64_t busyThreads(int64_t rows) const;

  // --- blocks whose threads run in loops ---
  void chooseInLoops();

  // --- what stays on chip ---
  void makePersistent();
  void keepRowOnChip(int64_t batch);
  void bindCluster(int64_t blocks);
  void chooseOuterPersistent();
  ColumnsOnChip columnsOnChip();

  // --- persistent row groups ---
  void chooseInnerOuter();
  void groupAnyRows(const AnyRowGroups& groups);
  int64_t batchOfAnyRowInLoops(int64_t batch, int64_t threads) const;
  bool canKeepComputed(const RowGroups& groups) const;
  void stageGroupedRows(const RowGroups& groups);
  struct BytesOfRow {
    double whole = 0;
    double parts = 0;
  };
  BytesOfRow bytesOfRow() const;
  bool canLoadPartsAhead(int64_t threads) const;

  // --- persistent rows ---
  void chooseNormalization();
  void chooseSubrows();
  bool shareSubrows(int64_t subrows, int64_t most_threads, int64_t most_elements);
  void keepRowInRegisters(int64_t vectors, int64_t cluster);
  void countOnRegisters();
  bool readsUnaligned(int64_t cluster) const;
  int64_t usualElements(int64_t cluster) const;
  void halveVectors();
  int64_t bitsKept(KeptOfRows kept) const;
  int64_t keptElements() const;
  void projectLongRow(int64_t elements_of_thread);
  bool isCheapToRepeat() const;
  bool stageRows();
  bool rowsCopyAsync() const;
  void stageSharedInputs();

  // --- tensors that lie across the rows (exchange_heuristics.cpp) ---
  bool hasAllDimsAt(int64_t position) const;
  void findAcross();
  bool wantsExchange() const;
  void startExchange();
  bool exchangeRows();
  bool exchangeGroupedRows(const RowGroups& groups);
  int64_t bytesOfTiles(int64_t rows, bool of_inputs) const;
  int64_t bytesBesideRows(const RowGroups& groups, int64_t elements) const;
  const Val* tensorAt(int64_t position) const;
  int64_t narrowestAcross() const;
  void limitVectorsAcross(int64_t rows);
  bool isExchanged(size_t position) const;

  // --- aligned rows ---
  int64_t busyThreadsOf(int64_t vectors, int64_t threads) const;
  bool shareAlignedRow();
  int64_t mostAlignedVectors() const;
  int64_t alignedBatch(int64_t vectors) const;
  int64_t anyAlignedBatch(int64_t vectors) const;

  // --- rows of any length ---
  bool chooseAnyRow();
  bool shareAnyRow();
  static int64_t blocksOfRow(int64_t vectors, int64_t most_of_block);
  void leaveOpen(int64_t open);

  // --- bulk copies (NVFUSER_ENABLE=tma_inner_persistent, tma_reduction, ws_normalization) ---
  bool canBulkLoadRows();
  bool isStagedInBulk(const TensorView* tv) const;
  bool canBulkLoad(const TensorView* tv);
  void loadPersistentRowsInBulk();
  void reduceInBulk();
  bool loadByWarps();

  Fusion* fusion_;
  const ReductionAnalysis& analysis_;
  SchedulerRuntimeInfo& info_;
  const MachineModel& machine_;
  std::unique_ptr<ReductionParams> params_;
  int64_t kept_ = 1;
  int64_t reduced_ = 1;
  bool is_empty_ = false;       // one of them is 0
  std::string why_not_;         // there are no parameters
  std::vector<int64_t> across_; // of ReductionAnalysis::acrossRows, what is worth it
  int64_t vector_ = 1;
  int64_t blocks_ = 1; // without those that share a row or column; not a parameter: any number fits
  double bytes_per_element_ = 0; // read for each element of the iteration space
  double shared_bytes_ = 0;      // of them those that all rows share
  int shared_inputs_ = 0;        // how many these are
  int64_t bulk_bytes_ = 0;       // of those that bulk copies load
};

} // namespace nvfuser::reduction
