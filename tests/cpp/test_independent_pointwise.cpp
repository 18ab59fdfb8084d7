// SPDX-License-Identifier: BSD-3-Clause
// Elementwise operations that nothing connects: which share a kernel, and which do not.
#include "lowering_for_test.h"

#include <runtime/machines.h>
#include <scheduler/registry.h>
#include <segment/segment.h>

#include <algorithm>

namespace nvfuser::test {
namespace {

class IndependentPointwise : public LoweringTest {
 protected:
  size_t numSegments(const SegmentJudge& judge) {
    return segmentFusion(&fusion_, judge).segments.size();
  }

  size_t numSegments() {
    return numSegments([](Fusion* fusion) {
      SegmentVerdict verdict;
      verdict.scheduler = chooseScheduler(fusion);
      verdict.reason = verdict.accepted() ? "" : "no scheduler";
      return verdict;
    });
  }
};

TEST_F(IndependentPointwise, OfOneSizeShareAKernel) {
  for (int i = 0; i < 4; ++i) {
    fusion_.addOutput(neg(input({8, 16})));
  }
  EXPECT_EQ(numSegments(), 1U);
}

TEST_F(IndependentPointwise, OfDifferentSizesStayApart) {
  fusion_.addOutput(neg(input({8, 16})));
  fusion_.addOutput(neg(input({16, 8})));
  EXPECT_EQ(numSegments(), 2U);
}

TEST_F(IndependentPointwise, OfUnknownSizesStayApart) {
  fusion_.addOutput(neg(input({-1, 16})));
  fusion_.addOutput(neg(input({-1, 16})));
  EXPECT_EQ(numSegments(), 2U);
}

TEST_F(IndependentPointwise, DimensionsOfOneElementDoNotCount) {
  fusion_.addOutput(neg(input({8, 16})));
  fusion_.addOutput(exp(input({8, 1, 16, 1})));
  EXPECT_EQ(numSegments(), 1U);
}

// The loops of one would be across the other.
TEST_F(IndependentPointwise, InDifferentOrdersStayApart) {
  TensorView* across = neg(input({16, 16}));
  across->setAllocationDomain({across->axis(1), across->axis(0)}, true);
  fusion_.addOutput(neg(input({16, 16})));
  fusion_.addOutput(across);
  EXPECT_EQ(numSegments(), 2U);
}

TEST_F(IndependentPointwise, ConstantsJoinWhatIsAsLarge) {
  fusion_.addOutput(neg(input({8, 16})));
  const std::vector<Val*> sizes{IrBuilder::index(8), IrBuilder::index(16)};
  fusion_.addOutput(sin(full(sizes, IrBuilder::create<Val>(2.0), DataType::Float)));
  EXPECT_EQ(numSegments(), 1U);
}

// What both make would lie in memory at once.
TEST_F(IndependentPointwise, StayApartWhereThatTakesMoreMemory) {
  const auto alone = [](Fusion* fusion) {
    const auto& exprs = fusion->exprs();
    SegmentVerdict verdict;
    if (exprs.size() == 1 || std::ranges::none_of(exprs, isReduction)) {
      verdict.scheduler = chooseScheduler(fusion);
    }
    verdict.reason = verdict.accepted() ? "" : "a sum and more";
    return verdict;
  };
  TensorView* one = exp(input({2048, 2048}));
  fusion_.addOutput(sum(one, {1}));
  TensorView* other = exp(input({2048, 2048}));
  fusion_.addOutput(sum(other, {0}));
  EXPECT_EQ(numSegments(alone), 4U);
  // As results they do anyway.
  fusion_.addOutput(one);
  fusion_.addOutput(other);
  EXPECT_EQ(numSegments(alone), 3U);
}

TEST_F(IndependentPointwise, RunThroughTheLoopsOfTheReference) {
  fusion_.addOutput(neg(input({8, 1, 16})));
  fusion_.addOutput(exp(input({8, 16})));
  EXPECT_EQ(chooseScheduler(&fusion_), SchedulerType::None);
  fusion_.setSharesLoops(true);
  SchedulerRuntimeInfo info(&fusion_, machineModel(Device::host()));
  const auto params = computeHeuristics(&fusion_, SchedulerType::PointWise, info);
  scheduleWith(&fusion_, SchedulerType::PointWise, *params);
  const std::vector<Val*>& outs = fusion_.outputs();
  const auto& own = outs[1]->as<TensorView>()->getLoopDomain();
  const auto& reference = outs[0]->as<TensorView>()->getLoopDomain();
  ASSERT_EQ(own.size(), reference.size());
  for (size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ(own[i]->parallelType(), reference[i]->parallelType()) << i;
  }
}

} // namespace
} // namespace nvfuser::test
