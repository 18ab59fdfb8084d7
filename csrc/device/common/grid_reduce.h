// Reductions over the blocks of a grid in one launch: every block leaves its partials in global
// memory, the one that arrives last combines them.
#pragma once

//@ piece nvf::gridReduce also nvf::gridPartials
// GX, GY, GZ: the block indices that are reduced over; the others as for nvf::blockReduce. Every
// block of the grid calls it. True in all threads of the block that arrives last in its group: they
// hold the result. `global_workspace` has room for the partials of all blocks
// (device/reduce_layout.h), `semaphores` has a counter for each group: zero before and zero after.
namespace nvf {
template <bool GX, bool GY, bool GZ, bool RX, bool RY, bool RZ, int BX, int BY, int BZ,
          class... Terms>
NVF_FN bool gridReduce(char* global_workspace, unsigned* semaphores, nvf::Workspace workspace,
                       Terms... terms) {
  nvf::blockReduce<RX, RY, RZ, BX, BY, BZ>(workspace, terms...);
  const auto grid = nvf::gridSegment<GX, GY, GZ>();
  if (grid.blocks == 1) {
    return true;
  }
  const auto place = nvf::segmentOf<RX, RY, RZ>(nvf::threadPlace<BX, BY, BZ>());
  const nvf::ThreadPlace g = nvf::blockPlace();
  const int groups = g.threads() / grid.blocks;
  char* next = global_workspace;
  (storePartials(terms, grid, groups, place, next), ...);
  if (!nvf::isLastBlock(semaphores + grid.segment, grid.blocks, workspace)) {
    return false;
  }
  nvf::combineBlocks<RX, RY, RZ, BX, BY, BZ>(grid, groups, global_workspace, workspace, terms...);
  return true;
}
} // namespace nvf
