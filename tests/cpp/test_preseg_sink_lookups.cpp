// SPDX-License-Identifier: BSD-3-Clause
// Lookups at known positions of what is computed are slices.
#include "preseg_for_test.h"

#include <ops/creation.h>
#include <ops/indexing.h>

namespace nvfuser::test {

class SinkLookups : public PresegTest {
 protected:
  Val* number(int64_t value) {
    return IrBuilder::create<Val>(value);
  }
  TensorView* positions(int64_t count, int64_t first) {
    return iota(number(count), number(first), number(1), DataType::Int);
  }
  // (first + i) % count
  TensorView* rolled(int64_t count, int64_t first) {
    return remainder(positions(count, first), number(count));
  }
  TensorView* reshaped() {
    return reshape(input({4, 6}), {4, 2, 3});
  }
};

TEST_F(SinkLookups, ARollOfWhatIsComputedIsTwoSlices) {
  fusion_.addOutput(index_select(reshaped(), rolled(3, 4), 2));
  sinkLookups(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i2, i3] of [i4, i6] = reshape(x0)
t1 float32[i4, i2, i2] of [i4, i2, i3] = slice(t0)
t2 float32[i4, i2, i3] of [i4, i2, i2] = pad(t1, float(0))
t3 float32[i4, i2, b] of [i4, i2, i3] = slice(t0)
t4 float32[i4, i2, i3] of [i4, i2, b] = pad(t3, float(0))
t5 float32[i4, i2, i3] = cat(t2, t4)
t6 float32[i4, i2, i3] = Set(t5)
outputs: t6
)");
}

TEST_F(SinkLookups, NeighboursAreASlice) {
  fusion_.addOutput(neg(index_select(reshaped(), positions(2, 1), 2)));
  sinkLookups(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i2, i3] of [i4, i6] = reshape(x0)
t1 float32[i4, i2, i2] of [i4, i2, i3] = slice(t0)
t2 float32[i4, i2, i2] = neg(t1)
outputs: t2
)");
}

TEST_F(SinkLookups, ElementwiseOperationsComeAfterwards) {
  TensorView* x = input({4, 6});
  TensorView* mean = sum(x, {1});
  TensorView* y = sub(x, broadcast(mean, {false, true}));
  fusion_.addOutput(index_select(mul(y, broadcast(input({6}), {true, false})), rolled(4, 1), 0));
  sinkLookups(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i6] = roll(x0)
t1 float32[i4, r6] = reduce add(x0)
t2 float32[i4] = roll(t1)
t3 float32[i4, b] = broadcast(t2)
t4 float32[i4, i6] = sub(t0, t3)
t5 float32[b, i6] = broadcast(x1)
t6 float32[i4, i6] = mul(t4, t5)
outputs: t6
)");
}

TEST_F(SinkLookups, RollsOfRollsAreOne) {
  TensorView* x = input({4, 6, 8});
  fusion_.addOutput(index_select(index_select(x, rolled(4, 1), 0), rolled(6, 2), 1));
  fusion_.addOutput(index_select(index_select(x, rolled(4, 1), 0), rolled(4, 3), 0));
  sinkLookups(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i6, i8] = roll(x0)
t1 float32[i4, i6, i8] = Set(t0)
t2 float32[i4, i6, i8] = Set(x0)
outputs: t1 t2
)");
  const auto* roll = fusion_.outputs()[0]->definition()->input(0)->definition()->as<RollOp>();
  EXPECT_EQ(roll->offsets(), (std::vector<int64_t>{1, 2, 0}));
}

