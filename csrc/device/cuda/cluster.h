// SPDX-License-Identifier: BSD-3-Clause
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

//@ piece nvf::clusterBlocks
// How many blocks there are in the cluster.
namespace nvf {
NVF_FN unsigned clusterBlocks() {
  unsigned blocks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return blocks;
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

//@ piece nvf::arriveAtCluster
// The first half of a cluster barrier that orders nothing but initialized mbarriers: cheap, for the
// start of a kernel. waitForCluster() follows before anything is sent to another block.
namespace nvf {
NVF_FN void arriveAtCluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
} // namespace nvf

//@ piece nvf::waitForCluster
namespace nvf {
NVF_FN void waitForCluster() {
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
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

//@ piece nvf::sendPartials nvf::receivePartials
// Partials of a segment go to every block of the cluster, so that all reads are local. `part` of
// the `parts` (at most Parts) of this block, sent by `Members` threads of which this one is
// `member`, to all `blocks` (at most Blocks).
namespace nvf {
template <int Blocks, int Parts, int Members, class Term, class Send>
NVF_FN void sendPartials(Term term, nvf::SegmentPlace place, int part, int parts, int member,
                         int blocks, Send send, char*& workspace) {
  constexpr int kSlots = nvf::powerOfTwoAbove(Blocks * Parts);
  auto* slots =
      nvf::takeSlots<typename Term::Value>(workspace, place.segments * Term::kValues * kSlots);
  const int index = static_cast<int>(nvf::clusterRank()) * parts + part;
#pragma unroll
  for (int i = 0; i < Term::kValues; ++i) {
    auto* slot = slots + (place.segment * Term::kValues + i) * kSlots + index;
#pragma unroll
    for (int first = 0; first < Blocks; first += Members) {
      if (first + member < blocks) {
        send(slot, term.load(i), first + member);
      }
    }
  }
}

template <int Blocks, int Parts, int Lanes, bool IsExact, class Term>
NVF_FN void receivePartials(Term term, nvf::SegmentPlace place, int count, char*& workspace) {
  constexpr int kSlots = nvf::powerOfTwoAbove(Blocks * Parts);
  auto* slots =
      nvf::takeSlots<typename Term::Value>(workspace, place.segments * Term::kValues * kSlots);
#pragma unroll
  for (int i = 0; i < Term::kValues; ++i) {
    const auto* partials = slots + (place.segment * Term::kValues + i) * kSlots;
    term.store(i, nvf::combinePartials<Term, Blocks * Parts, Lanes, IsExact>(
                      partials, place.rank & (Lanes - 1), count));
  }
}
} // namespace nvf

//@ piece nvf::ClusterWay also nvf::sendPartials
// What a reduction over the cluster does before and after the blocks synchronize. Which way
// a block takes: common/reduce_layout.h. Blocks: -n if there are as many as the launch says, at
// most n. Threads that only the launch knows are whole warps here.
namespace nvf {
template <int Blocks, bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
struct ClusterWay {
  using Path = nvf::ReducePath;
  static constexpr nvf::BlockShape kShape = {{RX, RY, RZ}, {BX, BY, BZ}};
  static constexpr Path kPath = nvf::reducePath(kShape, nvf::valuesOf<Terms...>);
  static constexpr bool kAtRunTime = kPath == Path::WarpsAtRunTime;
  static constexpr bool kByWarps = kPath == Path::Warps || kAtRunTime;
  static constexpr int kExtent = nvf::reducedExtent(kShape);
  static constexpr int kParts = kByWarps ? nvf::mostReduced(kShape) / 32 : 1;
  static constexpr int kLanes = kByWarps ? 32 : kPath == Path::Lanes ? kExtent : 1;
  static constexpr int kBlocks = Blocks > 0 ? Blocks : -Blocks;
  static constexpr bool kIsExact = Blocks > 0 && !kAtRunTime;

  static NVF_FN int blocks() {
    return Blocks > 0 ? Blocks : static_cast<int>(nvf::clusterBlocks());
  }
  // Of this block.
  static NVF_FN int parts(nvf::SegmentPlace place) {
    return kAtRunTime ? place.threads / 32 : kParts;
  }

  template <class Send>
  static NVF_FN void send(nvf::SegmentPlace place, char* workspace, Send send, Terms... terms) {
    const int lane = place.rank & (kLanes - 1);
    if constexpr (kByWarps || kPath == Path::Lanes) {
      nvf::reduceLanes<kLanes>(lane, terms...);
    } else if constexpr (kPath != Path::None) {
      // The block's own workspace follows the partials.
      char* own = workspace;
      (nvf::takeSlots<typename Terms::Value>(
           own, place.segments * Terms::kValues * nvf::powerOfTwoAbove(kBlocks)),
       ...);
      nvf::blockReduce<RX, RY, RZ, BX, BY, BZ>(own, terms...);
    }
    // On the ways through memory, all threads of the segment have the block's result.
    constexpr int kMembers = kByWarps ? 32 : kPath == Path::RunTime || kExtent == 0 ? 1 : kExtent;
    const int member = kByWarps ? lane : place.rank;
    if (member < kMembers) {
      const int part = kByWarps ? place.rank >> 5 : 0;
      (nvf::sendPartials<kBlocks, kParts, kMembers>(terms, place, part, parts(place), member,
                                                    blocks(), send, workspace),
       ...);
    }
  }

  static NVF_FN void receive(nvf::SegmentPlace place, char* workspace, Terms... terms) {
    const int count = blocks() * parts(place);
    (nvf::receivePartials<kBlocks, kParts, kLanes, kIsExact>(terms, place, count, workspace), ...);
  }
};
} // namespace nvf

//@ piece nvf::SendPlainly
namespace nvf {
struct SendPlainly {
  template <class V>
  NVF_FN void operator()(V* slot, V value, unsigned rank) const {
    *nvf::mapShared(slot, rank) = value;
  }
};
} // namespace nvf

//@ piece nvf::clusterReduce
// nvf::blockReduce over all threads of the `Blocks` blocks (or at most -Blocks) of the cluster that
// agree in the thread indices that are not reduced; all of them get the result. No thread of the
// cluster may use the workspace any more: its other blocks write to it.
namespace nvf {
template <int Blocks, bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
NVF_FN void clusterReduce(char* workspace, Terms... terms) {
  using Way = nvf::ClusterWay<Blocks, RX, RY, RZ, BX, BY, BZ, Terms...>;
  const auto place = nvf::segmentOf<RX, RY, RZ>(nvf::threadPlace<BX, BY, BZ>());
  Way::send(place, workspace, nvf::SendPlainly(), terms...);
  nvf::syncCluster();
  Way::receive(place, workspace, terms...);
}
} // namespace nvf
