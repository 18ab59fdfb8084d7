// SPDX-License-Identifier: BSD-3-Clause
// The greedy scheduler: scans and scatters, with their elementwise neighbours. Those of scans may
// lack dimensions, and follow the loops of the first scan; those of scatters have the same shape.
//
// A *scan* here is all that lies along the scan axis at one place of the other dimensions. One
// thread takes a whole scan: for scatters of short rows, and where there are many scans and the
// axis is not the fastest in memory. Otherwise the threads of a block share one, tile by tile
// (lower/scans.h):
//
//   [BIDx, TIDy | tile, TIDx, elements]
#pragma once

#include <scheduler/scheduler.h>

#include <vector>

namespace nvfuser {

class GreedyScheduler : public SchedulerEntry {
 public:
  SchedulerType type() const override {
    return SchedulerType::Greedy;
  }
  std::string whyNot(Fusion* fusion) const override;
  // Scatters of long rows take two kernels.
  void wantRewrites(WholeDefinition& definition, Wanted& wanted) const override;
  ChosenParams computeHeuristics(Fusion* fusion, SchedulerRuntimeInfo& info,
                                 HeuristicCache* cache = nullptr) const override;
  void schedule(Fusion* fusion, const HeuristicParams& params) const override;
};

// Whether the fusion has a scan or a scatter.
bool hasScanOps(const Fusion* fusion);
// Around scatters in place, which take memory that another kernel has filled: what they update, and
// their results.
std::vector<TensorView*> scatterConflicts(Fusion* fusion);
// Tensors between those ops with what can be computed along with them, and the rest.
std::vector<TensorView*> greedyConflicts(Fusion* fusion);

} // namespace nvfuser
