// The two reductions of a softmax, max(x) and sum(exp(x - max(x))), are one pass over x: rows that are not
// needed afterwards (the loss of a classifier) are read once, and all others wait for one reduction instead
// of two.
#pragma once

#include <fusion.h>

namespace nvfuser {

// Replaces every such pair by an OnlineSoftmaxOp. Before the fusion is cut.
void mergeSoftmaxStatistics(Fusion* fusion);

} // namespace nvfuser
