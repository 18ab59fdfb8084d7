// SPDX-License-Identifier: BSD-3-Clause
// The schedule primitives: what they make of the loop domain, and what they refuse.
#include <base/error.h>
#include <fusion.h>
#include <ops/all_ops.h>
#include <scheduler/utils.h>

#include <gtest/gtest.h>

#include <string>

namespace nvfuser {
namespace {

class TransformSchedule : public testing::Test {
 protected:
  TensorView* tensor(const std::vector<int64_t>& shape) {
    TensorView* in = makeContigConcreteTensor(shape);
    fusion_.addInput(in);
    TensorView* out = neg(in);
    fusion_.addOutput(out);
    return out;
  }
  std::vector<int64_t> extents(const TensorView* tv) {
    std::vector<int64_t> out;
    for (const IterDomain* id : tv->getLoopDomain()) {
      out.push_back(id->extent()->intValue());
    }
    return out;
  }

  Fusion fusion_;
  FusionGuard guard_{&fusion_};
};

template <class F>
std::string errorOf(F&& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

using Extents = std::vector<int64_t>;

TEST_F(TransformSchedule, SplitPutsTheFactorInsideOrOutside) {
  TensorView* tv = tensor({10, 6});
  tv->split(0, 4);
  EXPECT_EQ(extents(tv), (Extents{3, 4, 6}));
  tv->split(-1, 2, false);
  EXPECT_EQ(extents(tv), (Extents{3, 4, 2, 3}));
}

TEST_F(TransformSchedule, MergeTakesAnyTwoAxes) {
  TensorView* tv = tensor({2, 3, 5, 7});
  tv->merge(1, 3);
  EXPECT_EQ(extents(tv), (Extents{2, 21, 5}));
  auto* merge = tv->axis(1)->definition()->as<Merge>();
  EXPECT_EQ(merge->outer(), tv->getLogicalDomain()[1]);
  EXPECT_EQ(merge->inner(), tv->getLogicalDomain()[3]);
  tv->merge(0);
  EXPECT_EQ(extents(tv), (Extents{42, 5}));
}

TEST_F(TransformSchedule, MergeOfALaterAxisWithAnEarlierOneStandsAtTheEarlierPlace) {
  TensorView* tv = tensor({2, 3, 5});
  tv->merge(2, 0);
  EXPECT_EQ(extents(tv), (Extents{10, 3}));
  EXPECT_EQ(tv->axis(0)->definition()->as<Merge>()->inner(), tv->getLogicalDomain()[0]);
}

TEST_F(TransformSchedule, FlattenMergesARange) {
  EXPECT_EQ(extents(tensor({2, 3, 5, 7})->flatten(1, 2)), (Extents{2, 15, 7}));
  EXPECT_EQ(extents(tensor({2, 3, 5, 7})->flatten()), (Extents{210}));
  EXPECT_EQ(extents(tensor({})->flatten()), (Extents{}));
}

TEST_F(TransformSchedule, ReorderKeepsTheOthersInOrder) {
  EXPECT_EQ(extents(tensor({2, 3, 5, 7})->reorder(std::unordered_map<int64_t, int64_t>{{-1, 0}})),
            (Extents{7, 2, 3, 5}));
  EXPECT_EQ(
      extents(tensor({2, 3, 5})->reorder(std::unordered_map<int64_t, int64_t>{{0, 2}, {2, 0}})),
      (Extents{5, 3, 2}));
  EXPECT_EQ(extents(tensor({2, 3, 5})->reorder(std::vector<int64_t>{1, 2, 0})), (Extents{3, 5, 2}));
}

TEST_F(TransformSchedule, CallsChain) {
  TensorView* tv = tensor({64, 64});
  tv->merge(0)->split(0, 128)->split(0, 4)->reorder(std::vector<int64_t>{0, 2, 1});
  EXPECT_EQ(extents(tv), (Extents{8, 128, 4}));
}

TEST_F(TransformSchedule, ErrorsNameTheRule) {
  TensorView* tv = tensor({8, 8});
  EXPECT_NE(errorOf([&] { tv->split(2, 2); }).find("it has 2 loop axes"), std::string::npos);
  EXPECT_NE(errorOf([&] { tv->split(0, int64_t{0}); }).find("the factor must be > 0"),
            std::string::npos);
  EXPECT_NE(errorOf([&] { tv->merge(1); }).find("it is the last"), std::string::npos);
  EXPECT_NE(errorOf([&] { tv->merge(1, 1); }).find("with itself"), std::string::npos);
  EXPECT_NE(errorOf([&] { tv->reorder(std::vector<int64_t>{0, 0}); }).find("duplicate"),
            std::string::npos);
  tv->axis(0)->parallelize(ParallelType::BIDx);
  EXPECT_NE(errorOf([&] { tv->split(0, 2); }).find("it is not Serial"), std::string::npos);
  EXPECT_NE(errorOf([&] { tv->setMemoryType(MemoryType::Shared); }).find("non-global"),
            std::string::npos);
  EXPECT_NE(errorOf([&] { tv->rFactor({0}); }).find("must be a reduction"), std::string::npos);
}

TEST_F(TransformSchedule, AlignedRowsHaveRoomBeforeAndAfter) {
  TensorView* tv = tensor({4, 13});
  std::vector<IterDomain*> loop = tv->getLoopDomain();
  Val* length = loop[1]->extent();
  std::tie(loop[0], loop[1]) = IterDomain::align(loop[0], loop[1], length, 8);
  tv->domain()->setLoopDomain(loop);
  // Row 7 mod 8 would begin at the last element of a vector: 7 + 13 elements are three of them.
  EXPECT_EQ(extents(tv), (std::vector<int64_t>{4, 24}));
  const std::string text = tv->axis(1)->definition()->toString();
  EXPECT_NE(text.find("Align: "), std::string::npos) << text;
  EXPECT_NE(text.find(" of 13 to vectors of 8"), std::string::npos) << text;
  EXPECT_NE(errorOf([&] {
              IterDomain::align(loop[0], loop[1], length, 0);
            }).find("the width of a vector must be positive"),
            std::string::npos);
}

TEST_F(TransformSchedule, SharedLoopsCannotBeTransformed) {
  TensorView* in = makeContigTensor(2);
  fusion_.addInput(in);
  TensorView* a = neg(in);
  TensorView* b = neg(a);
  fusion_.addOutput(b);
  inlineMost();
  EXPECT_NE(errorOf([&] { a->split(1, 2); }).find("compute at position"), std::string::npos);
  EXPECT_NE(errorOf([&] { b->split(0, 2); }).find("producers are computed"), std::string::npos);
  EXPECT_NE(errorOf([&] { b->reorder(std::vector<int64_t>{1, 0}); }).find("position"),
            std::string::npos);
  EXPECT_NE(errorOf([&] { a->cacheAfter(); }).find("Apply caching before"), std::string::npos);
}

} // namespace
} // namespace nvfuser
