// SPDX-License-Identifier: BSD-3-Clause
// How a block reduction works for a given shape of block, and how much shared memory it takes. This
// text is both a piece of the device library and, through device/reduce_layout.h, a header of the
// compiler, so that what lowering allocates is what the kernel uses. Plain constexpr functions.
#pragma once

//@ piece nvf::BlockShape nvf::ReducePath nvf::reducePath nvf::reducedExtent nvf::mostReduced
namespace nvf {
// Which thread dimensions are reduced, and the block's extents. 0 is an extent known only at run
// time, and so is -n, but that is a power of two up to 32 or a multiple of 32, and at most n.
struct BlockShape {
  bool reduced[3];
  int extent[3];
};

enum class ReducePath {
  // Nothing to combine.
  None,
  // Within aligned groups of lanes: shuffles, no memory, no barrier.
  Lanes,
  // Shuffles, then one partial of each warp in shared memory; one barrier.
  Warps,
  // Every thread's values in shared memory; each thread reads its segment; one barrier.
  Direct,
  // Every thread's values in shared memory; the segments are dealt to lanes; two barriers.
  Columns,
  // The same for extents that only the launch knows: a thread for each segment.
  All,
  // Warps or All, depending on the extents at run time.
  RunTime,
  // Lanes or Warps, depending on the one extent that is reduced.
  WarpsAtRunTime
};

// The number of threads of a segment (those that are combined); 0: known only at run time.
constexpr NVF_FN int reducedExtent(BlockShape shape) {
  int product = 1;
  for (int i = 0; i < 3; ++i) {
    product *= !shape.reduced[i] ? 1 : shape.extent[i] < 0 ? 0 : shape.extent[i];
  }
  return product;
}

// The same, but the most there may be where that is known.
constexpr NVF_FN int mostReduced(BlockShape shape) {
  int product = 1;
  for (int i = 0; i < 3; ++i) {
    product *= !shape.reduced[i] ? 1 : shape.extent[i] < 0 ? -shape.extent[i] : shape.extent[i];
  }
  return product;
}

constexpr NVF_FN ReducePath reducePath(BlockShape shape, int values_per_thread) {
  const int extent = nvf::reducedExtent(shape);
  if (extent == 1) {
    return ReducePath::None;
  }
  // Are the threads of a segment consecutive?
  bool is_linear = true, kept_before = false;
  for (int i = 0; i < 3; ++i) {
    is_linear = is_linear && !(shape.reduced[i] && shape.extent[i] != 1 && kept_before);
    kept_before = kept_before || (!shape.reduced[i] && shape.extent[i] != 1);
  }
  if (is_linear && extent == 0) {
    int others = 0; // reduced dimensions but for one of which enough is known
    for (int i = 0; i < 3; ++i) {
      others += shape.reduced[i] && shape.extent[i] != 1 ? (shape.extent[i] < 0 ? 1 : 2) : 0;
    }
    return others == 1 ? ReducePath::WarpsAtRunTime : ReducePath::RunTime;
  }
  if (is_linear && extent <= 32 && (extent & (extent - 1)) == 0) {
    return ReducePath::Lanes;
  }
  if (is_linear && extent % 32 == 0) {
    return ReducePath::Warps;
  }
  // What each thread would read.
  const bool is_cheap = extent != 0 && extent <= 8 && extent * values_per_thread <= 16;
  if (is_cheap) {
    return ReducePath::Direct;
  }
  const bool is_constant = shape.extent[0] > 0 && shape.extent[1] > 0 && shape.extent[2] > 0;
  return is_constant ? ReducePath::Columns : ReducePath::All;
}

} // namespace nvf

//@ piece nvf::powerOfTwoAbove
namespace nvf {
constexpr NVF_FN int powerOfTwoAbove(int value) {
  int power = 1;
  while (power < value) {
    power *= 2;
  }
  return power;
}
} // namespace nvf

//@ piece nvf::ColumnLayout nvf::columnLayout
// Partials in shared memory as a matrix: a row for each part, a column for each result. Each column
// is read by some lanes of one warp, which take the rows one after the other.
namespace nvf {
struct ColumnLayout {
  int rows, columns;
  int lanes;  // for a column
  int stride; // from row to row
  int threads;

  constexpr NVF_FN int slots() const {
    return rows * stride;
  }
  // A warp takes so many columns at a time, which begin at a multiple of that for the first time.
  constexpr NVF_FN int columnsOfWarp() const {
    return 32 / lanes;
  }
  constexpr NVF_FN int firstColumn(int thread) const {
    return thread / 32 * columnsOfWarp();
  }
  // From there to those that the warp takes next: what all threads take.
  constexpr NVF_FN int columnStep() const {
    return threads / lanes;
  }
  // Warps of 32 threads take columns that all exist, or none; where the last warp has fewer
  // threads, the next columns of the others begin anywhere.
  constexpr NVF_FN bool hasColumn(int first, int of_warp) const {
    return (columns % columnsOfWarp() == 0 && columnStep() % columnsOfWarp() == 0) ||
           first + of_warp < columns;
  }
};

constexpr NVF_FN ColumnLayout columnLayout(int rows, int columns, int threads) {
  int lanes = 1;
  while (threads % 32 == 0 && lanes < 32 && lanes * 2 <= rows && lanes * 2 * columns <= threads) {
    lanes *= 2;
  }
  // The rows that the lanes of a column read lie in different banks.
  const int padding = lanes > 1 && columns % 32 == 0 ? 32 / lanes : 0;
  return {rows, columns, lanes, columns + padding, threads};
}
} // namespace nvf

//@ piece nvf::reduceSlots
namespace nvf {
// How many values of a term are kept in shared memory. `segment_threads`: nvf::mostReduced.
constexpr NVF_FN int reduceSlots(nvf::ReducePath path, int threads, int segment_threads,
                                 int values) {
  using Path = nvf::ReducePath;
  switch (path) {
    case Path::None:
    case Path::Lanes:
      return 0;
    case Path::Warps:
      return threads / segment_threads * nvf::powerOfTwoAbove(segment_threads / 32) * values;
    case Path::WarpsAtRunTime: // segments of one warp need none
      return (threads < 64 ? 1 : threads / 64) * nvf::powerOfTwoAbove(segment_threads / 32) *
             values;
    case Path::Columns:
      return nvf::columnLayout(segment_threads, threads / segment_threads * values, threads)
          .slots();
    default:
      return threads * values;
  }
}
} // namespace nvf
