// SPDX-License-Identifier: BSD-3-Clause
// Reductions over the threads of a block on the GPU. Which way is taken: common/reduce_layout.h.
#pragma once

//@ piece nvf::shuffleXor
// The value of the lane whose number differs in the bits of `mask`. Lanes that do not exist (in the
// last warp of a block) are never asked for theirs.
namespace nvf {
template <class V>
NVF_FN V shuffleXor(V value, int mask) {
  constexpr int kWords = (sizeof(V) + 3) / 4;
  if constexpr (sizeof(V) == 4 * kWords) {
    unsigned* words = reinterpret_cast<unsigned*>(&value);
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      words[i] = __shfl_xor_sync(0xffffffffu, words[i], mask);
    }
    return value;
  } else {
    using Bits = nvf::MakeUnsigned<V>;
    const unsigned bits = nvf::bitsOf<Bits>(value);
    return nvf::bitsOf<V>(static_cast<Bits>(__shfl_xor_sync(0xffffffffu, bits, mask)));
  }
}
} // namespace nvf

//@ piece nvf::threadPlace
namespace nvf {
template <int BX, int BY, int BZ>
NVF_FN nvf::ThreadPlace threadPlace() {
  return {BX == 1 ? 0 : static_cast<int>(threadIdx.x), BY == 1 ? 0 : static_cast<int>(threadIdx.y),
          BZ == 1 ? 0 : static_cast<int>(threadIdx.z), BX > 0 ? BX : static_cast<int>(blockDim.x),
          BY > 0 ? BY : static_cast<int>(blockDim.y),  BZ > 0 ? BZ : static_cast<int>(blockDim.z)};
}
} // namespace nvf

//@ piece nvf::combineLanes
// Combines a value with that of the lane `mask` away; both get the same bits.
namespace nvf {
template <class Term>
NVF_FN typename Term::Value combineLanes(typename Term::Value mine, int lane, int mask) {
  const auto other = nvf::shuffleXor(mine, mask);
  if constexpr (Term::kSymmetric) {
    return Term::combine(mine, other);
  } else {
    return (lane & mask) == 0 ? Term::combine(mine, other) : Term::combine(other, mine);
  }
}
} // namespace nvf

//@ piece nvf::reduceLanesStep
namespace nvf {
template <class Term>
NVF_FN void reduceLanesStep(Term term, int lane, int mask) {
#pragma unroll
  for (int i = 0; i < Term::kValues; ++i) {
    term.store(i, nvf::combineLanes<Term>(term.load(i), lane, mask));
  }
}
} // namespace nvf

//@ piece nvf::LaneSteps
// How lanes combine a term: step by step, or all steps at once (a specialization).
namespace nvf {
template <class Term>
struct LaneSteps {
  template <int Lanes>
  static NVF_FN void takeAll(Term, int) {}
  static NVF_FN void take(Term term, int lane, int mask) {
    nvf::reduceLanesStep(term, lane, mask);
  }
};
} // namespace nvf

//@ piece nvf::reduceLanes
// Within groups of `Lanes` lanes. All terms take a step before the next one: the shuffles of
// different values overlap.
namespace nvf {
template <int Lanes, class... Terms>
NVF_FN void reduceLanes(int lane, Terms... terms) {
  (nvf::LaneSteps<Terms>::template takeAll<Lanes>(terms, lane), ...);
#pragma unroll
  for (int mask = Lanes / 2; mask > 0; mask /= 2) {
    (nvf::LaneSteps<Terms>::take(terms, lane, mask), ...);
  }
}
} // namespace nvf

