// SPDX-License-Identifier: BSD-3-Clause
// Reductions over a cluster whose blocks wait for partials instead of for each other, on the host:
// stores to another block's shared memory are asynchronous copies, which the adversarial mode
// completes as late as it can.
#pragma once

//@ piece nvf::RemoteStore nvf::storeRemotely
// A store that an mbarrier of the receiving block counts.
namespace nvf {
template <class V>
struct RemoteStore {
  V* to;
  V value;

  static void run(const void* argument) {
    const auto* store = static_cast<const RemoteStore*>(argument);
    *store->to = store->value;
  }
};

template <class V>
NVF_FN void storeRemotely(V* slot, V value, nvf::MBarrier* barrier, unsigned rank, int line) {
  auto* to = static_cast<V*>(nvf::hostServices()->map_shared(slot, rank));
  void* counter = nvf::hostServices()->map_shared(barrier, rank);
  const nvf::RemoteStore<V> argument = {to, value};
  const NvfHostCopy copy = {&nvf::RemoteStore<V>::run,
                            &argument,
                            sizeof(argument),
                            kNvfHostBulkCopies,
                            counter,
                            to,
                            nullptr,
                            sizeof(V)};
  nvf::hostServices()->copy(&copy, line);
  // Who waits for it knows what this thread has done before.
  nvf::hostServices()->barrier_arrive(counter, 0, 0, line);
}
} // namespace nvf

//@ piece nvf::PartialsOfBlocks
// One partial of each block of the cluster for each value of a segment, in the order of the terms.
namespace nvf {
template <int Blocks>
struct PartialsOfBlocks {
  static constexpr int kSlots = nvf::powerOfTwoAbove(Blocks > 0 ? Blocks : -Blocks);
  char* next;
  nvf::SegmentPlace place;

  template <class Term>
  NVF_FN typename Term::Value* take(Term) {
    using V = typename Term::Value;
    auto* slots = reinterpret_cast<V*>(next);
    const int count = place.segments * Term::kValues * kSlots;
    next += (count * static_cast<int>(sizeof(V)) + 15) / 16 * 16;
    return slots + place.segment * Term::kValues * kSlots;
  }
};
} // namespace nvf

//@ piece nvf::beginClusterReduce nvf::sendToBlocks also nvf::syncBlock
namespace nvf {
template <int Blocks, class Term>
NVF_FN void sendToBlocks(Term term, nvf::PartialsOfBlocks<Blocks>& partials, nvf::MBarrier* barrier,
                         int line) {
  auto* slots = partials.take(term) + nvf::clusterRank();
  for (int i = 0; i < Term::kValues; ++i) {
    for (int rank = 0; rank < static_cast<int>(nvf::clusterBlocks()); ++rank) {
      nvf::storeRemotely(slots + i * partials.kSlots, term.load(i), barrier, rank, line);
    }
  }
}

template <int Blocks, bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
NVF_FN void beginClusterReduce(nvf::HostWorkspace workspace, nvf::MBarrier* barrier,
                               Terms... terms) {
  const auto t = nvf::threadPlace<BX, BY, BZ>();
  const auto place = nvf::segmentOf<RX, RY, RZ>(t);
  const int blocks = nvf::blocksOfCluster<Blocks>(workspace.line);
  if (t.number() == 0) {
    constexpr unsigned kBytes = ((Terms::kValues * sizeof(typename Terms::Value)) + ...);
    nvf::arriveExpecting(barrier, blocks * place.segments * kBytes, workspace.line);
  }
  nvf::reduceLists<RX, RY, RZ>(nvf::makeTermList(terms...), /*is_barrier=*/true, t, workspace.line);
  if (place.rank == 0) {
    nvf::PartialsOfBlocks<Blocks> partials = {workspace.data, place};
    (nvf::sendToBlocks(terms, partials, barrier, workspace.line), ...);
  }
}
} // namespace nvf

//@ piece nvf::endClusterReduce nvf::receiveFromBlocks
namespace nvf {
template <int Blocks, class Term>
NVF_FN void receiveFromBlocks(Term term, nvf::PartialsOfBlocks<Blocks>& partials, int line) {
  using V = typename Term::Value;
  const int blocks = static_cast<int>(nvf::clusterBlocks());
  const V* slots = partials.take(term);
  for (int i = 0; i < Term::kValues; ++i) {
    V parts[nvf::PartialsOfBlocks<Blocks>::kSlots];
#ifdef NVF_HOST_ADVERSARIAL
    nvf::hostServices()->access(slots, blocks * sizeof(V), false, true, line);
#endif
    for (int rank = 0; rank < partials.kSlots; ++rank) {
      parts[rank] = rank < blocks ? slots[rank] : Term::identity();
    }
    term.store(i, Term::template combineAll<nvf::PartialsOfBlocks<Blocks>::kSlots>(parts));
    slots += partials.kSlots;
  }
}

template <int Blocks, bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
NVF_FN void endClusterReduce(nvf::HostWorkspace workspace, nvf::MBarrier* barrier, unsigned parity,
                             Terms... terms) {
  nvf::waitForPhase(barrier, parity, workspace.line);
  const auto place = nvf::segmentOf<RX, RY, RZ>(nvf::threadPlace<BX, BY, BZ>());
  nvf::PartialsOfBlocks<Blocks> partials = {workspace.data, place};
  (nvf::receiveFromBlocks(terms, partials, workspace.line), ...);
}
} // namespace nvf

//@ piece nvf::clusterReduceByPhase
namespace nvf {
template <int Blocks, bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
NVF_FN void clusterReduceByPhase(nvf::HostWorkspace workspace, nvf::MBarrier* barrier,
                                 unsigned parity, Terms... terms) {
  nvf::beginClusterReduce<Blocks, RX, RY, RZ, BX, BY, BZ>(workspace, barrier, terms...);
  nvf::endClusterReduce<Blocks, RX, RY, RZ, BX, BY, BZ>(workspace, barrier, parity, terms...);
}
} // namespace nvf
