// SPDX-License-Identifier: BSD-3-Clause
// What the threads of a block do together, in kernels whose one thread runs all of them in loops
// (NVF_THREADS_IN_LOOPS): the values of all threads lie in arrays.
#pragma once

//@ piece nvf::apart
// Where registers of all threads are that lie in memory, so that the compiler does not see that
// they are an array of the function: it would take accesses to them for accesses to any other one,
// whose elements could not stay in registers of the processor then.
namespace nvf {
template <class T, int N, int Align>
NVF_FN T* apart(Array<T, N, Align>& room) {
  T* first = &room[0];
  asm("" : "+r"(first));
  return first;
}
} // namespace nvf

//@ piece nvf::TermOfThreads
// N values of every thread: `value_step` from one to the next, `thread_step` from thread to thread.
namespace nvf {
template <class Term, int N, int value_step, int thread_step>
struct TermOfThreads {
  using One = Term;
  static constexpr int kValues = N;
  Term first;

  static NVF_FN int place(int thread, int value) {
    return thread * thread_step + value * value_step;
  }
};
} // namespace nvf

//@ piece nvf::combineThreads
// Pairs of halves of `extent` threads that lie `step` apart are combined, until one is left; so for
// `columns` threads next to each other. Constant numbers: each round is straight vector code.
namespace nvf {
template <int extent, int step, int columns, class List>
NVF_FN void combineThreads(List list, int value, int first) {
  if constexpr (extent > 1) {
    constexpr int half = (extent + 1) / 2;
#pragma GCC ivdep
    for (int i = 0; i < (extent - half) * columns; ++i) {
      const int at = first + i / columns * step + i % columns;
      const int to = List::place(at, value);
      const int from = List::place(at + half * step, value);
      list.first.store(to, List::One::combine(list.first.load(to), list.first.load(from)));
    }
    nvf::combineThreads<half, step, columns>(list, value, first);
  }
}
} // namespace nvf

//@ piece nvf::reduceThreads nvf::reduceThreadsOf
// See nvf::blockReduce: all threads get the result of their segment. Constant extents.
namespace nvf {
template <bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class List>
NVF_FN void reduceThreadsOf(List list) {
  constexpr int kColumns = RX ? 1 : BX; // threads next to each other whose results differ
  for (int value = 0; value < List::kValues; ++value) {
    for (int row = 0; RX && row < BY * BZ; ++row) {
      nvf::combineThreads<BX, 1, 1>(list, value, row * BX);
    }
    for (int z = 0; RY && z < BZ; ++z) {
      nvf::combineThreads<BY, BX, kColumns>(list, value, z * BX * BY);
    }
    for (int y = 0; RZ && y < (RY ? 1 : BY); ++y) {
      nvf::combineThreads<BZ, BX * BY, kColumns>(list, value, y * BX);
    }
    for (int z = 0; z < BZ; ++z) {
      for (int y = 0; y < BY; ++y) {
        const int row = ((RZ ? 0 : z) * BY + (RY ? 0 : y)) * BX;
        const auto result = list.first.load(List::place(row, value));
#pragma GCC ivdep
        for (int x = 0; x < BX; ++x) {
          list.first.store(List::place((z * BY + y) * BX + x, value),
                           RX ? result : list.first.load(List::place(row + x, value)));
        }
      }
    }
  }
}

template <bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Lists>
NVF_FN void reduceThreads(Lists... lists) {
  (nvf::reduceThreadsOf<RX, RY, RZ, BX, BY, BZ>(lists), ...);
}
} // namespace nvf