//@ piece nvf::LaneSteps with nvf::SoftmaxTerm
// The maximum of all lanes first: an exponential for each lane instead of two for each step.
namespace nvf {
template <class T, int N>
struct LaneSteps<nvf::SoftmaxTerm<T, N>> {
  using Term = nvf::SoftmaxTerm<T, N>;
  template <int Lanes>
  static NVF_FN void takeAll(Term term, int lane) {
    T before[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      before[i] = term.max[i];
    }
    nvf::reduceLanes<Lanes>(lane, nvf::ReduceTerm<nvf::MaxOp, T, N>{term.max});
#pragma unroll
    for (int i = 0; i < N; ++i) {
      term.sum[i] *= nvf::softmaxExp(before[i] - nvf::softmaxBase(term.max[i]));
    }
    nvf::reduceLanes<Lanes>(lane, nvf::ReduceTerm<nvf::SumOp, T, N>{term.sum});
  }
  static NVF_FN void take(Term, int, int) {}
};
} // namespace nvf

//@ piece nvf::takeSlots
// The next `count` values of the workspace.
namespace nvf {
template <class V>
NVF_FN V* takeSlots(char*& workspace, int count) {
  V* slots = reinterpret_cast<V*>(workspace);
  workspace += (count * static_cast<int>(sizeof(V)) + 15) / 16 * 16;
  return slots;
}
} // namespace nvf

//@ piece nvf::combineFewPartials
// `count` partials in memory that has room for many: each lane takes every `Lanes`-th one.
namespace nvf {
template <class Term, int Lanes>
NVF_FN typename Term::Value combineFewPartials(const typename Term::Value* partials, int lane,
                                               int count) {
  auto result = lane < count ? partials[lane] : Term::identity();
#pragma unroll 1
  for (int first = Lanes; first < count; first += Lanes) {
    if (first + lane < count) {
      result = Term::combine(result, partials[first + lane]);
    }
  }
#pragma unroll
  for (int mask = Lanes / 2; mask > 0; mask /= 2) {
    result = nvf::combineLanes<Term>(result, lane, mask);
  }
  return result;
}
} // namespace nvf

//@ piece nvf::combinePartials
// `Count` partials in shared memory, combined by groups of `Lanes` lanes that all want the result.
// Each lane takes some of them (mostly 8), then lanes are combined: few, wide reads without bank
// conflicts, and few shuffles. There may be fewer, `count` of them (if not IsExact).
namespace nvf {
template <class Term, int Count, int Lanes, bool IsExact = true>
NVF_FN typename Term::Value combinePartials(const typename Term::Value* partials, int lane,
                                            int count = Count) {
  using V = typename Term::Value;
  constexpr int kPadded = nvf::powerOfTwoAbove(Count);
  constexpr int kFewest = kPadded / Lanes < 8 ? 8 : kPadded / Lanes;
  constexpr int kChunk = kPadded < kFewest ? kPadded : kFewest;
  constexpr int kGroups = kPadded / kChunk;
  if constexpr (!IsExact && kGroups == Lanes) {
    return nvf::combineFewPartials<Term, Lanes>(partials, lane, count);
  }
  constexpr int kBytes = kChunk * static_cast<int>(sizeof(V));
  constexpr int kUnit = kBytes % 16 == 0 ? 16 : kBytes % 8 == 0 ? 8 : kBytes % 4 == 0 ? 4 : 1;
  using Unit = nvf::Vector<kUnit>;
  const int first = kGroups == 1 ? 0 : (lane & (kGroups - 1)) * kChunk;
  alignas(16) V chunk[kChunk];
#pragma unroll
  for (int i = 0; i < kBytes / kUnit; ++i) {
    reinterpret_cast<Unit*>(chunk)[i] = reinterpret_cast<const Unit*>(partials + first)[i];
  }
  if constexpr (kPadded != Count || !IsExact) {
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      if (first + i >= count) {
        chunk[i] = Term::identity();
      }
    }
  }
  V result = Term::template combineAll<kChunk>(chunk);
#pragma unroll
  for (int mask = kGroups / 2; mask > 0; mask /= 2) {
    result = nvf::combineLanes<Term>(result, lane, mask);
  }
  return result;
}
} // namespace nvf

