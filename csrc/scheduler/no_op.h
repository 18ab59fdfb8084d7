// SPDX-License-Identifier: BSD-3-Clause
// The no-op scheduler: fusions that need no kernel, because every output is an input or has no
// elements.
#pragma once

#include <scheduler/scheduler.h>

namespace nvfuser {

class NoOpScheduler : public SchedulerEntry {
 public:
  SchedulerType type() const override {
    return SchedulerType::NoOp;
  }
  std::string whyNot(Fusion* fusion) const override;
  ChosenParams computeHeuristics(Fusion* fusion, SchedulerRuntimeInfo& info,
                                 HeuristicCache* cache = nullptr) const override;
  void schedule(Fusion* fusion, const HeuristicParams& params) const override;
};

} // namespace nvfuser
