// SPDX-License-Identifier: BSD-3-Clause
// What the blocks of a reduction over the grid do before and after they count themselves, on the
// host.
#pragma once

//@ piece nvf::GridWay
namespace nvf {
template <bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
struct GridWay {
  static NVF_FN void reduceBlock(nvf::GridSegment grid, int groups, char* global_workspace,
                                 nvf::HostWorkspace workspace, Terms... terms) {
    nvf::reduceAndStore<RX, RY, RZ, BX, BY, BZ>(grid, groups, global_workspace, workspace,
                                                terms...);
  }
  static NVF_FN void combineBlocks(nvf::GridSegment grid, int groups, char* global_workspace,
                                   nvf::HostWorkspace workspace, Terms... terms) {
    nvf::takeAndReduce<RX, RY, RZ, BX, BY, BZ>(grid, groups, global_workspace, workspace, terms...);
  }
};
} // namespace nvf
