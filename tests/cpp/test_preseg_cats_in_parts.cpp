// SPDX-License-Identifier: BSD-3-Clause
// Parts of concatenations are outputs in their place.
#include "preseg_for_test.h"

#include <preseg_passes/cats_in_parts.h>

namespace nvfuser::test {

class CatsInParts : public PresegTest {
 protected:
  std::vector<OutputPart> parts_;

  static TensorView* centered(TensorView* tv) {
    return sub(tv, broadcast(sum(tv, {1}), {false, true}));
  }

  void rewrite(uint64_t which = ~uint64_t{0}) {
    writeCatsInParts(&fusion_, which, {}, parts_);
  }
};

TEST_F(CatsInParts, PartsAreOutputsWithTheGapsOfTheOthers) {
  TensorView* x = input({4, 8});
  fusion_.addOutput(cat({neg(x), abs(x)}, 1));
  rewrite();
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = neg(x0)
t1 float32[i4, i8] = Set(t0)
t2 float32[i4, i8] = abs(x0)
t3 float32[i4, i8] = Set(t2)
outputs: t1 t3
)");
  ASSERT_EQ(parts_.size(), 2U);
  EXPECT_EQ(parts_[0].whole, parts_[1].whole);
  EXPECT_TRUE(parts_[0].start->isZeroInt());
  EXPECT_EQ(parts_[1].start->toInlineString(), "8");
  EXPECT_EQ(parts_[1].part->getContiguity(), (TensorDomain::Contiguity{false, true}));
}

TEST_F(CatsInParts, AlongTheOutermostDimensionEachIsOnePiece) {
  TensorView* x = input({4, 8});
  fusion_.addOutput(cat({neg(x), abs(x)}, 0));
  rewrite();
  ASSERT_EQ(parts_.size(), 2U);
  EXPECT_EQ(parts_[1].part->getContiguity(), (TensorDomain::Contiguity{true, true}));
}

TEST_F(CatsInParts, ColumnsThatHaveMuchInCommon) {
  TensorView* x = input({4});
  TensorView* shared = x;
  for (int i = 0; i < 16; ++i) {
    shared = sin(shared);
  }
  const auto column = [](TensorView* tv) { return broadcast(tv, {false, true}); };
  fusion_.addOutput(cat({column(neg(shared)), column(abs(shared))}, 1));
  fusion_.addOutput(cat({column(neg(x)), column(abs(x))}, 1)); // little to compute again
  ASSERT_EQ(catsInParts(&fusion_).size(), 1U);
  rewrite();
  ASSERT_EQ(parts_.size(), 2U);
  EXPECT_EQ(parts_[1].start->toInlineString(), "1");
  EXPECT_EQ(parts_[1].part->getLogicalDomain().size(), 1U);
  EXPECT_EQ(parts_[1].part->getContiguity(), (TensorDomain::Contiguity{false}));
}

TEST_F(CatsInParts, WhatIsStackedLacksTheDimension) {
  TensorView* x = input({4, 8});
  TensorView* y = input({4, 8});
  const auto row = [](TensorView* tv) { return broadcast(tv, {false, true, false}); };
  fusion_.addOutput(cat({row(neg(x)), row(abs(y))}, 1));
  const std::vector<CatInParts> found = catsInParts(&fusion_);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].of_stack);
  EXPECT_TRUE(found[0].needs_runs);
  rewrite();
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = neg(x0)
t1 float32[i4, i8] = Set(t0)
t2 float32[i4, i8] = abs(x1)
t3 float32[i4, i8] = Set(t2)
outputs: t1 t3
)");
  ASSERT_EQ(parts_.size(), 2U);
  EXPECT_EQ(parts_[1].start->toInlineString(), "1");
  EXPECT_EQ(parts_[1].part->getContiguity(), (TensorDomain::Contiguity{false, true}));
}

TEST_F(CatsInParts, WhatIsKnownOfParts) {
  TensorView* x = input({4, 8});
  TensorView* y = input({4, 8});
  fusion_.addOutput(cat({neg(x), abs(x)}, 1)); // the same loops
  fusion_.addOutput(cat({neg(x), abs(y)}, 1)); // nothing in common
  fusion_.addOutput(cat({x, y}, 1));           // copies
  fusion_.addOutput(cat({centered(x), y}, 0)); // a norm
  const std::vector<CatInParts> found = catsInParts(&fusion_);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_TRUE(found[0].in_one_kernel);
  EXPECT_EQ(found[0].read_by_several, std::vector<const TensorView*>{x});
  EXPECT_FALSE(found[1].in_one_kernel);
  EXPECT_FALSE(found[2].in_one_kernel);
  EXPECT_EQ(found[2].has_own_kernel, (std::vector<bool>{false, false}));
  EXPECT_EQ(found[3].has_own_kernel, (std::vector<bool>{true, false}));
}

