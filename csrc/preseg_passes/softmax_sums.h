// SPDX-License-Identifier: BSD-3-Clause
// Sums of exponentials of what is less than its maximum: sum(exp(x - max(x))) as softmax has it,
// and as logsumexp has it, which subtracts 0 where the maximum is infinite.
#pragma once

#include <ir/exprs.h>

#include <optional>
#include <vector>

namespace nvfuser {

struct SoftmaxSum {
  ReductionOp* max = nullptr;
  // where(|max| == inf, 0, max); null if the maximum itself is subtracted.
  const ElementwiseOp* guard = nullptr;
};

// The maximum is along the dimensions of the sum, and nothing is rounded on the way.
std::optional<SoftmaxSum> softmaxSumOf(const ReductionOp* sum);

// What makes sum(exp(x - max)) of a sum that is finite where the maximum is infinite. exp(x - max)
// is NaN there; of nothing the sum is 0, though the maximum is infinite.
std::vector<Val*> termsOfSoftmaxSum(TensorView* max, TensorView* total);

} // namespace nvfuser
