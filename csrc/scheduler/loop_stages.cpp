// See loop_stages.h.
#include <scheduler/loop_stages.h>

#include <ir/visitor.h>

#include <algorithm>

namespace nvfuser {

LoopStages::LoopStages(const Fusion* fusion, const std::function<bool(const Expr*)>& ends_stage)
    : fusion_(fusion) {
  std::unordered_map<const TensorView*, int> known;
  const std::vector<Expr*>& exprs = fusion->exprs();
  for (const Expr* e : exprs) {
    int stage = 0;
    for (const TensorView* in : tensorInputs(e)) {
      stage = std::max(stage, known[in]);
    }
    stages_[e] = stage;
    for (const TensorView* tv : tensorOutputs(e)) {
      known[tv] = stage + (ends_stage(e) ? 1 : 0);
    }
  }
  // What ends a stage, and outputs, are computed as soon as their inputs are there.
  for (auto it = exprs.rbegin(); it != exprs.rend(); ++it) {
    const std::vector<Expr*> uses =
        ends_stage(*it) ? std::vector<Expr*>{} : fusion->liveUses((*it)->output(0));
    if (!uses.empty()) {
      int first = stages_.at(uses.front());
      for (const Expr* use : uses) {
        first = std::min(first, stages_.at(use));
      }
      stages_[*it] = first;
    }
  }
}

bool LoopStages::isReadInSeveral(const TensorView* tv) const {
  int first = -1;
  for (const Expr* use : fusion_->liveUses(tv)) {
    const int stage = stages_.at(use);
    if (first >= 0 && stage != first) {
      return true;
    }
    first = stage;
  }
  return false;
}

} // namespace nvfuser
