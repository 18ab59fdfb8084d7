// SPDX-License-Identifier: BSD-3-Clause
// Passes of a kernel over its rows (names here say stage): some expressions (reductions, scans over
// threads) are complete only after all of their own loops, so that what reads them runs in later
// loops than what they read.
#pragma once

#include <fusion.h>
#include <ir/visitor.h>

#include <functional>
#include <unordered_map>
#include <unordered_set>

namespace nvfuser {

class LoopStages {
 public:
  // `ends_stage`: the expressions that are complete only after their loops.
  LoopStages(const Fusion* fusion, const std::function<bool(const Expr*)>& ends_stage);

  // Such a tensor cannot be inlined into the loops of any of its readers.
  bool isReadInSeveral(const TensorView* tv) const {
    return in_several_.count(tv) != 0;
  }
  // Of the loops that an expression is in: those of its first readers, which it is inlined into.
  int stageOf(const Expr* e) const {
    return stageOf(tensorOutputs(e).front());
  }
  int stageOf(const TensorView* tv) const {
    return stages_.at(tv);
  }

 private:
  std::unordered_map<const TensorView*, int> stages_;
  // By expressions in different passes.
  std::unordered_set<const TensorView*> in_several_;
};

} // namespace nvfuser
