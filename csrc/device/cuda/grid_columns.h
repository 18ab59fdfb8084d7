// SPDX-License-Identifier: BSD-3-Clause
// What the blocks of a reduction over the grid do before and after they count themselves, on the
// GPU.
#pragma once

//@ piece nvf::ColumnOfGrid nvf::takeColumnsOfBlocks
// Where the block is a matrix of columns (Path::Columns), the results of its columns go to global
// memory as they are made, and the last block deals its threads to the columns: all of them have
// something to load, side by side, and little goes through shared memory.
namespace nvf {
template <class V>
struct ColumnOfGrid {
  nvf::GridPartials<V> partials;
  int block;

  NVF_FN void operator()(int column, V value) const {
    partials.store(block, column, value);
  }
};

template <int Rows, int Columns, int Threads, class Term>
NVF_FN void takeColumnsOfBlocks(Term, nvf::GridPartials<typename Term::Value> from, int blocks,
                                int thread, char*& workspace) {
  using V = typename Term::Value;
  constexpr int kChunk = 8;
  V* slots = nvf::takeColumns<Rows, Columns, Threads, V>(workspace);
  constexpr int kStride = nvf::columnLayout(Rows, Columns, Threads).stride;
  using Partials = nvf::GridPartials<V>;
  constexpr int kStep = Rows * Columns * Partials::kUnits; // offsets are constants
  const int row = thread / Columns;
#pragma unroll 1
  for (int column = thread % Columns; column < Columns && row < Rows; column += Threads) {
    V result = Term::identity();
    const typename Partials::Unit* next = from.place(row, column);
#pragma unroll 1
    for (int left = blocks - row; left > 0; left -= Rows * kChunk) {
      V chunk[kChunk];
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        chunk[i] = Term::identity();
        if (i * Rows < left) {
          chunk[i] = Partials::loadFrom(next + i * kStep, Columns);
        }
      }
      next += kChunk * kStep;
      result = Term::combine(result, Term::template combineAll<kChunk>(chunk));
    }
    slots[row * kStride + column] = result;
  }
}
} // namespace nvf

//@ piece nvf::GridWay
namespace nvf {
template <bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
struct GridWay {
  static constexpr nvf::BlockShape kShape = {{RX, RY, RZ}, {BX, BY, BZ}};
  using Path = nvf::ReducePath;
  static constexpr bool kByColumns =
      nvf::reducePath(kShape, nvf::valuesOf<Terms...>) == Path::Columns;
  static constexpr int kThreads = BX * BY * BZ;
  static constexpr int kRows = nvf::reducedExtent(kShape);
  static constexpr int kSegments = kByColumns ? kThreads / kRows : 1;

  // Rows of partials of other blocks. They take no more room than those of the block's threads.
  template <class Term>
  static constexpr int kOthersRows =
      kRows >= Term::kValues && kByColumns ? kRows / Term::kValues : 1;

  static NVF_FN void reduceBlock(nvf::GridSegment grid, int groups, char* global_workspace,
                                 char* workspace, Terms... terms) {
    if constexpr (kByColumns) {
      const auto t = nvf::threadPlace<BX, BY, BZ>();
      const auto place = nvf::segmentOf<RX, RY, RZ>(t);
      char* next = workspace;
      (nvf::storeColumns<kRows, kSegments * Terms::kValues, kThreads>(terms, place, next), ...);
      nvf::syncBlock();
      (nvf::combineColumns<kRows, kSegments * Terms::kValues, kThreads>(
           terms, t.number(), workspace,
           nvf::ColumnOfGrid<typename Terms::Value>{
               nvf::gridPartials(terms, grid, groups, kSegments, global_workspace), grid.rank}),
       ...);
    } else {
      nvf::reduceAndStore<RX, RY, RZ, BX, BY, BZ>(grid, groups, global_workspace, workspace,
                                                  terms...);
    }
  }

  static NVF_FN void combineBlocks(nvf::GridSegment grid, int groups, char* global_workspace,
                                   char* workspace, Terms... terms) {
    if constexpr (kByColumns) {
      const auto t = nvf::threadPlace<BX, BY, BZ>();
      const auto place = nvf::segmentOf<RX, RY, RZ>(t);
      char* next = workspace;
      (nvf::takeColumnsOfBlocks<kOthersRows<Terms>, kSegments * Terms::kValues, kThreads>(
           terms, nvf::gridPartials(terms, grid, groups, kSegments, global_workspace), grid.blocks,
           t.number(), next),
       ...);
      nvf::syncBlock();
      nvf::finishColumns<kThreads, kSegments, kOthersRows<Terms>...>(t.number(), place, workspace,
                                                                     terms...);
    } else {
      nvf::takeAndReduce<RX, RY, RZ, BX, BY, BZ>(grid, groups, global_workspace, workspace,
                                                 terms...);
    }
  }
};
} // namespace nvf
