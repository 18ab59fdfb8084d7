// The two reductions of a softmax, max(x) and sum(exp(x - max(x))), are one pass over x where
// nothing else reads the exponentials: the loss of a classifier reads its rows once, and a
// log-softmax waits for one reduction instead of two. A softmax itself keeps two: the exponentials
// stay in registers, while one pass would compute them once more, which takes longer.
#pragma once

#include <fusion.h>

namespace nvfuser {

// Replaces every such pair by an OnlineSoftmaxOp. Before the fusion is cut. `repeat`: other readers
// of the exponentials compute them again, as rows take several kernels anyway.
void mergeSoftmaxStatistics(Fusion* fusion, bool repeat);

} // namespace nvfuser