//@ piece nvf::reduceWarps
// Segments of `Threads` (a multiple of 32) consecutive threads.
namespace nvf {
template <int Threads, class Term>
NVF_FN void storePartial(Term term, nvf::SegmentPlace place, char*& workspace) {
  constexpr int kPadded = nvf::powerOfTwoAbove(Threads / 32);
  auto* slots =
      nvf::takeSlots<typename Term::Value>(workspace, place.segments * Term::kValues * kPadded);
  if ((place.rank & 31) == 0) {
#pragma unroll
    for (int i = 0; i < Term::kValues; ++i) {
      slots[(place.segment * Term::kValues + i) * kPadded + (place.rank >> 5)] = term.load(i);
    }
  }
}

template <int Threads, bool IsExact, class Term>
NVF_FN void loadPartials(Term term, nvf::SegmentPlace place, char*& workspace) {
  constexpr int kPadded = nvf::powerOfTwoAbove(Threads / 32);
  auto* slots =
      nvf::takeSlots<typename Term::Value>(workspace, place.segments * Term::kValues * kPadded);
#pragma unroll
  for (int i = 0; i < Term::kValues; ++i) {
    term.store(i, nvf::combinePartials<Term, Threads / 32, 32, IsExact>(
                      slots + (place.segment * Term::kValues + i) * kPadded, place.rank & 31,
                      IsExact ? Threads / 32 : place.threads / 32));
  }
}

// Or of at most `Threads` (if not IsExact).
template <int Threads, bool IsExact, class... Terms>
NVF_FN void reduceWarps(nvf::SegmentPlace place, char* workspace, Terms... terms) {
  nvf::reduceLanes<32>(place.rank & 31, terms...);
  char* stored = workspace;
  (storePartial<Threads>(terms, place, stored), ...);
  nvf::syncBlock();
  (loadPartials<Threads, IsExact>(terms, place, workspace), ...);
}
} // namespace nvf

//@ piece nvf::reduceSomeLanes
// Within groups of `lanes` lanes, a power of two that only the launch knows.
namespace nvf {
template <class... Terms>
NVF_FN void reduceSomeLanes(int lanes, int lane, Terms... terms) {
#pragma unroll 1
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    (nvf::reduceLanesStep(terms, lane, mask), ...);
  }
}
} // namespace nvf

//@ piece nvf::reduceWarpsAtRunTime
// The same for a number of threads that only the launch knows.
namespace nvf {
template <class Term>
NVF_FN void storePartialAtRunTime(Term term, nvf::SegmentPlace place, char*& workspace) {
  const int warps = place.threads / 32;
  auto* slots =
      nvf::takeSlots<typename Term::Value>(workspace, place.segments * Term::kValues * warps);
  if ((place.rank & 31) == 0) {
#pragma unroll
    for (int i = 0; i < Term::kValues; ++i) {
      slots[(place.segment * Term::kValues + i) * warps + (place.rank >> 5)] = term.load(i);
    }
  }
}

template <class Term>
NVF_FN void loadPartialsAtRunTime(Term term, nvf::SegmentPlace place, char*& workspace) {
  const int warps = place.threads / 32;
  auto* slots =
      nvf::takeSlots<typename Term::Value>(workspace, place.segments * Term::kValues * warps);
  const int lane = place.rank & 31;
#pragma unroll
  for (int i = 0; i < Term::kValues; ++i) {
    term.store(i, lane < warps ? slots[(place.segment * Term::kValues + i) * warps + lane]
                               : Term::identity());
  }
}

template <class... Terms>
NVF_FN void reduceWarpsAtRunTime(nvf::SegmentPlace place, char* workspace, Terms... terms) {
  nvf::reduceLanes<32>(place.rank & 31, terms...);
  char* stored = workspace;
  (storePartialAtRunTime(terms, place, stored), ...);
  nvf::syncBlock();
  (loadPartialsAtRunTime(terms, place, workspace), ...);
  nvf::reduceLanes<32>(place.rank & 31, terms...);
}
} // namespace nvf

