// The last block's combination of the partials of all blocks, on the host.
#pragma once

//@ piece nvf::combineBlocks also nvf::takePartials
namespace nvf {
template <bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
NVF_FN void combineBlocks(nvf::GridSegment grid, int groups, char* global_workspace,
                          nvf::HostWorkspace workspace, Terms... terms) {
  nvf::takeAndReduce<RX, RY, RZ, BX, BY, BZ>(grid, groups, global_workspace, workspace, terms...);
}
} // namespace nvf
