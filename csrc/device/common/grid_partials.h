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

//@ piece nvf::gridPartials nvf::takePartials
// Where a term has its partials: [group of blocks][block][value][segment of threads].
namespace nvf {
template <class Term>
struct GridPartials {
  typename Term::Value* data; // of the group
  long long block_stride, value_stride;
};

template <class Term>
NVF_FN GridPartials<Term> gridPartials(Term, nvf::GridSegment grid, int groups, int segments,
                                       char*& workspace) {
  using V = typename Term::Value;
  const long long block_stride = static_cast<long long>(Term::kValues) * segments;
  const long long group_stride = block_stride * grid.blocks;
  V* data = reinterpret_cast<V*>(workspace) + group_stride * grid.segment;
  const long long bytes = group_stride * groups * static_cast<long long>(sizeof(V));
  workspace += (bytes + 15) / 16 * 16;
  return {data, block_stride, segments};
}

template <class Term>
NVF_FN void storePartials(Term term, nvf::GridSegment grid, int groups, nvf::SegmentPlace place,
                          char*& workspace) {
  const auto to = gridPartials(term, grid, groups, place.segments, workspace);
  // All threads of the segment have them.
#pragma unroll
  for (int i = 0; i < Term::kValues; ++i) {
    if (place.rank == (i < place.threads ? i : 0)) {
      to.data[to.block_stride * grid.rank + to.value_stride * i + place.segment] = term.load(i);
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
    const auto* values = from.data + from.block_stride * block + place.segment;
#pragma unroll
    for (int i = 0; i < Term::kValues; ++i) {
      term.store(i, Term::combine(term.load(i), nvf::loadFresh(values + from.value_stride * i)));
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
