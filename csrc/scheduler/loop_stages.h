// Stages of a kernel: some expressions (reductions, scans over threads) are complete only after all
// of their own loops, so that what reads them runs in later loops than what they read.
#pragma once

#include <fusion.h>

#include <functional>
#include <unordered_map>

namespace nvfuser {

class LoopStages {
 public:
  // `ends_stage`: the expressions that are complete only after their loops.
  LoopStages(const Fusion* fusion, const std::function<bool(const Expr*)>& ends_stage);

  // Such a tensor cannot be inlined into the loops of any of its readers.
  bool isReadInSeveral(const TensorView* tv) const;

 private:
  const Fusion* fusion_;
  // The stage whose loops an expression is computed in: that of its first reader, which it is
  // inlined into.
  std::unordered_map<const Expr*, int> stages_;
};

} // namespace nvfuser
