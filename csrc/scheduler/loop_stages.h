// Stages of a kernel: some expressions (reductions, scans over threads) are complete only after all
// of their own loops, so that what reads them runs in later loops than what they read.
#pragma once

#include <fusion.h>

#include <functional>
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

 private:
  // By expressions whose loops are in different stages: those of their first readers, which they
  // are inlined into.
  std::unordered_set<const TensorView*> in_several_;
};

} // namespace nvfuser
