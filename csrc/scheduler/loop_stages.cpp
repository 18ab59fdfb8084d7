// SPDX-License-Identifier: BSD-3-Clause
// See loop_stages.h.
#include <scheduler/loop_stages.h>

#include <ir/visitor.h>

#include <algorithm>
#include <vector>

namespace nvfuser {

LoopStages::LoopStages(const Fusion* fusion, const std::function<bool(const Expr*)>& ends_stage) {
  std::unordered_map<const TensorView*, int> known;
  std::unordered_map<const TensorView*, std::vector<const Expr*>> readers;
  const std::vector<Expr*>& exprs = fusion->exprs();
  std::unordered_map<const Expr*, int> stages;
  for (const Expr* e : exprs) {
    int& stage = stages[e];
    for (const TensorView* in : tensorInputs(e)) {
      stage = std::max(stage, known[in]);
      readers[in].push_back(e);
    }
    for (const TensorView* tv : tensorOutputs(e)) {
      known[tv] = stage + (ends_stage(e) ? 1 : 0);
    }
  }
  // What ends a pass, and outputs, are computed as soon as their inputs are there.
  for (auto it = exprs.rbegin(); it != exprs.rend(); ++it) {
    const auto found = readers.find((*it)->output(0)->as<TensorView>());
    if (!ends_stage(*it) && found != readers.end()) {
      const auto& uses = found->second;
      stages[*it] =
          stages.at(*std::min_element(uses.begin(), uses.end(), [&](const Expr* a, const Expr* b) {
            return stages.at(a) < stages.at(b);
          }));
    }
  }
  for (const Expr* e : exprs) {
    for (const TensorView* tv : tensorOutputs(e)) {
      stages_[tv] = stages.at(e);
    }
  }
  // NOLINTNEXTLINE(bugprone-nondeterministic-pointer-iteration-order): any order fills the set
  for (const auto& [tv, uses] : readers) {
    if (std::any_of(uses.begin(), uses.end(),
                    [&](const Expr* use) { return stages.at(use) != stages.at(uses.front()); })) {
      in_several_.insert(tv);
    }
  }
}

} // namespace nvfuser
