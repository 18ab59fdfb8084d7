// SPDX-License-Identifier: BSD-3-Clause
// Partials of the blocks of a grid in global memory: where they are, and ways to combine them.
#pragma once

//@ piece nvf::GridSegment nvf::gridSegment
// A block's number among those that it is combined with, and the number of that group.
namespace nvf {
struct GridSegment {
  int rank, blocks;
  int segment;
};

template <bool GX, bool GY, bool GZ>
NVF_FN GridSegment gridSegment() {
  const nvf::ThreadPlace g = nvf::blockPlace();
  const nvf::SegmentPlace s = nvf::segmentOf<GX, GY, GZ>(g);
  return {s.rank, s.threads, s.segment};
}
} // namespace nvf

//@ piece nvf::gridPartials nvf::GridPartials nvf::storePartials nvf::takePartials
// Where a term has its partials: [group of blocks][block][unit][value][segment of threads]. A
// partial of several words is kept word by word, so that neighbours are next to each other.
namespace nvf {
template <class V>
struct GridPartials {
  static constexpr int kUnitBytes = alignof(V) < 16 ? alignof(V) : 16;
  static constexpr int kUnits = static_cast<int>(sizeof(V)) / kUnitBytes;
  using Unit = nvf::Vector<kUnitBytes>;
  Unit* data;  // of the group
  int columns; // value * segments + segment

  NVF_FN Unit* place(int block, int column) const {
    return data + static_cast<long long>(block) * (kUnits * columns) + column;
  }
  NVF_FN void store(int block, int column, V value) const {
    Unit* to = place(block, column);
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      nvf::storeFresh(to + i * columns, reinterpret_cast<const Unit*>(&value)[i]);
    }
  }
  NVF_FN V load(int block, int column) const {
    return loadFrom(place(block, column), columns);
  }
  static NVF_FN V loadFrom(const Unit* from, int columns) {
    V value;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      reinterpret_cast<Unit*>(&value)[i] = nvf::loadFresh(from + i * columns);
    }
    return value;
  }
};

template <class Term>
NVF_FN GridPartials<typename Term::Value> gridPartials(Term, nvf::GridSegment grid, int groups,
                                                       int segments, char*& workspace) {
  using Partials = GridPartials<typename Term::Value>;
  const int columns = Term::kValues * segments;
  const long long group = static_cast<long long>(columns) * grid.blocks * Partials::kUnits;
  auto* data = reinterpret_cast<typename Partials::Unit*>(workspace) + group * grid.segment;
  workspace += (group * groups * Partials::kUnitBytes + 15) / 16 * 16;
  return {data, columns};
}

template <class Term>
NVF_FN void storePartials(Term term, nvf::GridSegment grid, int groups, nvf::SegmentPlace place,
                          char*& workspace) {
  const auto to = gridPartials(term, grid, groups, place.segments, workspace);
  if (place.rank == 0) {
#pragma unroll
    for (int i = 0; i < Term::kValues; ++i) {
      to.store(grid.rank, i * place.segments + place.segment, term.load(i));
    }
  }
}

// Each thread of a segment takes every so-manieth block.
template <class Term>
NVF_FN void takePartials(Term term, nvf::GridSegment grid, int groups, nvf::SegmentPlace place,
                         char*& workspace) {
  const auto from = gridPartials(term, grid, groups, place.segments, workspace);
#pragma unroll
  for (int i = 0; i < Term::kValues; ++i) {
    term.store(i, Term::identity());
  }
#pragma unroll 4
  for (int block = place.rank; block < grid.blocks; block += place.threads) {
#pragma unroll
    for (int i = 0; i < Term::kValues; ++i) {
      term.store(i,
                 Term::combine(term.load(i), from.load(block, i * place.segments + place.segment)));
    }
  }
}
} // namespace nvf

//@ piece nvf::takeAndReduce
// The partials of all blocks, combined by threads that bring all values of a segment.
namespace nvf {
template <bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
NVF_FN void takeAndReduce(nvf::GridSegment grid, int groups, char* global_workspace,
                          nvf::Workspace workspace, Terms... terms) {
  const auto place = nvf::segmentOf<RX, RY, RZ>(nvf::threadPlace<BX, BY, BZ>());
  (nvf::takePartials(terms, grid, groups, place, global_workspace), ...);
  nvf::blockReduce<RX, RY, RZ, BX, BY, BZ>(workspace, terms...);
}
} // namespace nvf

//@ piece nvf::reduceAndStore
// The block's own results, as partials of the grid.
namespace nvf {
template <bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
NVF_FN void reduceAndStore(nvf::GridSegment grid, int groups, char* global_workspace,
                           nvf::Workspace workspace, Terms... terms) {
  const auto place = nvf::segmentOf<RX, RY, RZ>(nvf::threadPlace<BX, BY, BZ>());
  nvf::blockReduce<RX, RY, RZ, BX, BY, BZ>(workspace, terms...);
  (nvf::storePartials(terms, grid, groups, place, global_workspace), ...);
}
} // namespace nvf