TEST_F(CatsInParts, WhatIsReadOrCutStays) {
  TensorView* x = input({4, 8});
  TensorView* whole = cat({neg(x), abs(x)}, 1);
  fusion_.addOutput(whole);
  fusion_.addOutput(relu(whole));
  TensorView* half = slice(centered(x), std::vector<int64_t>{0, 0}, std::vector<int64_t>{4, 4});
  fusion_.addOutput(cat({half, neg(half)}, 1));
  EXPECT_TRUE(catsInParts(&fusion_).empty());
}

// A kernel of a part computes what is cut, joined or viewed on the way, unless it depends on sums.
TEST_F(CatsInParts, PartsMayBeMadeOfViews) {
  TensorView* x = input({4, 8});
  TensorView* half = slice(exp(x), std::vector<int64_t>{0, 0}, std::vector<int64_t>{4, 4});
  fusion_.addOutput(cat({reshape(half, {2, 8}), cat({neg(half), half}, 1)}, 0));
  fusion_.addOutput(cat({reshape(centered(x), {8, 4}), input({8, 4})}, 0));
  const std::vector<CatInParts> found = catsInParts(&fusion_);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].is_computed);
  EXPECT_FALSE(found[0].in_one_kernel);
}

// A mask that is returned has a kernel with the loops of a part, whatever the others are.
// Equal views of what has the same loops, and parts of one size, have the same loops.
TEST_F(CatsInParts, PartsOfEqualViewsHaveTheSameLoops) {
  TensorView* x = input({4, 8});
  const auto every_second = [](TensorView* tv, int64_t first) {
    TensorView* pairs = reshape(tv, {4, 4, 2});
    return squeeze(slice(pairs, {0, 0, first}, {4, 4, first + 1}), std::vector<int64_t>{2});
  };
  TensorView* a = sin(x);
  TensorView* b = cos(x);
  fusion_.addOutput(cat({neg(every_second(a, 0)), neg(every_second(b, 1))}, 1));
  fusion_.addOutput(cat({neg(every_second(a, 0)), neg(slice(b, {0, 2}, {4, 6}))}, 1));
  const std::vector<CatInParts> found = catsInParts(&fusion_);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[0].in_one_kernel);
  EXPECT_FALSE(found[1].in_one_kernel);
}

TEST_F(CatsInParts, PartsBesideOtherResultsHaveTheirKernels) {
  TensorView* x = input({4, 8});
  TensorView* is_positive = gt(x, fusion_.zeroVal());
  fusion_.addOutput(cat({where(is_positive, x, neg(x)), exp(input({4, 3}))}, 1));
  fusion_.addOutput(is_positive);
  const std::vector<CatInParts> found = catsInParts(&fusion_);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].has_own_kernel, (std::vector<bool>{false, false}));
  EXPECT_EQ(found[0].has_sibling, (std::vector<bool>{true, false}));
  EXPECT_TRUE(found[0].read_by_several.empty());
}

TEST_F(CatsInParts, WhatIsNotAskedForStays) {
  TensorView* x = input({4, 8});
  fusion_.addOutput(cat({neg(x), abs(x)}, 1));
  fusion_.addOutput(cat({exp(x), relu(x)}, 1));
  rewrite(0b10);
  ASSERT_EQ(parts_.size(), 2U);
  EXPECT_EQ(fusion_.outputs().size(), 3U);
}

TEST_F(CatsInParts, OperationsOnSingleElementsComeBeforeTheLastConcatenation) {
  TensorView* x = input({4, 8});
  TensorView* joined = cat({neg(x), exp(x)}, 0);
  fusion_.addOutput(castOp(DataType::Half, mul(joined, IrBuilder::create<Val>(3.0))));
  computeBeforeCats(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = neg(x0)
t1 float32[i4, i8] = mul(t0, double(3))
t2 float16[i4, i8] = cast(t1)
t3 float16[i8, i8] of [i4, i8] = pad(t2, __half(0))
t4 float32[i4, i8] = exp(x0)
t5 float32[i4, i8] = mul(t4, double(3))
t6 float16[i4, i8] = cast(t5)
t7 float16[i8, i8] of [i4, i8] = pad(t6, __half(0))
t8 float16[i8, i8] = cat(t3, t7)
outputs: t8
)");
}

