// SPDX-License-Identifier: BSD-3-Clause
// How a reduction is taken apart, and where its parts are in the loop nest.
//
//   for i (outer)                      the loops around the whole reduction
//     for v (kept)  T = identity       ReduceStep Init
//     for r, v      T = T op x         ReduceStep Accumulate, in all of the reduction's loops
//     reduce T across threads          ThreadReduce, if reduction axes are bound to threads or
//     blocks
//
// After that T is complete and consumers may read it.
#pragma once

#include <lower/context.h>

namespace nvfuser {

struct ReductionShape {
  std::vector<Loop*> outer;
  std::vector<Loop*> kept;
  DimMask threads{};
  DimMask cluster{};
  DimMask grid{};
  // Across threads: thread dimensions that it has no loops for. All threads along them would reduce
  // the same; instead the first of them has the value and the others the identity, and they are
  // among `threads`.
  std::vector<ParallelType> repeated;

  bool crossesThreads() const {
    auto any = [](const DimMask& m) { return m[0] || m[1] || m[2]; };
    return any(threads) || any(cluster) || any(grid);
  }
};

ReductionShape reductionShape(const LowerContext& ctx, const TensorView* tv);

// A reduction whose result does not live in registers gets a register tensor to reduce into. Done
// on the kernel's own copy of the fusion, before loops are assigned.
void cacheReductionOutputs(Kernel* kernel);

// One statement of the loop nest to be, the loops it is in and the statements that come before it.
struct NestedStatement {
  Expr* statement =
      nullptr; // none where only an order is meant: a reduction is complete after its loops
  std::vector<Loop*> path;
  std::vector<size_t> after;
  // It leads to a barrier (fills shared memory, reduces across threads): put off while there is
  // anything else to do, so that loads are under way and reductions become neighbours, which share
  // barriers.
  bool deferred = false;
  // It issues asynchronous copies: as early as it can.
  bool copies = false;
  // It loads a row into registers: before what is computed, which may wait for memory too. (Without
  // that, compilers load where the row is read.)
  bool loads = false;
  // Or an element that all of a row shares: behind the rows that are loaded, if there are any.
  bool loads_single = false;
  // Loops over blocks that it shares with others are none to stay together in.
  bool apart = false;
};

struct StatementsToNest {
  std::vector<NestedStatement> list;
  GridReduces grid_reduces;
};

// Every expression of the kernel, reductions taken apart.
StatementsToNest statementsToNest(LowerContext& ctx);

// Threads of the block as far as they are constant; the most there can be otherwise.
int64_t maxBlockThreads(const Kernel* kernel);
// Extent of a thread or block dimension as the device library is told it (see nvf::BlockShape), and
// the number of blocks in a cluster: -n if the launch decides, at most n.
int extentArgument(const Kernel* kernel, ParallelType type);
int clusterArgument(const Kernel* kernel);

// They reduce across the same threads, blocks of a cluster and blocks of the grid: one call can do
// it.
bool isSameScope(const ThreadReduce* a, const ThreadReduce* b);

// Neighbouring cross-thread reductions of the same scope become one; each gets its shared memory.
void mergeThreadReduces(LowerContext& ctx, Statements& nest);

} // namespace nvfuser
