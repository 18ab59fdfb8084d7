// SPDX-License-Identifier: BSD-3-Clause
// Reshapes move to the ends of a fusion: every tensor has a dimension for each factor.
#include "preseg_for_test.h"

namespace nvfuser::test {

class MoveViewsToEnds : public PresegTest {
 protected:
  MovedViews move(const std::unordered_set<const TensorView*>& kept = {}) {
    MovedViews moved;
    moveViewsToEnds(&fusion_, kept, moved);
    return moved;
  }
};

TEST_F(MoveViewsToEnds, AGroupOfChannelsIsARowOfSeveralDimensions) {
  TensorView* x = input({2, 8, 5});
  TensorView* w = input({8});
  TensorView* v = reshape(x, {2, 4, 10});
  TensorView* y = sub(v, broadcast(sum(v, {2}), {false, false, true}));
  fusion_.addOutput(mul(reshape(y, {2, 8, 5}), broadcast(w, {true, false, true})));
  const MovedViews moved = move();
  EXPECT_EQ(text(), R"(t0 float32[i2, i4, r2, r5] = reduce add(x2)
t1 float32[i2, i4, b, b] = broadcast(t0)
t2 float32[i2, i4, i2, i5] = sub(x2, t1)
t3 float32[b, i4, i2, b] = broadcast(x3)
t4 float32[i2, i4, i2, i5] = mul(t2, t3)
outputs: t4
)");
  ASSERT_EQ(moved.inputs.size(), 2U);
  EXPECT_EQ(moved.inputs[0].source, x);
  EXPECT_EQ(moved.inputs[1].source, w);
  ASSERT_EQ(moved.outputs.size(), 1U);
  EXPECT_EQ(moved.outputs[0].made, fusion_.outputs()[0]);
}

TEST_F(MoveViewsToEnds, RowsThatWereMergedAreSeveralDimensions) {
  TensorView* x = input({2, 3, 8});
  TensorView* rows = reshape(x, {6, 8});
  TensorView* y = exp(sub(rows, broadcast(max(rows, {1}), {false, true})));
  fusion_.addOutput(y);
  fusion_.addOutput(reshape(y, {2, 3, 8}));
  const MovedViews moved = move();
  // Both outputs are the same memory.
  EXPECT_EQ(text(), R"(t0 float32[i2, i3, r8] = reduce maximum(x0)
t1 float32[i2, i3, b] = broadcast(t0)
t2 float32[i2, i3, i8] = sub(x0, t1)
t3 float32[i2, i3, i8] = exp(t2)
outputs: t3
)");
  EXPECT_TRUE(moved.inputs.empty());
  ASSERT_EQ(moved.outputs.size(), 2U);
  EXPECT_EQ(moved.outputs[0].made, moved.outputs[1].made);
}

TEST_F(MoveViewsToEnds, SlicesAtTheEndTakeWhatWasMerged) {
  TensorView* x = input({2, 12, 5});
  TensorView* v = reshape(x, {2, 4, 15});
  TensorView* y = reshape(sub(v, broadcast(sum(v, {2}), {false, false, true})), {2, 12, 5});
  for (const auto& [start, stop] : {std::pair<int64_t, int64_t>{0, 7}, {7, 12}}) {
    fusion_.addOutput(slice(y, {0, start, 0}, {2, stop, 5}));
  }
  move();
  EXPECT_EQ(text(), R"(t0 float32[i2, i4, r3, r5] = reduce add(x1)
t1 float32[i2, i4, b, b] = broadcast(t0)
t2 float32[i2, i4, i3, i5] = sub(x1, t1)
t3 float32[i2, i12, i5] of [i2, i4, i3, i5] = reshape(t2)
t4 float32[i2, i7, i5] of [i2, i12, i5] = slice(t3)
t5 float32[i2, i5, i5] of [i2, i12, i5] = slice(t3)
outputs: t4 t5
)");
}

TEST_F(MoveViewsToEnds, PadsAtTheEndTakeWhatWasMerged) {
  TensorView* x = input({2, 12, 5});
  TensorView* v = reshape(x, {2, 4, 15});
  TensorView* mean = broadcast(sum(v, {2}), {false, false, true});
  TensorView* y = reshape(sub(v, mean), {2, 12, 5});
  fusion_.addOutput(pad(broadcast(sum(y, {2}), {false, false, true}), {0, 0, 0, 12}));
  fusion_.addOutput(pad(mean, {0, 0, 4, 0}));
  move();
  EXPECT_EQ(text(), R"(t0 float32[i2, i4, r3, r5] = reduce add(x1)
t1 float32[i2, i4, b, b] = broadcast(t0)
t2 float32[i2, i4, i3, i5] = sub(x1, t1)
t3 float32[i2, i4, i3, r5] = reduce add(t2)
t4 float32[i2, i4, i3, b] = broadcast(t3)
t5 float32[i2, i12, b] of [i2, i4, i3, b] = reshape(t4)
t6 float32[i2, i24, b] of [i2, i12, b] = pad(t5, float(0))
t7 float32[i2, i4, b] of [i2, i4, b, b] = reshape(t1)
t8 float32[i2, i8, b] of [i2, i4, b] = pad(t7, float(0))
outputs: t6 t8
)");
}

TEST_F(MoveViewsToEnds, ASliceThatIsReducedKeepsItsDimensions) {
  TensorView* x = input({2, 12, 5});
  TensorView* v = reshape(x, {2, 4, 15});
  TensorView* y = reshape(sub(v, broadcast(sum(v, {2}), {false, false, true})), {2, 12, 5});
  fusion_.addOutput(sum(slice(y, {0, 0, 0}, {2, 7, 5}), {1}));
  const std::string before = text();
  move();
  EXPECT_EQ(text(), before);
}

TEST_F(MoveViewsToEnds, PositionsOfALookupHaveTheFactorsOfWhatIsFound) {
  TensorView* x = input({7, 6});
  TensorView* index = input({20}, DataType::Int);
  TensorView* found = reshape(index_select(x, index, 0), {4, 5, 2, 3});
  fusion_.addOutput(sum(found, {1}));
  move();
  EXPECT_EQ(text(), R"(t0 float32[i4, i5, i2, i3] = index_select(x2, x3)
t1 float32[i4, r5, i2, i3] = reduce add(t0)
outputs: t1
)");
}

TEST_F(MoveViewsToEnds, RowsOfAnEmbeddingHaveFactors) {
  TensorView* x = input({7, 6});
  TensorView* index = input({4, 5}, DataType::Int);
  TensorView* found = reshape(embedding_fwd(index, x), {20, 2, 3});
  fusion_.addOutput(sum(found, {2}));
  move();
  EXPECT_EQ(text(), R"(t0 float32[i4, i5, i2, i3] = index_select(x2, x1)
t1 float32[i4, i5, i2, r3] = reduce add(t0)
outputs: t1
)");
}

TEST_F(MoveViewsToEnds, PartsKeepTheDimensionsThatTheyCut) {
  TensorView* x = input({4, 6, 2});
  TensorView* swapped = cat({slice(neg(x), std::vector<int64_t>{0, 0, 1}, {4, 6, 2}),
                             slice(exp(x), std::vector<int64_t>{0, 0, 0}, {4, 6, 1})},
                            2);
  TensorView* rows = reshape(swapped, {4, 12});
  fusion_.addOutput(sum(mul(rows, reshape(input({4, 3, 4}), {4, 12})), {1}));
  move();
  EXPECT_EQ(text(), R"(t0 float32[i4, i3, i2, b] = neg(x5)
t1 float32[i4, i3, i2, i2] of [i4, i3, i2, b] = pad(t0, float(0))
t2 float32[i4, i3, i2, b] = exp(x6)
t3 float32[i4, i3, i2, i2] of [i4, i3, i2, b] = pad(t2, float(0))
t4 float32[i4, i3, i2, i2] = cat(t1, t3)
t5 float32[i4, i3, i2, i2] = mul(t4, x4)
t6 float32[i4, r3, r2, r2] = reduce add(t5)
outputs: t6
)");
}

TEST_F(MoveViewsToEnds, ADimensionThatIsCutIsNotSplit) {
  TensorView* x = reshape(input({4, 3, 4}), {4, 12});
  fusion_.addOutput(sum(pad(exp(x), std::vector<int64_t>{1, 0}), {0}));
  const std::string before = text();
  move();
  EXPECT_EQ(text(), before);
}

TEST_F(MoveViewsToEnds, ScansGoAlongAFactor) {
  TensorView* x = input({6, 8, 4});
  fusion_.addOutput(cumsum(reshape(exp(x), {6, 2, 4, 4}), 2));
  move();
  EXPECT_EQ(text(), R"(t0 float32[i6, i2, i4, i4] = exp(x1)
t1 float32[i6, i2, i4, i4] = scan(t0)
outputs: t1
)");
}

TEST_F(MoveViewsToEnds, TheDimensionOfAScanIsNotSplit) {
  TensorView* x = input({6, 8});
  fusion_.addOutput(reshape(cumsum(x, 1), {6, 2, 4}));
  const std::string before = text();
  move();
  EXPECT_EQ(text(), before);
}

TEST_F(MoveViewsToEnds, WhatIsLookedUpStaysOneDimension) {
  TensorView* x = reshape(input({2, 3, 6}), {6, 6});
  fusion_.addOutput(sum(index_select(x, input({4}, DataType::Int), 0), {1}));
  const std::string before = text();
  move();
  EXPECT_EQ(text(), before);
}

TEST_F(MoveViewsToEnds, WhatHasNoCommonFactorsStays) {
  TensorView* x = input({4, 9});
  TensorView* v = reshape(x, {6, 6});
  fusion_.addOutput(sum(v, {1}));
  const std::string before = text();
  EXPECT_TRUE(move().inputs.empty());
  EXPECT_EQ(text(), before);
}

TEST_F(MoveViewsToEnds, WhatIsKeptStays) {
  TensorView* x = input({4, 6});
  fusion_.addOutput(sum(reshape(x, {4, 2, 3}), {2}));
  const std::string before = text();
  EXPECT_TRUE(move({x}).inputs.empty());
  EXPECT_EQ(text(), before);
}

TEST_F(MoveViewsToEnds, ASliceOfAnInputThatIsReducedIsAView) {
  TensorView* x = input({4, 6});
  fusion_.addOutput(sum(slice(x, std::vector<int64_t>{0, 2}, std::vector<int64_t>{4, 5}), {1}));
  const MovedViews moved = move();
  EXPECT_EQ(text(), R"(t0 float32[i4, r3] = reduce add(x1)
outputs: t0
)");
  ASSERT_EQ(moved.inputs.size(), 1U);
  EXPECT_EQ(moved.inputs[0].source, x);
  EXPECT_EQ(moved.inputs[0].starts.size(), 2U);
  EXPECT_EQ(moved.inputs[0].view->getContiguity()[0], false);
  EXPECT_EQ(moved.inputs[0].view->getContiguity()[1], true);
}

TEST_F(MoveViewsToEnds, ASliceOfOneColumnIsAView) {
  TensorView* x = input({4, 6, 5});
  TensorView* part = slice(x, std::vector<int64_t>{0, 2, 0}, std::vector<int64_t>{4, 3, 5});
  fusion_.addOutput(sum(squeeze(part, std::vector<int64_t>{1}), {0}));
  const MovedViews moved = move();
  EXPECT_EQ(text(), R"(t0 float32[i4, i5] = squeeze(x1)
t1 float32[r4, i5] = reduce add(t0)
outputs: t1
)");
  ASSERT_EQ(moved.inputs.size(), 1U);
  EXPECT_EQ(moved.inputs[0].view->getContiguity(),
            (TensorDomain::Contiguity{false, std::nullopt, true}));
}

TEST_F(MoveViewsToEnds, ASizeOfOneStandsForDimensionsOfSeveralSizes) {
  TensorView* x = input({8, 5});
  TensorView* y = input({2, 5});
  TensorView* one = broadcast(input({5}), {true, false});
  fusion_.addOutput(mul(x, one));
  TensorView* z = sum(reshape(input({8, 5}), {2, 4, 5}), {1});
  fusion_.addOutput(mul(add(y, z), one));
  const MovedViews moved = move();
  ASSERT_EQ(moved.inputs.size(), 1U);
  const auto& dims = moved.inputs[0].view->getLogicalDomain();
  EXPECT_EQ(dims[0]->extent()->intValue(), 2);
  EXPECT_EQ(dims[1]->extent()->intValue(), 4);
}

TEST_F(MoveViewsToEnds, AnOrderInMemoryIsThatOfTheFactors) {
  TensorView* x = input({2, 8, 5});
  x->setAllocationDomain({x->axis(0), x->axis(2), x->axis(1)}, true);
  TensorView* v = reshape(x, {2, 4, 10});
  TensorView* y = reshape(sub(v, broadcast(sum(v, {2}), {false, false, true})), {2, 8, 5});
  fusion_.addOutput(y);
  inferAllocationOrder(&fusion_, {y});
  move();
  EXPECT_EQ(text(), R"(t0 float32[i2, i4, r2, r5] = reduce add(x1)
t1 float32[i2, i4, b, b] = broadcast(t0)
t2 float32[i2, i4, i2, i5] @ [i2, i5, i4, i2] = sub(x1, t1)
outputs: t2
)");
}

} // namespace nvfuser::test
