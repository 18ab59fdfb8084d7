// SPDX-License-Identifier: BSD-3-Clause
// Reductions that nothing connects: which segments are joined, where the joined one stands, and the
// kernel that it becomes.
#include "lowering_for_test.h"

#include <runtime/machines.h>
#include <scheduler/registry.h>
#include <segment/segment.h>

#include <algorithm>

namespace nvfuser::test {
namespace {

// One reduction kernel takes nothing but reductions; all else is a segment for each operation.
SegmentVerdict reductionsOnly(Fusion* fusion) {
  const auto& exprs = fusion->exprs();
  SegmentVerdict verdict;
  const bool alone = exprs.size() == 1;
  if (alone || std::all_of(exprs.begin(), exprs.end(),
                           [](const Expr* e) { return e->kind() == ExprKind::ReductionOp; })) {
    verdict.scheduler = chooseScheduler(fusion);
  }
  verdict.reason = verdict.accepted() ? "" : "not only reductions";
  return verdict;
}

class IndependentReductions : public LoweringTest {
 protected:
  SegmentedFusion cut(const SegmentJudge& judge) {
    return segmentFusion(&fusion_, judge);
  }

  // Numbers of operations of the segments, which must come in an order that can be launched.
  std::vector<size_t> sizes(const SegmentedFusion& segmented) {
    std::unordered_set<const Val*> made(fusion_.inputs().begin(), fusion_.inputs().end());
    std::vector<size_t> out;
    for (const Segment& s : segmented.segments) {
      for (const Val* in : s.inputs) {
        EXPECT_TRUE(made.count(in) != 0) << segmented.toString();
      }
      made.insert(s.outputs.begin(), s.outputs.end());
      out.push_back(s.exprs.size());
    }
    return out;
  }

  bool isOneReduction() {
    return chooseScheduler(&fusion_) == SchedulerType::Reduction;
  }
};

TEST_F(IndependentReductions, JoinOverWhatLiesBetween) {
  TensorView* first = sum(input({8, 16}), {0});
  TensorView* between = neg(first);
  TensorView* other = neg(input({8, 16}));
  TensorView* second = sum(other, {0});
  for (TensorView* out : {between, second}) {
    fusion_.addOutput(out);
  }
  const SegmentedFusion segmented = cut(reductionsOnly);
  std::vector<size_t> found = sizes(segmented);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<size_t>{1, 1, 2})) << segmented.toString();
}

TEST_F(IndependentReductions, OneBehindAnotherStaysApart) {
  TensorView* first = sum(input({8, 16}), {0});
  TensorView* scaled = mul(input({8, 16}), broadcast(first, {true, false}));
  fusion_.addOutput(sum(scaled, {0}));
  const SegmentedFusion segmented = cut(reductionsOnly);
  EXPECT_EQ(sizes(segmented).size(), 4u) << segmented.toString();
}

TEST_F(IndependentReductions, AreBoundedInNumber) {
  for (int i = 0; i < 9; ++i) {
    fusion_.addOutput(sum(input({8, 16}), {0}));
  }
  const SegmentedFusion segmented = cut([](Fusion* fusion) {
    SegmentVerdict verdict;
    verdict.scheduler = chooseScheduler(fusion);
    verdict.reason = "too many";
    return verdict;
  });
  EXPECT_EQ(sizes(segmented), (std::vector<size_t>{4, 4, 1})) << segmented.toString();
}

TEST_F(IndependentReductions, OfDifferentExtentsStayApart) {
  fusion_.addOutput(sum(input({8, 16}), {0}));
  fusion_.addOutput(sum(input({9, 16}), {0}));
  EXPECT_FALSE(isOneReduction());
}

// One of them would be read across.
TEST_F(IndependentReductions, OfTensorsInDifferentOrdersStayApart) {
  TensorView* across = input({8, 16});
  across->setAllocationDomain({across->axis(1), across->axis(0)}, true);
  fusion_.addOutput(neg(sum(input({8, 16}), {0, 1})));
  fusion_.addOutput(sum(across, {0, 1}));
  EXPECT_EQ(cut(reductionsOnly).segments.size(), 3U);
}

TEST_F(IndependentReductions, OfUnknownExtentsStayApart) {
  fusion_.addOutput(sum(input({-1, 16}), {0}));
  fusion_.addOutput(sum(input({-1, 16}), {0}));
  EXPECT_FALSE(isOneReduction());
}

TEST_F(IndependentReductions, OfDifferentDimensionsStayApart) {
  fusion_.addOutput(sum(input({16, 16}), {0}));
  fusion_.addOutput(sum(input({16, 16}), {1}));
  EXPECT_FALSE(isOneReduction());
}

TEST_F(IndependentReductions, OfATensorWithTheDimensionsOfBothStayApart) {
  TensorView* x = input({16, 16});
  TensorView* y = input({16, 16});
  fusion_.addOutput(sum(x, {0, 1}));
  fusion_.addOutput(sum(y, {0, 1}));
  fusion_.addOutput(add(broadcast(sum(x, {1}), {false, true}), y));
  EXPECT_FALSE(isOneReduction());
}

TEST_F(IndependentReductions, RunBeforeWhatWritesMoreThanTheyDo) {
  TensorView* x = input({64, 32});
  TensorView* y = input({64, 32});
  fusion_.addOutput(exp(x)); // reads what the sum does
  fusion_.addOutput(sum(x, {1}));
  fusion_.addOutput(neg(y)); // reads something else
  fusion_.addOutput(sum(y, {0}));
  fusion_.addOutput(tanh(fusion_.outputs()[1]->as<TensorView>())); // needs it
  // One operation in each segment.
  const SegmentedFusion segmented = cut([](Fusion* fusion) {
    SegmentVerdict verdict;
    if (fusion->exprs().size() == 1) {
      verdict.scheduler = chooseScheduler(fusion);
    }
    verdict.reason = verdict.accepted() ? "" : "more than one";
    return verdict;
  });
  std::vector<size_t> at(5);
  for (size_t i = 0; i < segmented.segments.size(); ++i) {
    for (size_t k = 0; k < at.size(); ++k) {
      if (segmented.segments[i].outputs.front() == fusion_.outputs()[k]) {
        at[k] = i;
      }
    }
  }
  EXPECT_EQ(sizes(segmented).size(), 5u) << segmented.toString();
  EXPECT_LT(at[1], at[0]) << segmented.toString();
  EXPECT_LT(at[3], at[2]) << segmented.toString();
  EXPECT_LT(at[1], at[4]) << segmented.toString();
}

TEST_F(IndependentReductions, AreCombinedAtOnce) {
  fusion_.addOutput(sum(input({512, 16}), {0}));
  fusion_.addOutput(sum(input({512, 16}), {0}));
  ASSERT_TRUE(isOneReduction());
  SchedulerRuntimeInfo info(&fusion_, machineModel(Device::host()));
  const auto params = computeHeuristics(&fusion_, SchedulerType::Reduction, info);
  scheduleWith(&fusion_, SchedulerType::Reduction, *params);
  const std::string all = body();
  const size_t call = all.find("nvf::blockReduce<");
  ASSERT_NE(call, std::string::npos) << all;
  EXPECT_EQ(all.find("nvf::blockReduce<", call + 1), std::string::npos) << all;
  EXPECT_NE(all.find("ReduceTerm", all.find("ReduceTerm", call) + 1), std::string::npos) << all;
}

} // namespace
} // namespace nvfuser::test
