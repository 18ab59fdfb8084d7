// SPDX-License-Identifier: BSD-3-Clause
// Clusters of blocks on the host: the threads of a cluster run together, see
// host/cluster.h.
#pragma once

//@ piece nvf::clusterRank
namespace nvf {
NVF_FN unsigned clusterRank() {
  return nvf::hostServices()->thread()->cluster_rank;
}
} // namespace nvf

//@ piece nvf::clusterBlocks
namespace nvf {
NVF_FN unsigned clusterBlocks() {
  return nvf::hostServices()->thread()->cluster_blocks;
}
} // namespace nvf

//@ piece nvf::syncCluster also nvf::syncBlock
namespace nvf {
NVF_FN void syncCluster(int line = __builtin_LINE()) {
  nvf::hostServices()->sync_cluster(line);
}
} // namespace nvf

//@ piece nvf::arriveAtCluster
namespace nvf {
NVF_FN void arriveAtCluster() {}
} // namespace nvf

//@ piece nvf::waitForCluster also nvf::syncBlock
// Here both halves of the barrier.
namespace nvf {
NVF_FN void waitForCluster(int line = __builtin_LINE()) {
  nvf::hostServices()->sync_cluster(line);
}
} // namespace nvf

//@ piece nvf::mapShared
namespace nvf {
template <class T>
NVF_FN T* mapShared(T* address, unsigned rank) {
  return static_cast<T*>(nvf::hostServices()->map_shared(address, rank));
}
} // namespace nvf

//@ piece nvf::blocksOfCluster
// Blocks: as in cuda/cluster.h.
namespace nvf {
template <int Blocks>
NVF_FN int blocksOfCluster(int line) {
  const int blocks = static_cast<int>(nvf::clusterBlocks());
  if (Blocks > 0 ? blocks != Blocks : blocks > -Blocks) {
    nvf::hostServices()->fail("a reduction for clusters of another size", line);
  }
  return blocks;
}
} // namespace nvf

//@ piece nvf::ClusterClaim
// The accesses to the workspaces of the cluster that the GPU makes (cuda/cluster.h): Parts are the
// most of a block, of which there are `parts` now.
namespace nvf {
template <int Blocks, int Parts, class... Terms>
struct ClusterClaim {
#ifndef NVF_HOST_ADVERSARIAL
  static NVF_FN void touch(bool, nvf::HostWorkspace, nvf::SegmentPlace, int, int) {}
#else
  static void touch(bool is_write, nvf::HostWorkspace workspace, nvf::SegmentPlace place,
                    int blocks, int parts) {
    constexpr int kSlots = nvf::powerOfTwoAbove(Blocks * Parts);
    const int part = Parts > 1 ? place.rank / 32 : 0;
    const int from = static_cast<int>(nvf::clusterRank()) * parts + part;
    const auto claim = [&](int values, int bytes) {
      const auto access = [&](char* address, int count) {
        nvf::hostServices()->access(address, static_cast<unsigned>(count * bytes), is_write, true,
                                    workspace.line);
      };
      for (int i = 0; i < values; ++i) {
        char* slots = workspace.data + (place.segment * values + i) * kSlots * bytes;
        if (!is_write) {
          access(slots, blocks * parts);
        } else if (Parts > 1 ? place.rank % 32 == 0 : place.rank == 0) {
          for (int block = 0; block < blocks; ++block) {
            access(nvf::mapShared(slots + from * bytes, block), 1);
          }
        }
      }
      workspace.data += (place.segments * values * kSlots * bytes + 15) / 16 * 16;
    };
    (claim(Terms::kValues, sizeof(typename Terms::Value)), ...);
  }
#endif
};
} // namespace nvf

//@ piece nvf::clusterReduce nvf::clusterReduceLists also nvf::syncBlock
// The first thread of a segment in the cluster's first block combines the lists of all.
namespace nvf {
template <bool RX, bool RY, bool RZ, class List>
void clusterReduceLists(List list, int blocks, nvf::ThreadPlace t, int line) {
  const int rank_in_cluster = static_cast<int>(nvf::clusterRank());
  void** lists = nvf::hostServices()->exchange(&list) - rank_in_cluster * t.threads();
  nvf::hostServices()->sync_cluster(line);
  const auto place = nvf::segmentOf<RX, RY, RZ>(t);
  if (place.rank == 0 && rank_in_cluster == 0) {
    const auto at = [&](int i) -> const List& {
      const int thread = nvf::threadOf<RX, RY, RZ>(place.segment, i % place.threads, t);
      return *static_cast<const List*>(lists[i / place.threads * t.threads() + thread]);
    };
    const int members = place.threads * blocks;
    for (int count = members; count > 1; count = (count + 1) / 2) {
      for (int i = 0; i < count / 2; ++i) {
        at(i).combine(at(i + (count + 1) / 2));
      }
    }
    for (int i = 1; i < members; ++i) {
      at(i).copy(at(0));
    }
  }
  nvf::hostServices()->meet_cluster(line);
}

template <int Blocks, bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
NVF_FN void clusterReduce(nvf::HostWorkspace workspace, Terms... terms) {
  using Path = nvf::ReducePath;
  constexpr nvf::BlockShape kShape = {{RX, RY, RZ}, {BX, BY, BZ}};
  constexpr Path kPath = nvf::reducePath(kShape, nvf::valuesOf<Terms...>);
  constexpr bool kByWarps = kPath == Path::Warps || kPath == Path::WarpsAtRunTime;
  constexpr int kParts = kByWarps ? nvf::mostReduced(kShape) / 32 : 1;
  const auto t = nvf::threadPlace<BX, BY, BZ>();
  const auto place = nvf::segmentOf<RX, RY, RZ>(t);
  const int blocks = nvf::blocksOfCluster<Blocks>(workspace.line);
  const int parts = kPath == Path::WarpsAtRunTime ? place.threads / 32 : kParts;
  using Claim = nvf::ClusterClaim<(Blocks > 0 ? Blocks : -Blocks), kParts, Terms...>;
  Claim::touch(true, workspace, place, blocks, parts);
  nvf::clusterReduceLists<RX, RY, RZ>(nvf::makeTermList(terms...), blocks, t, workspace.line);
  Claim::touch(false, workspace, place, blocks, parts);
}
} // namespace nvf
