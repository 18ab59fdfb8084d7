// SPDX-License-Identifier: BSD-3-Clause
// A reduction of more dimensions than another one is made in two steps.
#include "preseg_for_test.h"

namespace nvfuser::test {

class NestReductions : public PresegTest {};

TEST_F(NestReductions, SumsOfChannelsAreThoseOfSamplesFirst) {
  TensorView* x = input({4, 8, 32});
  fusion_.addOutput(sub(x, broadcast(sum(x, {2}), {false, false, true})));
  fusion_.addOutput(sum(x, {0, 2}));
  nestReductions(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8, r32] = reduce add(x0)
t1 float32[i4, i8, b] = broadcast(t0)
t2 float32[i4, i8, i32] = sub(x0, t1)
t3 float32[i4, i8, r32] = reduce add(x0)
t4 float32[r4, i8] = reduce add(t3)
outputs: t2 t4
)");
}

// Extents that the other tensor of a product tells are those of both first steps.
TEST_F(NestReductions, ExtentsAreConstantsWhereOneIsKnown) {
  TensorView* x = input({-1, -1, -1});
  TensorView* scale = broadcast(input({4, 8}), {false, false, true});
  fusion_.addOutput(mul(x, broadcast(sum(x, {2}), {false, false, true})));
  fusion_.addOutput(sum(mul(x, scale), {0, 2}));
  fusion_.addOutput(sum(x, {0, 2}));
  nestReductions(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i?, i?, r?] = reduce add(x0)
t1 float32[i?, i?, b] = broadcast(t0)
t2 float32[i?, i?, i?] = mul(x0, t1)
t3 float32[i4, i8, b] = broadcast(x1)
t4 float32[i4, i8, i?] = mul(x0, t3)
t5 float32[i4, i8, r?] = reduce add(t4)
t6 float32[r4, i8] = reduce add(t5)
t7 float32[i4, i8, r?] = reduce add(x0)
t8 float32[r4, i8] = reduce add(t7)
outputs: t2 t6 t8
)");
}

TEST_F(NestReductions, BroadcastDimensionsStayThat) {
  TensorView* x = broadcast(input({4, 32}), {false, true, false});
  fusion_.addOutput(sum(x, {2}));
  fusion_.addOutput(sum(x, {0, 2}));
  nestReductions(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, b, i32] = broadcast(x0)
t1 float32[i4, b, r32] = reduce add(t0)
t2 float32[i4, b, r32] = reduce add(t0)
t3 float32[r4, b] = reduce add(t2)
outputs: t1 t3
)");
}

TEST_F(NestReductions, WhatIsHardlySmallerAfterTheFirstStepStays) {
  TensorView* x = input({4, 8, 3});
  fusion_.addOutput(sum(x, {2}));
  fusion_.addOutput(sum(x, {0, 2}));
  const std::string before = text();
  nestReductions(&fusion_);
  EXPECT_EQ(text(), before);
}

// Pixels of a channel are summed for groups of channels, whose sums are read again, and for
// samples.
TEST_F(NestReductions, SumsThatShareDimensionsHaveAFirstStep) {
  TensorView* x = input({4, 2, 8, 32}); // samples, groups, channels of a group, pixels
  fusion_.addOutput(sub(x, broadcast(sum(x, {2, 3}), {false, false, true, true})));
  fusion_.addOutput(sum(x, {0, 3}));
  EXPECT_TRUE(nestReductions(&fusion_));
  EXPECT_EQ(text(), R"(t0 float32[i4, i2, i8, r32] = reduce add(x0)
t1 float32[i4, i2, r8] = reduce add(t0)
t2 float32[i4, i2, b, b] = broadcast(t1)
t3 float32[i4, i2, i8, i32] = sub(x0, t2)
t4 float32[i4, i2, i8, r32] = reduce add(x0)
t5 float32[r4, i2, i8] = reduce add(t4)
outputs: t3 t5
)");
}

TEST_F(NestReductions, ReductionsThatAreBothReadAgainStay) {
  TensorView* x = input({4, 8, 32});
  fusion_.addOutput(sub(x, broadcast(sum(x, {1, 2}), {false, true, true})));
  fusion_.addOutput(mul(x, broadcast(sum(x, {0, 2}), {true, false, true})));
  EXPECT_FALSE(nestReductions(&fusion_));
}

TEST_F(NestReductions, RowsAndColumnsStay) {
  TensorView* x = input({64, 32});
  fusion_.addOutput(sum(x, {1}));
  fusion_.addOutput(sum(x, {0}));
  const std::string before = text();
  nestReductions(&fusion_);
  EXPECT_EQ(text(), before);
}

// A mask of one element is broadcast along other dimensions of other tensors: these are not equal.
TEST_F(NestReductions, ABroadcastMakesNoDimensionsEqual) {
  TensorView* x = input({-1, 3, -1});
  TensorView* mask = broadcast(input({}, DataType::Bool), {true, true, true});
  TensorView* turned = permute(x, {2, 0, 1});
  TensorView* y = input({-1, 3, -1});
  fusion_.addOutput(where(mask, turned, neg(turned)));
  fusion_.addOutput(sum(where(mask, y, neg(y)), {0}));
  fusion_.addOutput(sum(x, {0, 1, 2}));
  EXPECT_TRUE(nestReductions(&fusion_));
  EXPECT_EQ(text(), R"(t0 bool[b, b, b] = broadcast(x1)
t1 float32[i?, i?, i3] of [i?, i3, i?] = Set(x0)
t2 float32[i?, i?, i3] = neg(t1)
t3 float32[i?, i?, i3] = where(t0, t1, t2)
t4 float32[i?, i3, i?] = neg(x2)
t5 float32[i?, i3, i?] = where(t0, x2, t4)
t6 float32[r?, i3, i?] = reduce add(t5)
t7 float32[i?, i3, r?] = reduce add(x0)
t8 float32[r?, r3] = reduce add(t7)
outputs: t3 t6 t8
)");
}

} // namespace nvfuser::test
