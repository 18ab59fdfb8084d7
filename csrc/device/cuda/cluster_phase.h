// SPDX-License-Identifier: BSD-3-Clause
// Reductions over a cluster whose blocks wait for partials instead of for each other, on the GPU
// (sm_90 and above).
#pragma once

//@ piece nvf::SendByPhase nvf::storeRemotely
// Stores that an mbarrier of the receiving block counts. PTX ISA, "st.async".
namespace nvf {
template <class V>
NVF_FN void storeRemotely(V* slot, V value, nvf::MBarrier* barrier, unsigned rank) {
  static_assert(sizeof(V) % 4 == 0, "st.async stores words");
  const unsigned* words = reinterpret_cast<const unsigned*>(&value);
  unsigned to, counter;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(nvf::sharedAddress(slot)), "r"(rank));
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(counter)
      : "r"(nvf::sharedAddress(barrier)), "r"(rank));
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(V) / 4); ++i) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(
                     to + 4 * i),
                 "r"(words[i]), "r"(counter)
                 : "memory");
  }
}

struct SendByPhase {
  nvf::MBarrier* barrier;
  template <class V>
  NVF_FN void operator()(V* slot, V value, unsigned rank) const {
    nvf::storeRemotely(slot, value, barrier, rank);
  }
};
} // namespace nvf

//@ piece nvf::beginClusterReduce also nvf::sendPartials
// The first half of clusterReduceByPhase: the partials of this block are on their way. The terms
// have no meaning any more.
namespace nvf {
template <int Blocks, bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
NVF_FN void beginClusterReduce(char* workspace, nvf::MBarrier* barrier, Terms... terms) {
  const auto t = nvf::threadPlace<BX, BY, BZ>();
  using Way = nvf::ClusterWay<Blocks, RX, RY, RZ, BX, BY, BZ, Terms...>;
  const auto place = nvf::segmentOf<RX, RY, RZ>(t);
  if (t.number() == 0) {
    constexpr unsigned kBytes = ((Terms::kValues * sizeof(typename Terms::Value)) + ...);
    nvf::arriveExpecting(barrier, Way::blocks() * Way::parts(place) * place.segments * kBytes);
  }
  Way::send(place, workspace, nvf::SendByPhase{barrier}, terms...);
}
} // namespace nvf

//@ piece nvf::endClusterReduce also nvf::sendPartials
// The second half: the partials of all blocks have come, the terms get the result.
namespace nvf {
template <int Blocks, bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
NVF_FN void endClusterReduce(char* workspace, nvf::MBarrier* barrier, unsigned parity,
                             Terms... terms) {
  using Way = nvf::ClusterWay<Blocks, RX, RY, RZ, BX, BY, BZ, Terms...>;
  nvf::waitForPhase(barrier, parity);
  Way::receive(nvf::segmentOf<RX, RY, RZ>(nvf::threadPlace<BX, BY, BZ>()), workspace, terms...);
}
} // namespace nvf

//@ piece nvf::clusterReduceByPhase
// clusterReduce without a barrier of the cluster: each block waits until all partials have come.
// `barrier` is for phases of one arrival; `parity` flips with every use of it.
namespace nvf {
template <int Blocks, bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
NVF_FN void clusterReduceByPhase(char* workspace, nvf::MBarrier* barrier, unsigned parity,
                                 Terms... terms) {
  nvf::beginClusterReduce<Blocks, RX, RY, RZ, BX, BY, BZ>(workspace, barrier, terms...);
  nvf::endClusterReduce<Blocks, RX, RY, RZ, BX, BY, BZ>(workspace, barrier, parity, terms...);
}
} // namespace nvf
