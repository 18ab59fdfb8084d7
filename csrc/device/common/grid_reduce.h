// Reductions over the blocks of a grid in one launch: every block leaves its partials in global
// memory, the one that arrives last combines them.
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

//@ piece nvf::gridPartials
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
  if (place.rank == 0) {
#pragma unroll
    for (int i = 0; i < Term::kValues; ++i) {
      to.data[to.block_stride * grid.rank + to.value_stride * i + place.segment] = term.load(i);
    }
  }
}

// Each thread of a segment takes every so-manieth block.
template <class Term>
NVF_FN void combinePartials(Term term, nvf::GridSegment grid, int groups, nvf::SegmentPlace place,
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

//@ piece nvf::gridReduce also nvf::gridPartials
// GX, GY, GZ: the block indices that are reduced over; the others as for nvf::blockReduce. Every
// block of the grid calls it. True in all threads of the block that arrives last in its group: they
// hold the result. `global_workspace` has room for the partials of all blocks
// (device/reduce_layout.h), `semaphores` has a counter for each group: zero before and zero after.
namespace nvf {
template <bool GX, bool GY, bool GZ, bool RX, bool RY, bool RZ, int BX, int BY, int BZ,
          class... Terms>
NVF_FN bool gridReduce(char* global_workspace, unsigned* semaphores, nvf::Workspace workspace,
                       Terms... terms) {
  nvf::blockReduce<RX, RY, RZ, BX, BY, BZ>(workspace, terms...);
  const auto grid = nvf::gridSegment<GX, GY, GZ>();
  if (grid.blocks == 1) {
    return true;
  }
  const auto place = nvf::segmentOf<RX, RY, RZ>(nvf::threadPlace<BX, BY, BZ>());
  const nvf::ThreadPlace g = nvf::blockPlace();
  const int groups = g.threads() / grid.blocks;
  char* next = global_workspace;
  (storePartials(terms, grid, groups, place, next), ...);
  if (!nvf::isLastBlock(semaphores + grid.segment, grid.blocks, workspace)) {
    return false;
  }
  (combinePartials(terms, grid, groups, place, global_workspace), ...);
  nvf::blockReduce<RX, RY, RZ, BX, BY, BZ>(workspace, terms...);
  return true;
}
} // namespace nvf
