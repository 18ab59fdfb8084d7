// How a block reduction works for a given shape of block, and how much shared memory it takes. This
// text is both a piece of the device library and, through device/reduce_layout.h, a header of the
// compiler, so that what lowering allocates is what the kernel uses. Plain constexpr functions.
#pragma once

//@ piece nvf::BlockShape nvf::ReducePath nvf::reducePath nvf::reducedExtent
namespace nvf {
// Which thread dimensions are reduced, and the block's extents; 0 is an extent known only at run
// time.
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
  // Every thread's values in shared memory; the segments are dealt to the threads; two barriers.
  All,
  // Warps or All, depending on the extents at run time.
  RunTime
};

// The number of threads of a segment (those that are combined); 0: known only at run time.
constexpr NVF_FN int reducedExtent(BlockShape shape) {
  int product = 1;
  for (int i = 0; i < 3; ++i) {
    product *= shape.reduced[i] ? shape.extent[i] : 1;
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
    return ReducePath::RunTime;
  }
  if (is_linear && extent <= 32 && (extent & (extent - 1)) == 0) {
    return ReducePath::Lanes;
  }
  if (is_linear && extent % 32 == 0) {
    return ReducePath::Warps;
  }
  // What each thread would read.
  const bool is_cheap = extent != 0 && extent <= 8 && extent * values_per_thread <= 16;
  return is_cheap ? ReducePath::Direct : ReducePath::All;
}

} // namespace nvf

//@ piece nvf::powerOfTwoAbove nvf::reduceSlots
namespace nvf {
constexpr NVF_FN int powerOfTwoAbove(int value) {
  int power = 1;
  while (power < value) {
    power *= 2;
  }
  return power;
}

// How many times the values of one thread are kept in shared memory.
constexpr NVF_FN int reduceSlots(nvf::ReducePath path, int threads, int segment_threads) {
  using Path = nvf::ReducePath;
  if (path == Path::None || path == Path::Lanes) {
    return 0;
  }
  return path == Path::Warps
             ? threads / segment_threads * nvf::powerOfTwoAbove(segment_threads / 32)
             : threads;
}
} // namespace nvf
