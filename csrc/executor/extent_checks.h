// The check that extents which meet in an expression agree, with a message in terms of the inputs.
#pragma once

#include <ir/evaluator.h>
#include <ops/rebuild.h>

#include <vector>

namespace nvfuser {

// Error naming the inputs whose sizes do not fit together, and where they meet.
void checkExtents(const Fusion& fusion, const std::vector<ExtentConstraint>& constraints,
                  ScalarEvaluator& evaluator);

} // namespace nvfuser
