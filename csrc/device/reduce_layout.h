// SPDX-License-Identifier: BSD-3-Clause
// The shared memory that nvf::blockReduce, nvf::clusterReduce and nvf::gridReduce work in, for
// lowering.
#pragma once

#include <cstdint>
#include <initializer_list>

#define NVF_FN inline
#include <device/common/reduce_layout.h>
#undef NVF_FN

namespace nvfuser {

// One term of a reduction: how many values each thread brings, and the bytes of one (Welford: of
// its three parts together).
struct ReduceTermSize {
  int values = 1;
  int bytes = 4;
};

// The bytes that `workspace` must have, given the block extents that are printed as template
// arguments (see nvf::BlockShape) and the number of threads that the block has at most. 0 when the
// reduction stays within warps.
template <class Terms = std::initializer_list<ReduceTermSize>>
constexpr int64_t blockReduceWorkspaceBytes(nvf::BlockShape shape, int max_threads,
                                            const Terms& terms) {
  int values = 0;
  for (const ReduceTermSize& term : terms) {
    values += term.values;
  }
  const nvf::ReducePath path = nvf::reducePath(shape, values);
  int64_t bytes = 0;
  for (const ReduceTermSize& term : terms) {
    const int64_t slots = nvf::reduceSlots(path, max_threads, nvf::mostReduced(shape), term.values);
    bytes += (slots * term.bytes + 15) / 16 * 16;
  }
  return bytes;
}

// The same for nvf::clusterReduce in clusters of (at most) that many blocks: room for the partials
// of all of them in each.
template <class Terms = std::initializer_list<ReduceTermSize>>
constexpr int64_t clusterReduceWorkspaceBytes(nvf::BlockShape shape, int max_threads, int blocks,
                                              const Terms& terms) {
  using Path = nvf::ReducePath;
  int values = 0;
  for (const ReduceTermSize& term : terms) {
    values += term.values;
  }
  const Path path = nvf::reducePath(shape, values);
  const int extent = nvf::reducedExtent(shape);
  const bool by_warps = path == Path::Warps || path == Path::WarpsAtRunTime;
  const int fewest = path == Path::WarpsAtRunTime ? 32 : extent == 0 ? 1 : extent;
  int kept = 1; // threads whose results differ; 0: known only at run time
  for (int i = 0; i < 3; ++i) {
    kept *= shape.reduced[i] ? 1 : shape.extent[i] < 0 ? 0 : shape.extent[i];
  }
  const int segments = path == Path::WarpsAtRunTime && kept > 0 ? kept : max_threads / fewest;
  const int64_t slots =
      int64_t{segments} *
      nvf::powerOfTwoAbove(blocks * (by_warps ? nvf::mostReduced(shape) / 32 : 1));
  int64_t bytes = 0;
  for (const ReduceTermSize& term : terms) {
    bytes += (slots * term.values * term.bytes + 15) / 16 * 16;
  }
  return bytes + (by_warps || path == Path::Lanes
                      ? 0
                      : blockReduceWorkspaceBytes(shape, max_threads, terms));
}

// The bytes of global memory that nvf::gridReduce keeps the partials of a grid in; `segments` is
// the number of threads of a block whose results differ.
template <class Terms = std::initializer_list<ReduceTermSize>>
constexpr int64_t gridReduceWorkspaceBytes(int64_t blocks, int64_t segments, const Terms& terms) {
  int64_t bytes = 0;
  for (const ReduceTermSize& term : terms) {
    bytes += (blocks * segments * term.values * term.bytes + 15) / 16 * 16;
  }
  return bytes;
}

} // namespace nvfuser
