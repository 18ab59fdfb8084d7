// SPDX-License-Identifier: BSD-3-Clause
// The check that the extents of one expression agree, with a message in terms of the inputs.
#pragma once

#include <definition/extent_constraints.h>
#include <ir/evaluator.h>
#include <runtime/kernel_args.h>

#include <memory>
#include <span>
#include <vector>

namespace nvfuser {

// Error naming the inputs whose sizes do not fit together, and which expression has both.
void checkExtents(const Fusion& fusion, const std::vector<ExtentConstraint>& constraints,
                  ScalarEvaluator& evaluator);

// A range of a slice that was given with manual_normalization: that it lies within the tensor is
// the user's promise.
struct PromisedRange {
  const SliceOp* op;
  int64_t dim;
  Val* start;
  Val* stop;
  Val* extent;
};
// Of a definition; concretization adds slices of its own.
std::vector<PromisedRange> promisedRanges(const Fusion& definition);
// Error unless 0 <= start <= stop <= extent.
void checkRanges(const Fusion& definition, const std::vector<PromisedRange>& ranges,
                 ScalarEvaluator& evaluator);

// A fusion as it was given, with its constraints.
class ExtentChecks {
 public:
  // is_definition: the ranges of its slices are checked as well.
  explicit ExtentChecks(const Fusion& fusion, bool is_definition)
      : fusion_(std::make_unique<Fusion>(fusion)),
        constraints_(extentConstraints(*fusion_)),
        ranges_(is_definition ? promisedRanges(*fusion_) : std::vector<PromisedRange>()) {}

  // The arguments fit the fusion's inputs.
  void run(std::span<const ArgView> args) const;

 private:
  std::unique_ptr<Fusion> fusion_;
  std::vector<ExtentConstraint> constraints_;
  std::vector<PromisedRange> ranges_;
};

} // namespace nvfuser