//@ piece nvf::reduceThroughMemory
// Any segments. The values of all threads lie in planes of one value each, thread by thread.
namespace nvf {
template <class Term>
NVF_FN void storeValues(Term term, nvf::ThreadPlace t, char*& workspace) {
  auto* slots = nvf::takeSlots<typename Term::Value>(workspace, Term::kValues * t.threads());
#pragma unroll
  for (int i = 0; i < Term::kValues; ++i) {
    slots[i * t.threads() + t.number()] = term.load(i);
  }
}

template <bool RX, bool RY, bool RZ, class Value, class Term>
NVF_FN Value combineSegment(Term, const Value* plane, int segment, int threads, ThreadPlace t) {
  Value result = plane[nvf::threadOf<RX, RY, RZ>(segment, 0, t)];
#pragma unroll 8
  for (int rank = 1; rank < threads; ++rank) {
    result = Term::combine(result, plane[nvf::threadOf<RX, RY, RZ>(segment, rank, t)]);
  }
  return result;
}

template <bool RX, bool RY, bool RZ, class Term>
NVF_FN void combineDirectly(Term term, nvf::ThreadPlace t, char*& workspace) {
  auto* slots = nvf::takeSlots<typename Term::Value>(workspace, Term::kValues * t.threads());
  const auto place = nvf::segmentOf<RX, RY, RZ>(t);
#pragma unroll
  for (int i = 0; i < Term::kValues; ++i) {
    term.store(i, combineSegment<RX, RY, RZ>(term, slots + i * t.threads(), place.segment,
                                             place.threads, t));
  }
}

// Deals the segments of all values to the threads; the results lie where the segment's first thread
// had its value.
template <bool RX, bool RY, bool RZ, class Term>
NVF_FN void combineDealt(Term term, nvf::ThreadPlace t, char*& workspace) {
  auto* slots = nvf::takeSlots<typename Term::Value>(workspace, Term::kValues * t.threads());
  const auto place = nvf::segmentOf<RX, RY, RZ>(t);
#pragma unroll 1
  for (int i = t.number(); i < Term::kValues * place.segments; i += t.threads()) {
    const int segment = Term::kValues == 1 ? i : i % place.segments;
    auto* plane = slots + (Term::kValues == 1 ? 0 : i / place.segments * t.threads());
    plane[nvf::threadOf<RX, RY, RZ>(segment, 0, t)] =
        combineSegment<RX, RY, RZ>(term, plane, segment, place.threads, t);
  }
}

template <bool RX, bool RY, bool RZ, class Term>
NVF_FN void loadResults(Term term, nvf::ThreadPlace t, char*& workspace) {
  auto* slots = nvf::takeSlots<typename Term::Value>(workspace, Term::kValues * t.threads());
  const int first = nvf::threadOf<RX, RY, RZ>(nvf::segmentOf<RX, RY, RZ>(t).segment, 0, t);
#pragma unroll
  for (int i = 0; i < Term::kValues; ++i) {
    term.store(i, slots[i * t.threads() + first]);
  }
}

template <bool RX, bool RY, bool RZ, bool IsDirect, class... Terms>
NVF_FN void reduceThroughMemory(nvf::ThreadPlace t, char* workspace, Terms... terms) {
  char* next = workspace;
  (storeValues(terms, t, next), ...);
  nvf::syncBlock();
  next = workspace;
  if constexpr (IsDirect) {
    (combineDirectly<RX, RY, RZ>(terms, t, next), ...);
  } else {
    (combineDealt<RX, RY, RZ>(terms, t, next), ...);
    nvf::syncBlock();
    (loadResults<RX, RY, RZ>(terms, t, workspace), ...);
  }
}
} // namespace nvf

