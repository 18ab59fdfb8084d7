// Clusters of blocks on the GPU (sm_90 and above). PTX ISA, "barrier.cluster", "mapa".
#pragma once

//@ piece nvf::clusterRank
// The number of the block in its cluster.
namespace nvf {
NVF_FN unsigned clusterRank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
} // namespace nvf

//@ piece nvf::syncCluster
// All threads of all blocks of the cluster; orders what they did to each other's shared memory.
namespace nvf {
NVF_FN void syncCluster() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}
} // namespace nvf

//@ piece nvf::mapShared
// The same place in the shared memory of another block of the cluster.
namespace nvf {
template <class T>
NVF_FN T* mapShared(T* address, unsigned rank) {
  unsigned long long mapped;
  asm("mapa.u64 %0, %1, %2;"
      : "=l"(mapped)
      : "l"(reinterpret_cast<unsigned long long>(address)), "r"(rank));
  return reinterpret_cast<T*>(mapped);
}
} // namespace nvf

//@ piece nvf::sendPartials
// Partials of a segment go to every block of the cluster, so that all reads are local. `part` of
// `Parts` of this block; `member` of the `Members` threads that have the value.
namespace nvf {
template <int Blocks, int Parts, int Members, class Term>
NVF_FN void sendPartials(Term term, int segment, int segments, int part, int member,
                         char*& workspace) {
  constexpr int kSlots = nvf::powerOfTwoAbove(Blocks * Parts);
  auto* slots = nvf::takeSlots<typename Term::Value>(workspace, segments * Term::kValues * kSlots);
  const int place = static_cast<int>(nvf::clusterRank()) * Parts + part;
#pragma unroll
  for (int i = 0; i < Term::kValues; ++i) {
    const auto value = term.load(i);
    auto* slot = slots + (segment * Term::kValues + i) * kSlots + place;
#pragma unroll
    for (int first = 0; first < Blocks; first += Members) {
      if (first + member < Blocks) {
        *nvf::mapShared(slot, first + member) = value;
      }
    }
  }
}

template <int Blocks, int Parts, int Lanes, class Term>
NVF_FN void receivePartials(Term term, int segment, int segments, int lane, char*& workspace) {
  constexpr int kSlots = nvf::powerOfTwoAbove(Blocks * Parts);
  auto* slots = nvf::takeSlots<typename Term::Value>(workspace, segments * Term::kValues * kSlots);
#pragma unroll
  for (int i = 0; i < Term::kValues; ++i) {
    const auto* partials = slots + (segment * Term::kValues + i) * kSlots;
    term.store(i, nvf::combinePartials<Term, Blocks * Parts, Lanes>(partials, lane));
  }
}
} // namespace nvf

//@ piece nvf::clusterReduce also nvf::sendPartials
// nvf::blockReduce over all threads of the `Blocks` blocks of the cluster that agree in the thread
// indices that are not reduced; all of them get the result. No thread of the cluster may use the
// workspace any more: its other blocks write to it.
namespace nvf {
template <int Blocks, bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
NVF_FN void clusterReduce(char* workspace, Terms... terms) {
  using Path = nvf::ReducePath;
  constexpr nvf::BlockShape kShape = {{RX, RY, RZ}, {BX, BY, BZ}};
  constexpr Path kPath = nvf::reducePath(kShape, nvf::valuesOf<Terms...>);
  constexpr bool kByWarps = kPath == Path::Warps;
  constexpr int kExtent = nvf::reducedExtent(kShape);
  constexpr int kParts = kByWarps ? kExtent / 32 : 1;
  constexpr int kLanes = kByWarps ? 32 : kPath == Path::Lanes ? kExtent : 1;
  const auto place = nvf::segmentOf<RX, RY, RZ>(nvf::threadPlace<BX, BY, BZ>());
  const int lane = place.rank & (kLanes - 1);
  const int part = kByWarps ? place.rank >> 5 : 0;
  char* partials = workspace;
  if constexpr (kByWarps || kPath == Path::Lanes) {
    nvf::reduceLanes<kLanes>(lane, terms...);
  } else if constexpr (kPath != Path::None) {
    // The block's own workspace lies behind the partials.
    (nvf::takeSlots<typename Terms::Value>(
         partials, place.segments * Terms::kValues * nvf::powerOfTwoAbove(Blocks)),
     ...);
    nvf::blockReduce<RX, RY, RZ, BX, BY, BZ>(partials, terms...);
    partials = workspace;
  }
  if (kLanes > 1 || place.rank == 0) {
    (sendPartials<Blocks, kParts, kLanes>(terms, place.segment, place.segments, part, lane,
                                          partials),
     ...);
  }
  nvf::syncCluster();
  (receivePartials<Blocks, kParts, kLanes>(terms, place.segment, place.segments, lane, workspace),
   ...);
}
} // namespace nvf
