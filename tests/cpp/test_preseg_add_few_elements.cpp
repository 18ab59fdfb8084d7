// SPDX-License-Identifier: BSD-3-Clause
// Reductions of a few elements are operations on parts.
#include "preseg_for_test.h"

#include <algorithm>

namespace nvfuser::test {

class AddFewElements : public PresegTest {};

TEST_F(AddFewElements, EachElementIsAPart) {
  TensorView* x = input({8, 3, 16});
  fusion_.addOutput(sum(neg(x), {1}));
  ASSERT_TRUE(addFewElements(&fusion_));
  EXPECT_EQ(text(), R"(t0 float32[i8, i3, i16] = neg(x0)
t1 float32[i8, b, i16] of [i8, i3, i16] = slice(t0)
t2 float32[i8, i16] = squeeze(t1)
t3 float32[i8, b, i16] of [i8, i3, i16] = slice(t0)
t4 float32[i8, i16] = squeeze(t3)
t5 float32[i8, i16] = add(t2, t4)
t6 float32[i8, b, i16] of [i8, i3, i16] = slice(t0)
t7 float32[i8, i16] = squeeze(t6)
t8 float32[i8, i16] = add(t5, t7)
t9 float32[i8, i16] = Set(t8)
outputs: t9
)");
}

TEST_F(AddFewElements, SeveralDimensionsInTheOrderOfTheElements) {
  TensorView* x = input({2, 8, 2});
  fusion_.addOutput(max(x, {0, 2}));
  ASSERT_TRUE(addFewElements(&fusion_));
  EXPECT_EQ(text(), R"(t0 float32[b, i8, b] of [i2, i8, i2] = slice(x0)
t1 float32[i8] = squeeze(t0)
t2 float32[b, i8, b] of [i2, i8, i2] = slice(x0)
t3 float32[i8] = squeeze(t2)
t4 float32[i8] = maximum(t1, t3)
t5 float32[b, i8, b] of [i2, i8, i2] = slice(x0)
t6 float32[i8] = squeeze(t5)
t7 float32[i8] = maximum(t4, t6)
t8 float32[b, i8, b] of [i2, i8, i2] = slice(x0)
t9 float32[i8] = squeeze(t8)
t10 float32[i8] = maximum(t7, t9)
t11 float32[i8] = Set(t10)
outputs: t11
)");
}

// A softmax of two numbers, which weigh two tensors that are added.
TEST_F(AddFewElements, WhatIsReadInOtherReductionsOfThemOnly) {
  TensorView* x = input({8, 2, 16});
  TensorView* gates = input({8, 2});
  TensorView* e = exp(gates);
  TensorView* weights = div(e, broadcast(sum(e, {1}), {false, true}));
  fusion_.addOutput(sum(mul(x, broadcast(weights, {false, false, true})), {1}));
  ASSERT_TRUE(addFewElements(&fusion_));
  EXPECT_FALSE(fusion_.hasExpr(ExprKind::ReductionOp));
}

// Of any number of tensors, whatever they are computed of.
TEST_F(AddFewElements, TheSumOfAStackIsTheSumOfItsParts) {
  std::vector<TensorView*> parts;
  for (int i = 0; i < 6; ++i) {
    TensorView* x = input({8, 64});
    parts.push_back(broadcast(i == 0 ? sum(x, {1}) : sum(neg(x), {1}), {false, true}));
  }
  fusion_.addOutput(sum(abs(cat(parts, 1)), {1}));
  ASSERT_TRUE(addFewElements(&fusion_));
  sliceInputs(&fusion_);
  EXPECT_FALSE(fusion_.hasExpr(ExprKind::CatOp));
  EXPECT_FALSE(fusion_.hasExpr(ExprKind::SliceOp));
}

TEST_F(AddFewElements, APartOfAStackIsReadAsItIs) {
  TensorView* x = input({4, 3});
  TensorView* y = input({4, 3});
  const std::vector<bool> is_new{false, true, false};
  fusion_.addOutput(sum(cat({broadcast(exp(x), is_new), broadcast(neg(y), is_new)}, 1), {1}));
  EXPECT_TRUE(addFewElements(&fusion_));
  sliceInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i3] = exp(x0)
t1 float32[i4, i3] = neg(x1)
t2 float32[i4, i3] = add(t0, t1)
t3 float32[i4, i3] = Set(t2)
outputs: t3
)");
}

TEST_F(AddFewElements, WhatIsNeededAsAWholeStays) {
  TensorView* x = input({8, 2, 16});
  TensorView* y = neg(x);
  fusion_.addOutput(sum(y, {1}));
  fusion_.addOutput(y);
  EXPECT_FALSE(addFewElements(&fusion_)) << "it is returned";
}

TEST_F(AddFewElements, ANormalizationStays) {
  TensorView* x = input({8, 2, 16});
  fusion_.addOutput(div(x, broadcast(sum(x, {1}), {false, true, false})));
  EXPECT_FALSE(addFewElements(&fusion_));
}

TEST_F(AddFewElements, MoreElementsStay) {
  fusion_.addOutput(sum(input({8, 5, 16}), {1}));
  fusion_.addOutput(sum(input({8, 2, 16}), {1, 2}));
  EXPECT_FALSE(addFewElements(&fusion_));
}

TEST_F(AddFewElements, WhatIsComputedOfReductionsStays) {
  TensorView* x = input({2, 64, 16});
  fusion_.addOutput(sum(sum(x, {1}), {0}));
  EXPECT_FALSE(addFewElements(&fusion_));
}

TEST_F(AddFewElements, OpenExtentsStay) {
  TensorView* x = makeContigTensor(3);
  fusion_.addInput(x);
  fusion_.addOutput(sum(x, {1}));
  EXPECT_FALSE(addFewElements(&fusion_));
}

// What lies in memory is read by others too, if nothing is computed of both.
TEST_F(AddFewElements, BesideOthersThatReadAnInput) {
  TensorView* x = input({8, 2, 64});
  TensorView* seen = broadcast(permute(x, {0, 2, 1}), {false, false, false, true});
  fusion_.addOutput(sum(mul(seen, input({8, 64, 2, 16})), {2}));
  fusion_.addOutput(sum(mul(seen, input({8, 64, 2, 16})), {1}));
  ASSERT_TRUE(addFewElements(&fusion_));
  EXPECT_TRUE(fusion_.hasExpr(ExprKind::ReductionOp)); // of 64 elements
  EXPECT_TRUE(fusion_.hasExpr(ExprKind::SliceOp));
  EXPECT_EQ(std::ranges::count_if(fusion_.exprs(), [](Expr* e) { return isReduction(e); }), 1);
}

TEST_F(AddFewElements, NotWhereOthersAreComputedOfTheSum) {
  TensorView* x = input({8, 2, 64});
  TensorView* seen = permute(x, {0, 2, 1});
  fusion_.addOutput(div(seen, broadcast(sum(seen, {2}), {false, false, true})));
  EXPECT_FALSE(addFewElements(&fusion_));
}

} // namespace nvfuser::test