//@ piece nvf::partsAtOnce nvf::takeColumns nvf::combineColumns
// Parts in shared memory, laid out by nvf::columnLayout(Rows, Columns, Threads).
namespace nvf {
template <int Rows, int Columns, int Threads, class V>
NVF_FN V* takeColumns(char*& workspace) {
  return nvf::takeSlots<V>(workspace, nvf::columnLayout(Rows, Columns, Threads).slots());
}

// How many parts a thread combines at once: they live in registers together.
template <class V>
constexpr int partsAtOnce = sizeof(V) <= 8 ? 8 : 4;

// The parts of a column that are a lane's.
template <int Rows, int Lanes, int Stride, class Term>
NVF_FN typename Term::Value combineRows(const typename Term::Value* column, int lane) {
  using V = typename Term::Value;
  constexpr int kRows = (Rows + Lanes - 1) / Lanes;
  constexpr int kMost = nvf::partsAtOnce<V>;
  constexpr int kChunk = kRows > kMost ? kMost : nvf::powerOfTwoAbove(kRows);
  V result = Term::identity();
#pragma unroll 1
  for (int first = 0; first < kRows; first += kChunk) {
    V chunk[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      const int row = (first + i) * Lanes + lane;
      const bool exists = (Rows % (kChunk * Lanes) == 0) || row < Rows;
      chunk[i] = exists ? column[row * Stride] : Term::identity();
    }
    const V part = Term::template combineAll<kChunk>(chunk);
    result = kRows <= kChunk ? part : Term::combine(result, part);
  }
  return result;
}

// store(column, result) for each column, by one thread.
template <int Rows, int Columns, int Threads, class Term, class Store>
NVF_FN void combineColumns(Term, int thread, char*& workspace, Store store) {
  using V = typename Term::Value;
  constexpr nvf::ColumnLayout kLayout = nvf::columnLayout(Rows, Columns, Threads);
  constexpr int kLanes = kLayout.lanes;
  constexpr int kPerWarp = kLayout.columnsOfWarp();
  const V* slots = takeColumns<Rows, Columns, Threads, V>(workspace);
  const int lane = (thread & 31) / kPerWarp;
  const int of_warp = thread & (kPerWarp - 1);
#pragma unroll 1
  for (int first = kLayout.firstColumn(thread); first < Columns; first += kLayout.columnStep()) {
    const bool exists = kLayout.hasColumn(first, of_warp);
    const int column = exists ? first + of_warp : first;
    V result = combineRows<Rows, kLanes, kLayout.stride, Term>(slots + column, lane);
#pragma unroll
    for (int mask = 16; mask >= kPerWarp; mask /= 2) {
      result = nvf::combineLanes<Term>(result, thread, mask);
    }
    if (lane == 0 && exists) {
      store(column, result);
    }
  }
}

} // namespace nvf

