// SPDX-License-Identifier: BSD-3-Clause
// Copies before and after tensors.
#include <base/error.h>
#include <fusion.h>
#include <ops/all_ops.h>
#include <scheduler/utils.h>

#include <gtest/gtest.h>

namespace nvfuser {
namespace {

class TransformCache : public testing::Test {
 protected:
  Fusion fusion_;
  FusionGuard guard_{&fusion_};
};

TEST_F(TransformCache, AfterAnInputAllUsesReadTheCopy) {
  TensorView* in = makeContigTensor(2);
  fusion_.addInput(in);
  TensorView* a = neg(in);
  TensorView* b = exp(in);
  fusion_.addOutput(add(a, b));
  TensorView* cache = in->cacheAfter();
  EXPECT_EQ(a->definition()->input(0), cache);
  EXPECT_EQ(b->definition()->input(0), cache);
  EXPECT_EQ(cache->definition()->input(0), in);
  EXPECT_EQ(cache->getMemoryType(), MemoryType::Local);
  EXPECT_EQ(fusion_.exprs().size(), 4);
}

TEST_F(TransformCache, AfterForOneUseOnly) {
  TensorView* in = makeContigTensor(2);
  fusion_.addInput(in);
  TensorView* a = neg(in);
  TensorView* b = exp(in);
  fusion_.addOutput(add(a, b));
  TensorView* cache =
      in->cacheAfter(LoadStoreOpType::Set, CacheOp::Streaming, true, {a->definition()});
  EXPECT_EQ(a->definition()->input(0), cache);
  EXPECT_EQ(b->definition()->input(0), in);
  EXPECT_EQ(cache->definition()->as<LoadStoreOp>()->cacheOp(), CacheOp::Streaming);
  EXPECT_THROW(in->cacheAfter(LoadStoreOpType::Set, CacheOp::Unspecified, true, {cache->uses()[0]}),
               UserError);
}

TEST_F(TransformCache, BeforeAnOutputTheCopyTakesTheDefinition) {
  TensorView* in = makeContigTensor(2);
  fusion_.addInput(in);
  TensorView* out = slice(in, std::vector<int64_t>{1, 0}, std::vector<int64_t>{3, 2});
  fusion_.addOutput(out);
  TensorView* cache = out->cacheBefore();
  EXPECT_TRUE(cache->hasRoot());
  EXPECT_FALSE(out->hasRoot());
  EXPECT_TRUE(cache->definition()->isA<SliceOp>());
  EXPECT_EQ(out->definition()->input(0), cache);
  EXPECT_TRUE(out->isFusionOutput());
  EXPECT_EQ(out->getMemoryType(), MemoryType::Global);
  EXPECT_EQ(cache->getMemoryType(), MemoryType::Local);
  EXPECT_EQ(fusion_.exprs().size(), 2);
  EXPECT_THROW(in->cacheBefore(), UserError);
}

TEST_F(TransformCache, BeforeKeepsTheMemoryOrderOfTheOutput) {
  TensorView* in = makeContigTensor(2);
  fusion_.addInput(in);
  TensorView* out = neg(in);
  fusion_.addOutput(out);
  const auto logical = out->getLogicalDomain();
  out->setAllocationDomain({logical[1], logical[0]}, true);
  TensorView* cache = out->cacheBefore();
  ASSERT_EQ(out->getAllocationDomain().size(), 2);
  EXPECT_EQ(out->getAllocationDomain()[0], out->getLogicalDomain()[1]);
  EXPECT_TRUE(cache->getAllocationDomain().empty());
}

TEST_F(TransformCache, CopiesAreScheduledLikeTheOriginal) {
  TensorView* in = makeContigTensor(2);
  fusion_.addInput(in);
  TensorView* out = neg(in);
  fusion_.addOutput(out);
  out->merge(0)->split(0, 32);
  out->axis(1)->parallelize(ParallelType::TIDx);
  TensorView* cache = out->cacheBefore();
  EXPECT_EQ(cache->nDims(), 2);
  EXPECT_EQ(out->nDims(), 2);
  EXPECT_EQ(out->axis(1)->parallelType(), ParallelType::TIDx);
}

TEST_F(TransformCache, ForkSeparatesAnOutputFromItsUses) {
  TensorView* in = makeContigTensor(2);
  fusion_.addInput(in);
  TensorView* a = neg(in);
  TensorView* b = exp(a);
  fusion_.addOutput(a);
  fusion_.addOutput(b);
  TensorView* copy = a->cacheFork();
  EXPECT_EQ(fusion_.outputs()[0], copy);
  EXPECT_FALSE(a->isFusionOutput());
  EXPECT_EQ(a->getMemoryType(), MemoryType::Local);
  EXPECT_EQ(copy->getMemoryType(), MemoryType::Global);
  EXPECT_EQ(b->definition()->input(0), a);
  EXPECT_THROW(b->cacheFork(), UserError);
}

} // namespace
} // namespace nvfuser
