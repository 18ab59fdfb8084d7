// Reductions over a cluster whose blocks wait for partials instead of for each other, on the host:
// the same as with a barrier, and the mbarrier goes through its phase.
#pragma once

//@ piece nvf::clusterReduceByPhase
namespace nvf {
template <int Blocks, bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
NVF_FN void clusterReduceByPhase(nvf::HostWorkspace workspace, nvf::MBarrier* barrier,
                                 unsigned parity, Terms... terms) {
  if (nvf::threadPlace<BX, BY, BZ>().number() == 0) {
    nvf::arrive(barrier, workspace.line);
  }
  nvf::waitForPhase(barrier, parity, workspace.line);
  nvf::clusterReduce<Blocks, RX, RY, RZ, BX, BY, BZ>(workspace, terms...);
}
} // namespace nvf
