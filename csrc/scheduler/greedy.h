// The greedy scheduler: scans and scatters, one thread for each line along their dimension.
// Elementwise neighbours of the same shape are computed along with them. Correct for every shape
// and simple; fast where there are many lines and the dimension is not the fastest in memory.
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
  std::unique_ptr<HeuristicParams> computeHeuristics(
      Fusion* fusion, SchedulerRuntimeInfo& info, HeuristicCache* cache = nullptr) const override;
  void schedule(Fusion* fusion, const HeuristicParams& params) const override;
};

// Whether the fusion has a scan or a scatter.
bool hasLineOps(const Fusion* fusion);
// Tensors between those ops with what can be computed along with them, and the rest.
std::vector<TensorView*> greedyConflicts(Fusion* fusion);

} // namespace nvfuser
