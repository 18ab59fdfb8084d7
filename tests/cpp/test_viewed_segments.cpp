// SPDX-License-Identifier: BSD-3-Clause
// Segments that only name dimensions anew take no kernel.
#include "ops_for_test.h"

#include <segment/segment.h>
#include <segment/viewed_segments.h>

#include <algorithm>

namespace nvfuser::test {

class ViewedSegments : public testing_utils::OpsTest {
 protected:
  // A kernel for each operation.
  static SegmentVerdict judge(Fusion* segment) {
    SegmentVerdict verdict;
    verdict.reason = "one operation in each";
    if (segment->exprs().size() == 1) {
      verdict.scheduler = SchedulerType::PointWise;
    }
    return verdict;
  }

  size_t segmentsLeft(const std::unordered_set<const Val*>& kept = {}) {
    SegmentedFusion segmented = segmentFusion(&fusion_, judge);
    viewInsteadOfCopies(&fusion_, segmented, kept);
    return segmented.segments.size();
  }
  bool hasView() const {
    return fusion_.hasExpr(ExprKind::MemoryViewOp);
  }
};

TEST_F(ViewedSegments, AReshapeBetweenKernels) {
  TensorView* y = exp(input({8, 6}));
  fusion_.addOutput(sum(reshape(y, {IrBuilder::index(4), IrBuilder::index(12)}), {1}));
  EXPECT_EQ(segmentsLeft(), 2U);
  EXPECT_TRUE(hasView());
}

TEST_F(ViewedSegments, NewDimensionsOfSizeOne) {
  fusion_.addOutput(sum(broadcast(exp(input({8, 6})), {false, true, false}), {2}));
  EXPECT_EQ(segmentsLeft(), 2U);
  EXPECT_TRUE(hasView());
}

TEST_F(ViewedSegments, APermutationIsACopy) {
  fusion_.addOutput(sum(permute(exp(input({8, 6})), {1, 0}), {1}));
  EXPECT_EQ(segmentsLeft(), 3U);
  EXPECT_FALSE(hasView());
}

TEST_F(ViewedSegments, AResultIsATensorOfItsOwn) {
  fusion_.addOutput(broadcast(exp(input({8, 6})), {false, true, false}));
  EXPECT_EQ(segmentsLeft(), 2U);
  EXPECT_FALSE(hasView());
}

// Whose strides nobody knows.
TEST_F(ViewedSegments, AnInput) {
  fusion_.addOutput(sum(broadcast(input({8, 6}), {false, true, false}), {2}));
  EXPECT_EQ(segmentsLeft(), 2U);
  EXPECT_FALSE(hasView());
}

TEST_F(ViewedSegments, MemoryInAnotherOrderOrWithGaps) {
  TensorView* y = exp(input({8, 6}));
  TensorView* seen = broadcast(y, {false, true, false});
  fusion_.addOutput(sum(seen, {2}));
  EXPECT_EQ(segmentsLeft({y}), 3U);
  EXPECT_EQ(segmentsLeft({seen}), 3U);
  y->setAllocationDomain({y->axis(1), y->axis(0)}, true);
  EXPECT_EQ(segmentsLeft(), 3U);
  EXPECT_FALSE(hasView());
}

} // namespace nvfuser::test