TEST_F(CatsInParts, CopiesOfTheLastConcatenationAreIt) {
  TensorView* x = input({4, 8});
  fusion_.addOutput(set(cat({neg(x), exp(x)}, 0)));
  computeBeforeCats(&fusion_);
  EXPECT_EQ(catsInParts(&fusion_).size(), 1U);
  TensorView* cut = segment_set(cat({neg(x), exp(x)}, 1)); // a copy that was asked for
  fusion_.addOutput(cut);
  computeBeforeCats(&fusion_);
  EXPECT_EQ(catsInParts(&fusion_).size(), 1U);
}

TEST_F(CatsInParts, PermutationsComeBeforeTheLastConcatenation) {
  TensorView* x = input({4, 8});
  const auto row = [](TensorView* tv) { return broadcast(tv, {false, true, false}); };
  fusion_.addOutput(castOp(DataType::Half, permute(cat({row(neg(x)), row(exp(x))}, 1), {1, 2, 0})));
  fusion_.addOutput(permute(cat({neg(x), exp(x)}, 0), {1, 0}));
  computeBeforeCats(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = neg(x0)
t1 float32[i8, i4] of [i4, i8] = Set(t0)
t2 float16[i8, i4] = cast(t1)
t3 float16[b, i8, i4] = broadcast(t2)
t4 float16[i2, i8, i4] of [b, i8, i4] = pad(t3, __half(0))
t5 float32[i4, i8] = exp(x0)
t6 float32[i8, i4] of [i4, i8] = Set(t5)
t7 float16[i8, i4] = cast(t6)
t8 float16[b, i8, i4] = broadcast(t7)
t9 float16[i2, i8, i4] of [b, i8, i4] = pad(t8, __half(0))
t10 float16[i2, i8, i4] = cat(t4, t9)
t11 float32[i4, i8] = neg(x0)
t12 float32[i8, i4] of [i4, i8] = Set(t11)
t13 float32[i8, i8] of [i8, i4] = pad(t12, float(0))
t14 float32[i4, i8] = exp(x0)
t15 float32[i8, i4] of [i4, i8] = Set(t14)
t16 float32[i8, i8] of [i8, i4] = pad(t15, float(0))
t17 float32[i8, i8] = cat(t13, t16)
outputs: t10 t17
)");
}

TEST_F(CatsInParts, PartsOfPartsAreParts) {
  TensorView* x = input({4, 8});
  TensorView* scale = broadcast(input({4}), {false, true});
  TensorView* joined = cat({neg(x), exp(x)}, 1);
  fusion_.addOutput(cat({joined, mul(joined, scale)}, 1));
  computeBeforeCats(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = neg(x0)
t1 float32[i4, i32] of [i4, i8] = pad(t0, float(0))
t2 float32[i4, i8] = exp(x0)
t3 float32[i4, i32] of [i4, i8] = pad(t2, float(0))
t4 float32[i4, b] = broadcast(x1)
t5 float32[i4, i8] = mul(t0, t4)
t6 float32[i4, i32] of [i4, i8] = pad(t5, float(0))
t7 float32[i4, i8] = mul(t2, t4)
t8 float32[i4, i32] of [i4, i8] = pad(t7, float(0))
t9 float32[i4, i32] = cat(t1, t3, t6, t8)
outputs: t9
)");
}

TEST_F(CatsInParts, WhatIsComputedOfTwoConcatenationsStays) {
  TensorView* x = input({4, 8});
  TensorView* joined = mul(cat({neg(x), exp(x)}, 1), cat({sin(x), cos(x)}, 1));
  fusion_.addOutput(cat({joined, sin(x)}, 1));
  const std::string before = text();
  computeBeforeCats(&fusion_);
  EXPECT_EQ(text(), before);
}

TEST_F(CatsInParts, WhatIsJoinedOfInputsIsComputedTogether) {
  TensorView* x = input({4, 8});
  TensorView* y = input({4, 8});
  fusion_.addOutput(exp(cat({x, y}, 0)));
  const std::string before = text();
  computeBeforeCats(&fusion_);
  EXPECT_EQ(text(), before);
}

TEST_F(CatsInParts, WhatIsReadElsewhereIsJoinedFirst) {
  TensorView* x = input({4, 8});
  TensorView* joined = cat({neg(x), exp(x)}, 0);
  fusion_.addOutput(sin(joined));
  fusion_.addOutput(joined);
  const std::string before = text();
  computeBeforeCats(&fusion_);
  EXPECT_EQ(text(), before);
}

} // namespace nvfuser::test
