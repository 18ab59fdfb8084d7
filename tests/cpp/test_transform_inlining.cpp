// SPDX-License-Identifier: BSD-3-Clause
// Inlining positions.
#include <base/error.h>
#include <fusion.h>
#include <ops/all_ops.h>
#include <scheduler/utils.h>

#include <gtest/gtest.h>

namespace nvfuser {
namespace {

class TransformInlining : public testing::Test {
 protected:
  TensorView* input(int64_t rank) {
    TensorView* tv = makeContigTensor(rank);
    fusion_.addInput(tv);
    return tv;
  }

  Fusion fusion_;
  FusionGuard guard_{&fusion_};
};

TEST_F(TransformInlining, TheSeedExampleEndsFullyInlined) {
  TensorView* tv0 = input(2);
  TensorView* tv1 = input(2);
  TensorView* tv2 = add(tv1, IrBuilder::create<Val>(2.0));
  TensorView* tv3 = add(tv0, tv2);
  fusion_.addOutput(tv3);
  tv3->merge(0);
  tv3->split(0, 128);
  tv3->split(0, 4);
  for (TensorView* in : {tv0, tv1}) {
    in->computeAt(tv3, -1, ComputeAtMode::MostInlined);
  }
  inlineMost();
  tv3->axis(0)->parallelize(ParallelType::BIDx);
  tv3->axis(1)->parallelize(ParallelType::Unroll);
  tv3->axis(2)->parallelize(ParallelType::TIDx);
  scheduler_utils::parallelizeAllLike(tv3);
  EXPECT_EQ(tv2->nDims(), 3);
  EXPECT_EQ(tv2->getComputeAtPosition(), 3);
  EXPECT_EQ(tv3->getMaxProducerPosition(), 3);
  EXPECT_EQ(tv2->axis(2)->parallelType(), ParallelType::TIDx);
  EXPECT_EQ(tv0->getComputeAtPosition(), 0);
}

TEST_F(TransformInlining, VectorizedAndUnrolledAxesStayOutside) {
  TensorView* in = input(2);
  TensorView* a = neg(in);
  TensorView* b = neg(a);
  TensorView* c = neg(b);
  fusion_.addOutput(c);
  c->split(1, 4);
  transformLike(c);
  b->axis(1)->parallelize(ParallelType::Unroll);
  c->axis(2)->parallelize(ParallelType::Vectorize);
  inlineMost();
  EXPECT_EQ(a->getComputeAtPosition(), 1);
  EXPECT_EQ(b->getComputeAtPosition(), 1);
}

TEST_F(TransformInlining, AConsumersVectorizedAxisIsNotInlinedInto) {
  TensorView* in = input(2);
  TensorView* a = neg(in);
  TensorView* b = neg(a);
  fusion_.addOutput(b);
  b->split(1, 4);
  transformLike(b);
  b->axis(2)->parallelize(ParallelType::Vectorize);
  inlineMost();
  EXPECT_EQ(a->getComputeAtPosition(), 2);
  EXPECT_THROW(a->inlineAt(3), UserError);
}

TEST_F(TransformInlining, LeadingBroadcastsOfTheConsumerAreNoObstacle) {
  TensorView* bias = input(1);
  TensorView* x = input(2);
  TensorView* a = neg(bias);
  TensorView* b = broadcast(a, {true, false});
  TensorView* out = add(x, b);
  fusion_.addOutput(out);
  inlineMost();
  EXPECT_EQ(a->getComputeAtPosition(), 1);
  EXPECT_EQ(b->getMaxProducerPosition(), 2);
  EXPECT_EQ(b->getComputeAtPosition(), 2);
}

TEST_F(TransformInlining, ABroadcastThatBecomesTwoThingsIsNotInlined) {
  TensorView* bias = input(1);
  TensorView* x = input(2);
  TensorView* y = input(2);
  TensorView* a = neg(bias);
  TensorView* b = broadcast(a, {true, false});
  TensorView* c = neg(b);
  fusion_.addOutput(add(x, c));
  fusion_.addOutput(add(y, c));
  inlineMost();
  EXPECT_EQ(c->getComputeAtPosition(), 0);
  EXPECT_EQ(b->getComputeAtPosition(), 0);
}

TEST_F(TransformInlining, ABroadcastThatBecomesOneThingInTwoPlacesIs) {
  TensorView* bias = input(1);
  TensorView* x = input(2);
  TensorView* b = broadcast(neg(bias), {true, false});
  TensorView* c = neg(b);
  TensorView* x2 = neg(x);
  fusion_.addOutput(add(x2, c));
  fusion_.addOutput(mul(x2, c));
  inlineMost();
  EXPECT_EQ(c->getComputeAtPosition(), 2);
  EXPECT_EQ(x2->getComputeAtPosition(), 2);
}

TEST_F(TransformInlining, ABroadcastThatBecomesDimensionsOfOneSizeIs) {
  TensorView* column = makeContigConcreteTensor({4});
  TensorView* x = makeContigConcreteTensor({4, 8});
  TensorView* y = makeContigConcreteTensor({4, 8});
  for (TensorView* in : {column, x, y}) {
    fusion_.addInput(in);
  }
  TensorView* b = broadcast(neg(column), {false, true});
  fusion_.addOutput(max(add(x, b), {0}));
  fusion_.addOutput(mul(y, b));
  inlineMost();
  EXPECT_EQ(b->getComputeAtPosition(), 2);
}

TEST_F(TransformInlining, ALoopThatRunsOnceInAllThreadsIsNotJoinedWithOneThatTheyShare) {
  TensorView* in = makeContigConcreteTensor({1});
  fusion_.addInput(in);
  TensorView* one = neg(in);
  TensorView* squeezed = exp(one);
  TensorView* again = broadcast(squeeze(squeezed, std::vector<bool>{true}), {true});
  TensorView* deviation = sub(squeezed, again);
  TensorView* rows = add(input(1), one);
  fusion_.addOutput(deviation);
  fusion_.addOutput(rows);
  for (TensorView* tv : {one, squeezed, again, deviation, rows}) {
    tv->axis(0)->parallelize(ParallelType::TIDx);
  }
  inlineMost();
  EXPECT_EQ(squeezed->getComputeAtPosition(), 0);
  EXPECT_EQ(one->getComputeAtPosition(), 0);
}

TEST_F(TransformInlining, ALoopThatASqueezeLeavesIsNotEnteredAgain) {
  TensorView* before = broadcast(sum(input(1), {0}), {true});
  TensorView* left = neg(before);
  TensorView* again = broadcast(squeeze(left, std::vector<bool>{true}), {true});
  TensorView* both = add(before, again);
  TensorView* out = neg(both);
  fusion_.addOutput(out);
  inlineMost();
  EXPECT_EQ(before->getComputeAtPosition(), 0);
  EXPECT_EQ(again->getComputeAtPosition(), 1);
  EXPECT_EQ(both->getComputeAtPosition(), 1);
}

TEST_F(TransformInlining, WhatIsReducedAndReadAgainStaysOutsideOfTheReducedLoop) {
  TensorView* in = input(2);
  TensorView* before = neg(in);
  TensorView* result = broadcast(sum(before, {1}), {false, true});
  TensorView* beside = neg(before);
  TensorView* out = add(before, result);
  fusion_.addOutput(out);
  fusion_.addOutput(abs(beside));
  inlineMost();
  EXPECT_EQ(before->getComputeAtPosition(), 1);
  EXPECT_EQ(result->getComputeAtPosition(), 2);
  EXPECT_EQ(beside->getComputeAtPosition(), 2);
}

TEST_F(TransformInlining, WhatIsSqueezedForAnotherOutputIsInlined) {
  TensorView* before = neg(broadcast(sum(input(1), {0}), {true}));
  TensorView* left = neg(before);
  fusion_.addOutput(squeeze(left, std::vector<bool>{true}));
  fusion_.addOutput(neg(before));
  inlineMost();
  EXPECT_EQ(before->getComputeAtPosition(), 1);
}

TEST_F(TransformInlining, NothingIsInlinedIntoLoopsThatNeverRun) {
  TensorView* x = makeConcreteTensor({-1, 1});
  fusion_.addInput(x);
  TensorView* a = neg(x);
  TensorView* none = slice(set(x), std::vector<int64_t>{0, 0}, std::vector<int64_t>{4, 0});
  fusion_.addOutput(mul(none, a));
  fusion_.addOutput(neg(a));
  inlineMost();
  EXPECT_EQ(a->getComputeAtPosition(), 1);
}

TEST_F(TransformInlining, DifferentLoopsEndInlining) {
  TensorView* in = input(3);
  TensorView* a = neg(in);
  TensorView* b = neg(a);
  fusion_.addOutput(b);
  b->split(2, 8);
  a->split(2, 4);
  inlineMost();
  EXPECT_EQ(a->getComputeAtPosition(), 2);
}

TEST_F(TransformInlining, OrderOfLoopsMatters) {
  TensorView* in = input(3);
  TensorView* a = neg(in);
  TensorView* b = neg(a);
  fusion_.addOutput(b);
  b->reorder(std::vector<int64_t>{1, 0, 2});
  inlineMost();
  EXPECT_EQ(a->getComputeAtPosition(), 0);
}

TEST_F(TransformInlining, InlineAllAtFollowsTheReference) {
  TensorView* bias = input(1);
  TensorView* x = input(2);
  TensorView* a = neg(bias);
  TensorView* b = broadcast(a, {true, false});
  TensorView* y = neg(x);
  TensorView* out = add(y, b);
  fusion_.addOutput(out);
  inlineAllAt(out, 1, true);
  EXPECT_EQ(y->getComputeAtPosition(), 1);
  EXPECT_EQ(b->getComputeAtPosition(), 1);
  EXPECT_EQ(a->getComputeAtPosition(), 0);
}

TEST_F(TransformInlining, ComputeAtStandardRefusesWhatBestEffortLowers) {
  TensorView* in = input(2);
  TensorView* a = neg(in);
  TensorView* b = neg(a);
  fusion_.addOutput(b);
  b->split(1, 4);
  b->axis(2)->parallelize(ParallelType::Vectorize);
  EXPECT_THROW(a->computeAt(b, -1), UserError);
  a->computeAt(b, -1, ComputeAtMode::BestEffort);
  EXPECT_EQ(a->getComputeAtPosition(), 2);
  EXPECT_THROW(b->computeAt(a, 1), UserError);
}

TEST_F(TransformInlining, LongChainsAreLinear) {
  TensorView* tv = input(3);
  for (int i = 0; i < 3000; ++i) {
    tv = neg(tv);
  }
  fusion_.addOutput(tv);
  tv->flatten()->split(0, 128);
  transformLike(tv);
  tv->axis(0)->parallelize(ParallelType::BIDx);
  tv->axis(1)->parallelize(ParallelType::TIDx);
  scheduler_utils::parallelizeAllLike(tv);
  inlineMost();
  EXPECT_EQ(fusion_.allTvs()[1]->getComputeAtPosition(), 2);
}

} // namespace
} // namespace nvfuser
