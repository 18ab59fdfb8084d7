// SPDX-License-Identifier: BSD-3-Clause
// Reductions over the blocks of a grid in one launch: every block leaves its partials in global
// memory, and the one that arrives last combines them, or all do.
#pragma once

//@ piece nvf::forgetValues
// Values that nobody reads any more need no registers.
namespace nvf {
template <class Term>
NVF_FN void forgetValues(Term term) {
#pragma unroll
  for (int i = 0; i < Term::kValues; ++i) {
    term.store(i, Term::identity());
  }
}
} // namespace nvf

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
  const auto grid = nvf::gridSegment<GX, GY, GZ>();
  const int groups = nvf::blockPlace().threads() / grid.blocks;
  using Grid = nvf::GridWay<RX, RY, RZ, BX, BY, BZ, Terms...>;
  Grid::reduceBlock(grid, groups, global_workspace, workspace, terms...);
  if (!nvf::isLastBlock(semaphores + grid.segment, grid.blocks, workspace)) {
    (nvf::forgetValues(terms), ...);
    return false;
  }
  Grid::combineBlocks(grid, groups, global_workspace, workspace, terms...);
  return true;
}
} // namespace nvf

//@ piece nvf::gridAllReduce also nvf::gridPartials
// The same, but all blocks synchronize and get the result, each combining the partials in
// the same order. They must all run at the same time.
namespace nvf {
template <bool GX, bool GY, bool GZ, bool RX, bool RY, bool RZ, int BX, int BY, int BZ,
          class... Terms>
NVF_FN void gridAllReduce(char* global_workspace, unsigned* semaphores, nvf::Workspace workspace,
                          Terms... terms) {
  const auto grid = nvf::gridSegment<GX, GY, GZ>();
  const int groups = nvf::blockPlace().threads() / grid.blocks;
  using Grid = nvf::GridWay<RX, RY, RZ, BX, BY, BZ, Terms...>;
  Grid::reduceBlock(grid, groups, global_workspace, workspace, terms...);
  nvf::meetBlocks(semaphores + grid.segment, grid.blocks, workspace);
  Grid::combineBlocks(grid, groups, global_workspace, workspace, terms...);
}
} // namespace nvf