//@ piece nvf::reduceThreadsOfGrid nvf::visitSegments nvf::partialsOf nvf::storePartialsOf nvf::takePartialsOf
// See nvf::gridReduce. Partials of a term: [group of blocks][block][value][segment of threads].
namespace nvf {
template <bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class Visit>
NVF_FN void visitSegments(Visit visit) {
  for (int z = 0; z < (RZ ? 1 : BZ); ++z) {
    for (int y = 0; y < (RY ? 1 : BY); ++y) {
#pragma GCC ivdep
      for (int x = 0; x < (RX ? 1 : BX); ++x) {
        visit((z * BY + y) * BX + x, (z * (RY ? 1 : BY) + y) * (RX ? 1 : BX) + x);
      }
    }
  }
}

template <bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class List>
NVF_FN typename List::One::Value* partialsOf(List, int groups, int group, int blocks,
                                             char*& workspace) {
  using Value = typename List::One::Value;
  const long long values = List::kValues * ((RX ? 1 : BX) * (RY ? 1 : BY) * (RZ ? 1 : BZ)) *
                           static_cast<long long>(blocks);
  auto* data = reinterpret_cast<Value*>(workspace) + group * values;
  workspace += (groups * values * static_cast<long long>(sizeof(Value)) + 15) / 16 * 16;
  return data;
}

template <bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class List>
NVF_FN void storePartialsOf(List list, int groups, int group, int blocks, int block,
                            char*& workspace) {
  constexpr int kSegments = (RX ? 1 : BX) * (RY ? 1 : BY) * (RZ ? 1 : BZ);
  auto* to = nvf::partialsOf<RX, RY, RZ, BX, BY, BZ>(list, groups, group, blocks, workspace);
  for (int value = 0; value < List::kValues; ++value) {
    auto* place = to + (static_cast<long long>(block) * List::kValues + value) * kSegments;
    nvf::visitSegments<RX, RY, RZ, BX, BY, BZ>([&](int thread, int segment) {
      place[segment] = list.first.load(List::place(thread, value));
    });
  }
}

template <bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class List>
NVF_FN void takePartialsOf(List list, int groups, int group, int blocks, char*& workspace) {
  constexpr int kSegments = (RX ? 1 : BX) * (RY ? 1 : BY) * (RZ ? 1 : BZ);
  auto* from = nvf::partialsOf<RX, RY, RZ, BX, BY, BZ>(list, groups, group, blocks, workspace);
  for (int block = 0; block < blocks; ++block) {
    for (int value = 0; value < List::kValues; ++value) {
      auto* place = from + (static_cast<long long>(block) * List::kValues + value) * kSegments;
      nvf::visitSegments<RX, RY, RZ, BX, BY, BZ>([&](int thread, int segment) {
        const int at = List::place(thread, value);
        list.first.store(at, block == 0 ? place[segment]
                                        : List::One::combine(list.first.load(at), place[segment]));
      });
    }
  }
  for (int value = 0; value < List::kValues; ++value) {
    for (int thread = BX * BY * BZ - 1; thread >= 0; --thread) {
      const int x = thread % BX, y = thread / BX % BY, z = thread / (BX * BY);
      const int own = ((RZ ? 0 : z) * BY + (RY ? 0 : y)) * BX + (RX ? 0 : x);
      list.first.store(List::place(thread, value), list.first.load(List::place(own, value)));
    }
  }
}

template <bool GX, bool GY, bool GZ, bool RX, bool RY, bool RZ, int BX, int BY, int BZ,
          class... Lists>
inline bool reduceThreadsOfGrid(nvf::HostDim index, nvf::HostDim grid, char* workspace,
                                unsigned* semaphores, Lists... lists) {
  const int blocks = static_cast<int>((GX ? grid.x : 1) * (GY ? grid.y : 1) * (GZ ? grid.z : 1));
  const int block = static_cast<int>(((GZ ? index.z : 0) * (GY ? grid.y : 1) + (GY ? index.y : 0)) *
                                         (GX ? grid.x : 1) +
                                     (GX ? index.x : 0));
  const int group = static_cast<int>(((GZ ? 0 : index.z) * (GY ? 1 : grid.y) + (GY ? 0 : index.y)) *
                                         (GX ? 1 : grid.x) +
                                     (GX ? 0 : index.x));
  const int groups = static_cast<int>(grid.x * grid.y * grid.z) / blocks;
  nvf::reduceThreads<RX, RY, RZ, BX, BY, BZ>(lists...);
  char* to = workspace;
  (nvf::storePartialsOf<RX, RY, RZ, BX, BY, BZ>(lists, groups, group, blocks, block, to), ...);
  unsigned* counter = semaphores + group;
  if (__atomic_fetch_add(counter, 1u, __ATOMIC_ACQ_REL) != static_cast<unsigned>(blocks - 1)) {
    return false;
  }
  __atomic_store_n(counter, 0u, __ATOMIC_RELEASE);
  char* from = workspace;
  (nvf::takePartialsOf<RX, RY, RZ, BX, BY, BZ>(lists, groups, group, blocks, from), ...);
  return true;
}
} // namespace nvf