//@ piece nvf::reduceColumns nvf::storeColumns nvf::finishColumns
namespace nvf {
// The first row, which nobody but the lanes of the column reads.
template <class V>
struct FirstRow {
  V* slots;
  NVF_FN void operator()(int column, V value) const {
    slots[column] = value;
  }
};

template <int Rows, int Columns, int Threads, class Term>
NVF_FN void combineInPlace(Term term, int thread, char*& workspace) {
  char* here = workspace;
  using V = typename Term::Value;
  const FirstRow<V> first = {takeColumns<Rows, Columns, Threads, V>(here)};
  nvf::combineColumns<Rows, Columns, Threads>(term, thread, workspace, first);
}

template <int Rows, int Columns, int Threads, class Term>
NVF_FN void loadColumns(Term term, nvf::SegmentPlace place, char*& workspace) {
  const auto* slots = takeColumns<Rows, Columns, Threads, typename Term::Value>(workspace);
#pragma unroll
  for (int i = 0; i < Term::kValues; ++i) {
    term.store(i, slots[i * place.segments + place.segment]);
  }
}

// A thread's values are parts in the row of its rank.
template <int Rows, int Columns, int Threads, class Term>
NVF_FN void storeColumns(Term term, nvf::SegmentPlace place, char*& workspace) {
  constexpr int kStride = nvf::columnLayout(Rows, Columns, Threads).stride;
  auto* row = takeColumns<Rows, Columns, Threads, typename Term::Value>(workspace) +
              place.rank * kStride + place.segment;
#pragma unroll
  for (int i = 0; i < Term::kValues; ++i) {
    row[i * place.segments] = term.load(i);
  }
}

// All parts are in shared memory. Rows: of each term.
template <int Threads, int Segments, int... Rows, class... Terms>
NVF_FN void finishColumns(int thread, nvf::SegmentPlace place, char* workspace, Terms... terms) {
  char* next = workspace;
  (combineInPlace<Rows, Segments * Terms::kValues, Threads>(terms, thread, next), ...);
  nvf::syncBlock();
  (loadColumns<Rows, Segments * Terms::kValues, Threads>(terms, place, workspace), ...);
}

template <int Rows, int Threads, class... Terms>
NVF_FN void reduceColumns(int thread, nvf::SegmentPlace place, char* workspace, Terms... terms) {
  constexpr int kSegments = Threads / Rows;
  char* next = workspace;
  (storeColumns<Rows, kSegments * Terms::kValues, Threads>(terms, place, next), ...);
  nvf::syncBlock();
  nvf::finishColumns<Threads, kSegments, (Terms::kValues == 0 ? 0 : Rows)...>(thread, place,
                                                                              workspace, terms...);
}
} // namespace nvf

//@ piece nvf::blockReduce
// Combines the terms of the threads whose indices agree in the dimensions that are not reduced; all
// of them get the result. To be called by all threads of the block. BX, BY, BZ: the block's
// extents, as in nvf::BlockShape where they are not constant. `workspace`: 16-byte aligned shared
// memory that no thread uses any more; device/reduce_layout.h says how much.
namespace nvf {
template <bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
NVF_FN void blockReduce(char* workspace, Terms... terms) {
  constexpr nvf::BlockShape kShape = {{RX, RY, RZ}, {BX, BY, BZ}};
  using Path = nvf::ReducePath;
  constexpr Path kPath = nvf::reducePath(kShape, nvf::valuesOf<Terms...>);
  constexpr int kThreads = nvf::mostReduced(kShape);
  const auto t = nvf::threadPlace<BX, BY, BZ>();
  const auto place = nvf::segmentOf<RX, RY, RZ>(t);
  if constexpr (kPath == Path::Lanes) {
    nvf::reduceLanes<kThreads>(place.rank, terms...);
  } else if constexpr (kPath == Path::Warps) {
    nvf::reduceWarps<kThreads, true>(place, workspace, terms...);
  } else if constexpr (kPath == Path::WarpsAtRunTime) {
    if (place.threads <= 32) {
      nvf::reduceSomeLanes(place.threads, place.rank, terms...);
    } else {
      nvf::reduceWarps<kThreads, false>(place, workspace, terms...);
    }
  } else if constexpr (kPath == Path::RunTime) {
    if (place.threads % 32 == 0) {
      nvf::reduceWarpsAtRunTime(place, workspace, terms...);
    } else {
      nvf::reduceThroughMemory<RX, RY, RZ, false>(t, workspace, terms...);
    }
  } else if constexpr (kPath == Path::Columns) {
    nvf::reduceColumns<kThreads, BX * BY * BZ>(t.number(), place, workspace, terms...);
  } else if constexpr (kPath != Path::None) {
    constexpr bool kDirect = kPath == Path::Direct;
    nvf::reduceThroughMemory<RX, RY, RZ, kDirect>(t, workspace, terms...);
  }
}
} // namespace nvf
