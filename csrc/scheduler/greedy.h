// The greedy scheduler: scans and scatters, with the elementwise neighbours of the same shape.
//
// One thread for each line along their dimension: for scatters, and where there are many lines and
// the dimension is not the fastest in memory. Other scans have lines that the threads of a block
// share, tile by tile (lower/scans.h):
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
  ChosenParams computeHeuristics(Fusion* fusion, SchedulerRuntimeInfo& info,
                                 HeuristicCache* cache = nullptr) const override;
  void schedule(Fusion* fusion, const HeuristicParams& params) const override;
};

// Whether the fusion has a scan or a scatter.
bool hasLineOps(const Fusion* fusion);
// Tensors between those ops with what can be computed along with them, and the rest.
std::vector<TensorView*> greedyConflicts(Fusion* fusion);

} // namespace nvfuser
