// The last block's combination of the partials of all blocks, on the GPU.
#pragma once

//@ piece nvf::combineBlocks also nvf::takePartials
// Where the block is a matrix of columns (Path::Columns), each thread takes one value of one segment
// from some of the blocks: all threads have something to load, side by side, and little goes
// through shared memory. The workspace is that of the reduction over the block, which is no smaller.
namespace nvf {
template <int Rows, int Columns, int Threads, class Term>
NVF_FN void takeColumnsOfBlocks(Term term, nvf::GridSegment grid, int groups, int thread,
                                int segments, char*& global_workspace, char*& workspace) {
  using V = typename Term::Value;
  constexpr int kChunk = nvf::partsAtOnce<V>;
  constexpr int kStride = nvf::columnLayout(Rows, Columns, Threads).stride;
  const auto from = nvf::gridPartials(term, grid, groups, segments, global_workspace);
  V* slots = nvf::takeColumns<Rows, Columns, Threads, V>(workspace);
  const int row = thread / Columns;
#pragma unroll 1
  for (int column = thread % Columns; column < Columns && row < Rows; column += Threads) {
    V result = Term::identity();
#pragma unroll 1
    for (int first = row; first < grid.blocks; first += Rows * kChunk) {
      V chunk[kChunk];
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        const int block = first + i * Rows;
        chunk[i] = block < grid.blocks
                       ? nvf::loadFresh(from.data + from.block_stride * block + column)
                       : Term::identity();
      }
      const V part = Term::template combineAll<kChunk>(chunk);
      result = first == row ? part : Term::combine(result, part);
    }
    slots[row * kStride + column] = result;
  }
}

template <int Segments, int Threads, class... Terms>
NVF_FN void combineBlocksByColumns(nvf::GridSegment grid, int groups, int thread,
                                   nvf::SegmentPlace place, char* global_workspace,
                                   char* workspace, Terms... terms) {
  constexpr auto rowsOf = [](int values) {
    return Threads / (Segments * values) < 1 ? 1 : Threads / (Segments * values);
  };
  char* next = workspace;
  (takeColumnsOfBlocks<rowsOf(Terms::kValues), Segments * Terms::kValues, Threads>(
       terms, grid, groups, thread, Segments, global_workspace, next),
   ...);
  nvf::syncBlock();
  next = workspace;
  (nvf::combineColumns<rowsOf(Terms::kValues), Segments * Terms::kValues, Threads>(terms, thread,
                                                                                  next),
   ...);
  nvf::syncBlock();
  (nvf::loadColumns<rowsOf(Terms::kValues), Segments * Terms::kValues, Threads>(terms, place,
                                                                               workspace),
   ...);
}

template <bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
NVF_FN void combineBlocks(nvf::GridSegment grid, int groups, char* global_workspace,
                          char* workspace, Terms... terms) {
  constexpr nvf::BlockShape kShape = {{RX, RY, RZ}, {BX, BY, BZ}};
  if constexpr (nvf::reducePath(kShape, nvf::valuesOf<Terms...>) == nvf::ReducePath::Columns) {
    constexpr int kThreads = BX * BY * BZ;
    const auto t = nvf::threadPlace<BX, BY, BZ>();
    nvf::combineBlocksByColumns<kThreads / nvf::reducedExtent(kShape), kThreads>(
        grid, groups, t.number(), nvf::segmentOf<RX, RY, RZ>(t), global_workspace, workspace,
        terms...);
  } else {
    nvf::takeAndReduce<RX, RY, RZ, BX, BY, BZ>(grid, groups, global_workspace, workspace, terms...);
  }
}
} // namespace nvf
