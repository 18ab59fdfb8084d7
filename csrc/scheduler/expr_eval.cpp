// SPDX-License-Identifier: BSD-3-Clause
// Evaluation in the place of a kernel.
#include <scheduler/expr_eval.h>

#include <runtime/fusion_evaluator.h>
#include <scheduler/registry.h>

namespace nvfuser {

std::string ExprEvalScheduler::whyNot(Fusion* fusion) const {
  const SchedulerType better = chooseScheduler(fusion);
  if (better != SchedulerType::None) {
    return "the " + std::string(schedulerName(better)) + " scheduler makes a kernel of it";
  }
  const bool of_library =
      fusion->exprs().size() == 1 && fusion->exprs().front()->kind() == ExprKind::LibraryOp;
  return of_library || fusionEvaluator() != nullptr ? ""
                                                    : "this program has no evaluator of fusions";
}

ChosenParams ExprEvalScheduler::computeHeuristics(Fusion*, SchedulerRuntimeInfo&,
                                                  HeuristicCache*) const {
  return std::make_unique<HeuristicParams>(SchedulerType::ExprEval);
}

void ExprEvalScheduler::schedule(Fusion*, const HeuristicParams&) const {}

} // namespace nvfuser
