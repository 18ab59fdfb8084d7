// No kernel needed.
#include <scheduler/no_op.h>

#include <algorithm>

namespace nvfuser {

std::string NoOpScheduler::whyNot(Fusion* fusion) const {
  for (const Val* v : fusion->outputs()) {
    const auto& dims = v->as<TensorView>()->getLogicalDomain();
    const bool empty = std::any_of(dims.begin(), dims.end(), [](const IterDomain* id) {
      return id->getMaybeExpandedExtent()->isZeroInt();
    });
    if (!v->isFusionInput() && !empty) {
      return "output has a concrete dimension";
    }
  }
  return "";
}

std::unique_ptr<HeuristicParams> NoOpScheduler::computeHeuristics(Fusion*, SchedulerRuntimeInfo&,
                                                                  HeuristicCache*) const {
  return std::make_unique<HeuristicParams>(SchedulerType::NoOp);
}

void NoOpScheduler::schedule(Fusion*, const HeuristicParams&) const {}

} // namespace nvfuser
