// SPDX-License-Identifier: BSD-3-Clause
// Replaying a reference's loops on other tensors, and copying its parallel types.
#include <definition/rebuild.h>
#include <fusion.h>
#include <ops/all_ops.h>
#include <scheduler/utils.h>
#include <transform/replay.h>

#include <gtest/gtest.h>

namespace nvfuser {
namespace {

class TransformReplay : public testing::Test {
 protected:
  TensorView* input(const std::vector<int64_t>& shape) {
    TensorView* tv = makeContigConcreteTensor(shape);
    fusion_.addInput(tv);
    return tv;
  }
  static std::vector<int64_t> extents(const TensorView* tv) {
    std::vector<int64_t> out;
    for (const IterDomain* id : tv->getLoopDomain()) {
      out.push_back(id->extent()->intValue());
    }
    return out;
  }

  Fusion fusion_;
  FusionGuard guard_{&fusion_};
};

using Extents = std::vector<int64_t>;

TEST_F(TransformReplay, ElementwiseNeighboursGetTheSameLoops) {
  TensorView* in = input({32, 48});
  TensorView* mid = neg(in);
  TensorView* out = exp(mid);
  fusion_.addOutput(out);
  out->merge(0)->split(0, 128)->split(0, 4);
  transformLike(out);
  EXPECT_EQ(extents(mid), (Extents{3, 4, 128}));
  EXPECT_EQ(extents(in), (Extents{3, 4, 128}));
}

TEST_F(TransformReplay, MissingDimensionsAreSkipped) {
  TensorView* bias = input({48});
  TensorView* x = input({32, 48});
  TensorView* b = broadcast(bias, {true, false});
  TensorView* out = add(x, b);
  fusion_.addOutput(out);
  out->split(1, 16)->split(0, 8)->reorder(std::vector<int64_t>{0, 2, 1, 3});
  EXPECT_EQ(extents(out), (Extents{4, 3, 8, 16}));
  transformLike(out);
  EXPECT_EQ(extents(b), (Extents{1, 3, 8, 16}));
  EXPECT_EQ(extents(bias), (Extents{3, 16}));
}

TEST_F(TransformReplay, AMergeWithAMissingDimensionIsTheOtherOne) {
  TensorView* bias = input({48});
  TensorView* x = input({32, 48});
  TensorView* out = add(x, broadcast(bias, {true, false}));
  fusion_.addOutput(out);
  out->merge(0)->split(0, 16);
  transformLike(out);
  EXPECT_EQ(extents(bias), (Extents{3, 16}));
  TensorView* b = out->definition()->input(1)->as<TensorView>();
  const LoopAxisMap map = mapLoopAxes(bias, b);
  EXPECT_EQ(map.producer_to_consumer, (Extents{0, 1}));
}

// The definition with its reshapes decided, in `to`.
void decide(const Fusion& from, Fusion* to) {
  ScalarEvaluator sizes;
  concretize(from, concretizationInfo(from, sizes), to);
}

TEST_F(TransformReplay, ReshapeIsUndoneGoingBackwardAndFollowedGoingForward) {
  Fusion raw;
  {
    FusionGuard guard(&raw);
    TensorView* in = makeContigConcreteTensor({6, 20});
    raw.addInput(in);
    TensorView* a = neg(in);
    raw.addOutput(exp(reshape(a, std::vector<int64_t>{12, 10})));
    raw.addOutput(sin(a));
  }
  decide(raw, &fusion_);
  auto* c = fusion_.outputs()[0]->as<TensorView>();
  auto* d = fusion_.outputs()[1]->as<TensorView>();
  auto* b = c->definition()->input(0)->as<TensorView>();
  auto* a = d->definition()->input(0)->as<TensorView>();
  ASSERT_TRUE(b->hasRoot());
  c->merge(0)->split(0, 8);
  transformLike(c);
  // The merge and split of the reshape come first, then the schedule.
  EXPECT_EQ(extents(a), (Extents{15, 8}));
  EXPECT_EQ(extents(d), (Extents{15, 8}));
  EXPECT_EQ(mapLoopAxes(a, b).producer_to_consumer, (Extents{0, 1}));
}

TEST_F(TransformReplay, AMergingReshapeIsFollowedForward) {
  Fusion raw;
  {
    FusionGuard guard(&raw);
    TensorView* in = makeContigConcreteTensor({6, 20});
    raw.addInput(in);
    raw.addOutput(reshape(neg(in), std::vector<int64_t>{120}));
  }
  decide(raw, &fusion_);
  auto* b = fusion_.outputs()[0]->as<TensorView>();
  auto* a = b->definition()->input(0)->as<TensorView>();
  a->merge(0)->split(0, 8);
  transformLike(a);
  EXPECT_EQ(extents(b), (Extents{15, 8}));
}

TEST_F(TransformReplay, ASplitOfPartOfAReshapeNeedNotDivide) {
  // The reshape splits the merge of two dimensions; a tensor with one of them alone is split with a
  // rest.
  Fusion raw;
  {
    FusionGuard guard(&raw);
    TensorView* row = makeContigConcreteTensor({33});
    TensorView* x = makeContigConcreteTensor({33, 33});
    raw.addInput(row);
    raw.addInput(x);
    TensorView* sum = add(x, broadcast(sin(row), {false, true}));
    raw.addOutput(reshape(sum, std::vector<int64_t>{11, 99}));
  }
  decide(raw, &fusion_);
  transformLike(fusion_.outputs()[0]->as<TensorView>());
  for (TensorView* tv : fusion_.allTvs()) {
    for (IterDomain* id : tv->getLoopDomain()) {
      const auto* split = dynamic_cast<const Split*>(id->definition());
      if (split != nullptr && split->in()->extent()->isConstInt() &&
          split->in()->extent()->intValue() == 33) {
        EXPECT_FALSE(split->isDivisible()) << tv->toString();
      }
    }
  }
}

TEST_F(TransformReplay, ASliceBecomesALoopTransformOfItsProducer) {
  TensorView* in = input({8, 20});
  TensorView* a = neg(in);
  TensorView* s = slice(a, std::vector<int64_t>{0, 4}, std::vector<int64_t>{8, 16});
  fusion_.addOutput(s);
  s->split(1, 4);
  transformLike(s);
  EXPECT_EQ(extents(a), (Extents{8, 3, 4}));
  EXPECT_TRUE(a->axis(1)->definition()->as<Split>()->in()->definition()->isA<Resize>());
}

// A chain of them would have extents as deep as the chain, for each tensor anew.
TEST_F(TransformReplay, WhatIsRepeatedOnTheSameExtentsHasTheSameExtents) {
  TensorView* in = makeContigTensor(1);
  fusion_.addInput(in);
  TensorView* a = neg(in);
  TensorView* s = slice(a, std::vector<int64_t>{1}, std::vector<int64_t>{16});
  fusion_.addOutput(s);
  transformLike(s);
  EXPECT_EQ(a->axis(0)->extent(), s->axis(0)->extent());
}

TEST_F(TransformReplay, ParallelTypesFollowThroughBroadcasts) {
  TensorView* bias = input({48});
  TensorView* x = input({32, 48});
  TensorView* b = broadcast(bias, {true, false});
  TensorView* bias_cache = bias->cacheAfter();
  TensorView* y = neg(x);
  TensorView* out = add(y, b);
  fusion_.addOutput(out);
  out->split(1, 16);
  transformLike(out);
  out->axis(0)->parallelize(ParallelType::BIDy);
  out->axis(1)->parallelize(ParallelType::BIDx);
  out->axis(2)->parallelize(ParallelType::TIDx);
  scheduler_utils::parallelizeAllLike(out);
  EXPECT_EQ(b->axis(0)->parallelType(), ParallelType::BIDy);
  EXPECT_EQ(bias_cache->axis(0)->parallelType(), ParallelType::BIDx);
  EXPECT_EQ(bias_cache->axis(1)->parallelType(), ParallelType::TIDx);
  EXPECT_EQ(y->axis(2)->parallelType(), ParallelType::TIDx);
  EXPECT_EQ(x->axis(0)->parallelType(), ParallelType::Serial); // inputs are not computed
}

TEST_F(TransformReplay, ParallelTypesCanBeSelected) {
  TensorView* in = input({32, 48});
  TensorView* a = neg(in);
  TensorView* b = neg(a);
  TensorView* c = neg(b);
  fusion_.addOutput(c);
  c->axis(0)->parallelize(ParallelType::BIDx);
  c->axis(1)->parallelize(ParallelType::TIDx);
  scheduler_utils::parallelizeAllLike(c, -1, {b});
  EXPECT_EQ(a->axis(0)->parallelType(), ParallelType::Serial);
  EXPECT_EQ(b->axis(1)->parallelType(), ParallelType::TIDx);
  scheduler_utils::parallelizeAllLike(c, -1, {}, {ParallelType::TIDx});
  EXPECT_EQ(a->axis(0)->parallelType(), ParallelType::Serial);
  EXPECT_EQ(a->axis(1)->parallelType(), ParallelType::TIDx);
  scheduler_utils::parallelizeAllLike(c, 1);
  EXPECT_EQ(a->axis(0)->parallelType(), ParallelType::BIDx);
}

TEST_F(TransformReplay, BoundedBackwardStopsAtTheBound) {
  TensorView* in = input({32, 48});
  TensorView* a = neg(in);
  TensorView* b = neg(a);
  TensorView* c = neg(b);
  fusion_.addOutput(c);
  c->split(1, 16)->split(0, 8);
  boundedTransformBackward(c, -1, {a});
  EXPECT_EQ(extents(b), (Extents{4, 8, 3, 16}));
  EXPECT_EQ(extents(a), (Extents{32, 48}));
  boundedTransformBackward(c, 2, {in});
  EXPECT_EQ(extents(a), (Extents{4, 8, 48}));
  EXPECT_EQ(extents(b), (Extents{4, 8, 3, 16}));
}

TEST_F(TransformReplay, AgreeingLoopsStayAsTheyAre) {
  TensorView* in = input({32, 48});
  TensorView* a = neg(in);
  TensorView* b = neg(a);
  fusion_.addOutput(b);
  b->split(1, 16);
  transformLike(b);
  a->axis(2)->parallelize(ParallelType::TIDx);
  transformLike(b);
  EXPECT_EQ(a->axis(2)->parallelType(), ParallelType::TIDx);
}

TEST_F(TransformReplay, SpanningTreeKeepsTheMostDimensions) {
  // From `out` to `x` directly, not through the sum of broadcasts.
  TensorView* x = input({32, 48});
  TensorView* y = input({48});
  TensorView* yb = broadcast(y, {true, false});
  TensorView* z = mul(x, yb);
  TensorView* out = add(z, yb);
  fusion_.addOutput(out);
  const auto steps = maxInfoSpanningTree(TensorGraph(&fusion_), out);
  ASSERT_EQ(steps.size(), 4);
  for (const PropagationStep& s : steps) {
    EXPECT_TRUE(s.backward);
  }
  EXPECT_EQ(steps.back().to, y);
}

} // namespace
} // namespace nvfuser
