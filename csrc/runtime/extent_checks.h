// The check that extents which meet in an expression agree, with a message in terms of the inputs.
#pragma once

#include <definition/extent_constraints.h>
#include <ir/evaluator.h>
#include <runtime/kernel_args.h>

#include <memory>
#include <span>
#include <vector>

namespace nvfuser {

// Error naming the inputs whose sizes do not fit together, and where they meet.
void checkExtents(const Fusion& fusion, const std::vector<ExtentConstraint>& constraints,
                  ScalarEvaluator& evaluator);

// A fusion as it was given, with its constraints.
class ExtentChecks {
 public:
  explicit ExtentChecks(const Fusion& fusion)
      : fusion_(std::make_unique<Fusion>(fusion)), constraints_(extentConstraints(*fusion_)) {}

  // The arguments fit the fusion's inputs.
  void run(std::span<const ArgView> args) const;

 private:
  std::unique_ptr<Fusion> fusion_;
  std::vector<ExtentConstraint> constraints_;
};

} // namespace nvfuser