TEST_F(SinkLookups, ThroughDimensionsThatAreMerged) {
  TensorView* windows = permute(input({4, 2, 3, 2, 3, 8}), {0, 1, 3, 2, 4, 5});
  fusion_.addOutput(neg(index_select(reshape(windows, {4, 4, 9, 8}), rolled(4, 3), 1)));
  fusion_.addOutput(neg(index_select(reshape(windows, {4, 2, 2, 3, 24}), rolled(3, 1), 3)));
  sinkLookups(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i4, i9, i8] = roll(x0)
t1 float32[i4, i4, i9, i8] = neg(t0)
t2 float32[i4, i2, i2, i3, i24] = roll(x0)
t3 float32[i4, i2, i2, i3, i24] = neg(t2)
outputs: t1 t3
)");
  const auto* roll = fusion_.outputs()[0]->definition()->input(0)->definition()->as<RollOp>();
  EXPECT_EQ(roll->offsets(), (std::vector<int64_t>{0, 3, 0, 0}));
  EXPECT_EQ(roll->viewDims(), (std::vector<int64_t>{0, 1, 2, 1, 2, 3}));
}

// So that it is read by vectors.
TEST_F(SinkLookups, TheInnermostDimensionIsReadInSlices) {
  fusion_.addOutput(index_select(index_select(input({4, 6}), rolled(4, 1), 0), rolled(6, 2), 1));
  sinkLookups(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i6] = roll(x0)
t1 float32[i4, i4] of [i4, i6] = slice(t0)
t2 float32[i4, i6] of [i4, i4] = pad(t1, float(0))
t3 float32[i4, i2] of [i4, i6] = slice(t0)
t4 float32[i4, i6] of [i4, i2] = pad(t3, float(0))
t5 float32[i4, i6] = cat(t2, t4)
t6 float32[i4, i6] = Set(t5)
outputs: t6
)");
}

TEST_F(SinkLookups, SlicesSideBySideAreARoll) {
  auto rotated = [&](TensorView* x, int64_t at) {
    Val* zero = number(0);
    TensorView* front = slice(x, {number(at), zero}, {number(4), number(6)});
    return cat({front, slice(x, {zero, zero}, {number(at), number(6)})}, 0);
  };
  TensorView* x = input({4, 6});
  fusion_.addOutput(rotated(exp(x), 1));
  fusion_.addOutput(rotated(reshape(input({8, 3}), {4, 6}), 3));
  sinkLookups(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i6] = roll(x0)
t1 float32[i4, i6] = exp(t0)
t2 float32[i4, i6] of [i8, i3] = reshape(x1)
t3 float32[b, i6] of [i4, i6] = slice(t2)
t4 float32[i4, i6] of [b, i6] = pad(t3, float(0))
t5 float32[i3, i6] of [i4, i6] = slice(t2)
t6 float32[i4, i6] of [i3, i6] = pad(t5, float(0))
t7 float32[i4, i6] = cat(t4, t6)
outputs: t1 t7
)");
}

TEST_F(SinkLookups, WhatIsReadElsewhereIsMade) {
  TensorView* x = input({4, 6});
  TensorView* y = exp(sub(x, broadcast(sum(x, {1}), {false, true})));
  fusion_.addOutput(index_select(y, positions(2, 1), 0));
  fusion_.addOutput(y);
  sinkLookups(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, r6] = reduce add(x0)
t1 float32[i4, b] = broadcast(t0)
t2 float32[i4, i6] = sub(x0, t1)
t3 float32[i4, i6] = exp(t2)
t4 float32[i2, i6] of [i4, i6] = slice(t3)
t5 float32[i2, i6] = Set(t4)
outputs: t5 t3
)");
}

TEST_F(SinkLookups, AnInputIsReadAtAnyPosition) {
  fusion_.addOutput(index_select(input({4, 6}), positions(2, 1), 0));
  const std::string before = text();
  sinkLookups(&fusion_);
  EXPECT_EQ(text(), before);
}

TEST_F(SinkLookups, OtherPositionsStay) {
  TensorView* x = exp(input({8, 6}));
  TensorView* doubled = mul(positions(4, 0), number(2));
  TensorView* outside = positions(4, 6);
  TensorView* three_runs = remainder(positions(6, 1), number(3));
  for (TensorView* index : {doubled, outside, three_runs}) {
    fusion_.addOutput(index_select(x, index, 0));
  }
  const std::string before = text();
  sinkLookups(&fusion_);
  EXPECT_EQ(text(), before);
}

} // namespace nvfuser::test
