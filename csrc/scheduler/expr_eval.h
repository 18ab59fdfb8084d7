// SPDX-License-Identifier: BSD-3-Clause
// No schedule: the fusion is evaluated operation by operation (runtime/fusion_evaluator.h), or, if
// it is one operation of a library, by that. It takes whatever no other scheduler makes a kernel
// of.
#pragma once

#include <scheduler/scheduler.h>

namespace nvfuser {

class ExprEvalScheduler : public SchedulerEntry {
 public:
  SchedulerType type() const override {
    return SchedulerType::ExprEval;
  }
  std::string whyNot(Fusion* fusion) const override;
  ChosenParams computeHeuristics(Fusion* fusion, SchedulerRuntimeInfo& info,
                                 HeuristicCache* cache) const override;
  void schedule(Fusion* fusion, const HeuristicParams& params) const override;
};

} // namespace nvfuser
