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

TEST_F(NestReductions, RowsAndColumnsStay) {
  TensorView* x = input({64, 32});
  fusion_.addOutput(sum(x, {1}));
  fusion_.addOutput(sum(x, {0}));
  const std::string before = text();
  nestReductions(&fusion_);
  EXPECT_EQ(text(), before);
}

} // namespace nvfuser::test