//@ piece nvf::scanNeighbours nvf::scanThreads
// See nvf::blockScan: BX threads of each segment, and a carry for each thread.
namespace nvf {
// Elements that lie next to each other. Groups of them are scanned side by side, in steps of twice
// the distance; then each group gets what the ones before it have.
template <class Op, int BX, class T>
NVF_FN T scanNeighbours(T* values, T before) {
  constexpr int kGroup = 16;
  T other[BX];
  T* from = values;
  T* to = other;
  for (int distance = 1; distance < kGroup; distance *= 2) {
    for (int x = 0; x < distance; ++x) {
      to[x] = from[x];
    }
#pragma GCC ivdep
    for (int x = distance; x < BX; ++x) {
      const T sum = Op::combine(from[x - distance], from[x]);
      to[x] = x % kGroup >= distance ? sum : from[x];
    }
    T* const result = to;
    to = from;
    from = result;
  }
  for (int group = 0; group < BX; group += kGroup) {
    const T all = Op::combine(before, values[group + kGroup - 1]);
    for (int x = group; x < group + kGroup; ++x) {
      values[x] = Op::combine(before, values[x]);
    }
    before = all;
  }
  return before;
}

template <class Op, int BX, int threads, int N, int value_step, int thread_step, class T>
NVF_FN void scanThreads(T* values, T* carry) {
  for (int segment = 0; segment < threads / BX; ++segment) {
    T before = carry[segment * BX];
    if constexpr (N == 1 && thread_step == 1 && BX % 16 == 0) {
      before = nvf::scanNeighbours<Op, BX>(values + segment * BX, before);
    } else {
      for (int x = segment * BX; x < (segment + 1) * BX; ++x) {
        for (int i = 0; i < N; ++i) {
          T& value = values[x * thread_step + i * value_step];
          before = Op::combine(before, value);
          value = before;
        }
      }
    }
    for (int x = segment * BX; x < (segment + 1) * BX; ++x) {
      carry[x] = before;
    }
  }
}
} // namespace nvf

//@ piece nvf::copyTransposed nvf::RegisterSquare nvf::HostLane
// to[column * to_stride + row] = from[row * from_stride + column].
namespace nvf {
template <int Bytes>
struct HostLane;
template <>
struct HostLane<1> {
  using type = unsigned char;
};
template <>
struct HostLane<2> {
  using type = unsigned short;
};
template <>
struct HostLane<4> {
  using type = unsigned;
};
template <>
struct HostLane<8> {
  using type = unsigned long long;
};

// A square of elements whose rows have 16 bytes, what every vector unit has.
template <class Lane>
struct RegisterSquare {
  static constexpr int kSide = 16 / sizeof(Lane);
  typedef Lane Row __attribute__((vector_size(16), aligned(sizeof(Lane)), may_alias));

  // Lanes of two rows alternately, of their first or second halves.
  template <int Half, int... I>
  static NVF_FN Row interleaved(Row a, Row b, nvf::Indices<I...>) {
    return __builtin_shufflevector(a, b, (Half * kSide / 2 + I / 2 + I % 2 * kSide)...);
  }

  // Rows i and i + kSide / 2 become rows 2 i and 2 i + 1, interleaved: the bits of an element's
  // position, row before column, move on by one. As many times as a column has bits, and rows and
  // columns have changed places.
  static NVF_FN void copyTransposed(Lane* to, nvfuser_index_t to_stride, const Lane* from,
                                    nvfuser_index_t from_stride) {
    using All = typename nvf::MakeIndices<kSide>::type;
    Row rows[kSide];
#pragma GCC unroll 16
    for (int i = 0; i < kSide; ++i) {
      rows[i] = *reinterpret_cast<const Row*>(from + i * from_stride);
    }
#pragma GCC unroll 4
    for (int step = 1; step < kSide; step *= 2) {
      Row next[kSide];
#pragma GCC unroll 8
      for (int i = 0; i < kSide / 2; ++i) {
        next[2 * i] = interleaved<0>(rows[i], rows[i + kSide / 2], All());
        next[2 * i + 1] = interleaved<1>(rows[i], rows[i + kSide / 2], All());
      }
#pragma GCC unroll 16
      for (int i = 0; i < kSide; ++i) {
        rows[i] = next[i];
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kSide; ++i) {
      *reinterpret_cast<Row*>(to + i * to_stride) = rows[i];
    }
  }
};

template <class T>
NVF_FN void copyTransposed(T* to, nvfuser_index_t to_stride, const T* from,
                           nvfuser_index_t from_stride, nvfuser_index_t rows,
                           nvfuser_index_t columns) {
  nvfuser_index_t row = 0;
  if constexpr (sizeof(T) <= 8) {
    using Lane = typename nvf::HostLane<sizeof(T)>::type;
    using Square = nvf::RegisterSquare<Lane>;
    constexpr int kSide = Square::kSide;
    auto* const target = reinterpret_cast<Lane*>(to);
    const auto* const source = reinterpret_cast<const Lane*>(from);
    for (; row + kSide <= rows; row += kSide) {
      nvfuser_index_t column = 0;
      for (; column + kSide <= columns; column += kSide) {
        Square::copyTransposed(target + column * to_stride + row, to_stride,
                               source + row * from_stride + column, from_stride);
      }
      for (; column < columns; ++column) {
        for (int r = 0; r < kSide; ++r) {
          target[column * to_stride + row + r] = source[(row + r) * from_stride + column];
        }
      }
    }
  }
  for (; row < rows; ++row) {
    for (nvfuser_index_t column = 0; column < columns; ++column) {
      to[column * to_stride + row] = from[row * from_stride + column];
    }
  }
}
} // namespace nvf
