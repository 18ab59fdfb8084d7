// SPDX-License-Identifier: BSD-3-Clause
// Values are computed on the axes that they depend on.
#include "preseg_for_test.h"

#include <preseg_passes/canonical_form.h>

namespace nvfuser::test {

class ComputeBeforeBroadcasts : public PresegTest {};

TEST_F(ComputeBeforeBroadcasts, AChainOfOperations) {
  TensorView* x = input({4, 8});
  TensorView* s = broadcast(sum(x, {1}), {false, true});
  fusion_.addOutput(mul(x, reciprocal(sqrt(s))));
  computeBeforeBroadcasts(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, r8] = reduce add(x0)
t1 float32[i4] = sqrt(t0)
t2 float32[i4] = reciprocal(t1)
t3 float32[i4, b] = broadcast(t2)
t4 float32[i4, i8] = mul(x0, t3)
outputs: t4
)");
}

TEST_F(ComputeBeforeBroadcasts, AReshapeOfWhatWasRepeated) {
  TensorView* x = input({4, 2});
  TensorView* y = input({4, 6});
  TensorView* groups = expand(broadcast(x, {false, false, true}),
                              {IrBuilder::index(4), IrBuilder::index(2), IrBuilder::index(3)});
  TensorView* mask = castOp(DataType::Bool, reshape(groups, std::vector<int64_t>{4, 6}));
  fusion_.addOutput(where(logical_not(mask), y, neg(y)));
  computeBeforeBroadcasts(&fusion_);
  EXPECT_EQ(text(), R"(t0 bool[i4, i2] = cast(x0)
t1 bool[i4, i2] = logical_not(t0)
t2 bool[i4, i2, b] = broadcast(t1)
t3 bool[i4, i2, b3] = expand(t2)
t4 bool[i4, i6] = reshape(t3)
t5 float32[i4, i6] = neg(x1)
t6 float32[i4, i6] = where(t4, x1, t5)
outputs: t6
)");
}

TEST_F(ComputeBeforeBroadcasts, AReshapeOfNewDimensionsIsABroadcast) {
  TensorView* x = input({4});
  TensorView* y = input({4, 2, 3});
  TensorView* pixels =
      expand(broadcast(x, {false, true}), {IrBuilder::index(4), IrBuilder::index(6)});
  fusion_.addOutput(add(reshape(pixels, std::vector<int64_t>{4, 2, 3}), y));
  computeBeforeBroadcasts(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, b, b] = broadcast(x0)
t1 float32[i4, i2, i3] = add(t0, x1)
outputs: t1
)");
}

TEST_F(ComputeBeforeBroadcasts, AReshapeOfOldAndNewDimensionsStays) {
  TensorView* x = input({4});
  TensorView* y = input({2, 12});
  TensorView* rows =
      expand(broadcast(x, {false, true}), {IrBuilder::index(4), IrBuilder::index(6)});
  fusion_.addOutput(add(reshape(rows, std::vector<int64_t>{2, 12}), y));
  const std::string before = text();
  computeBeforeBroadcasts(&fusion_);
  EXPECT_EQ(text(), before);
}

TEST_F(ComputeBeforeBroadcasts, TwoOperandsAlongTheSameDimensions) {
  TensorView* x = input({4});
  TensorView* y = input({4});
  TensorView* z = input({4, 8});
  TensorView* both = mul(broadcast(x, {false, true}), broadcast(y, {false, true}));
  fusion_.addOutput(add(both, z));
  computeBeforeBroadcasts(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4] = mul(x0, x1)
t1 float32[i4, b] = broadcast(t0)
t2 float32[i4, i8] = add(t1, x2)
outputs: t2
)");
}

TEST_F(ComputeBeforeBroadcasts, WhatIsCommonOfDifferentBroadcasts) {
  TensorView* x = input({4});
  TensorView* y = input({6});
  TensorView* z = input({4, 6, 8});
  TensorView* both = mul(broadcast(x, {false, true, true}), broadcast(y, {true, false, true}));
  fusion_.addOutput(add(both, z));
  computeBeforeBroadcasts(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, b] = broadcast(x0)
t1 float32[b, i6] = broadcast(x1)
t2 float32[i4, i6] = mul(t0, t1)
t3 float32[i4, i6, b] = broadcast(t2)
t4 float32[i4, i6, i8] = add(t3, x2)
outputs: t4
)");
}

TEST_F(ComputeBeforeBroadcasts, ExpandingIsLeftToTheOtherOperand) {
  TensorView* x = input({4});
  TensorView* y = input({4, 8});
  TensorView* wide =
      expand(broadcast(x, {false, true}), {IrBuilder::index(4), IrBuilder::index(8)});
  fusion_.addOutput(mul(exp(wide), y));
  computeBeforeBroadcasts(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4] = exp(x0)
t1 float32[i4, b] = broadcast(t0)
t2 float32[i4, i8] = mul(t1, x1)
outputs: t2
)");
}

TEST_F(ComputeBeforeBroadcasts, WhatIsComputedOfSizeOneIsExpandedAfterIt) {
  TensorView* x = input({4, 1});
  TensorView* y = input({4, 8});
  TensorView* wide = expand(x, {IrBuilder::index(4), IrBuilder::index(8)});
  fusion_.addOutput(mul(exp(wide), y));
  fusion_.addOutput(exp(wide));
  computeBeforeBroadcasts(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, b] = exp(x0)
t1 float32[i4, i8] = mul(t0, x1)
t2 float32[i4, b] = exp(x0)
t3 float32[i4, b8] = expand(t2)
outputs: t1 t3
)");
}

TEST_F(ComputeBeforeBroadcasts, AnOutputKeepsWhatItIsExpandedTo) {
  TensorView* x = input({4});
  TensorView* wide =
      expand(broadcast(x, {false, true}), {IrBuilder::index(4), IrBuilder::index(8)});
  fusion_.addOutput(exp(wide));
  computeBeforeBroadcasts(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4] = exp(x0)
t1 float32[i4, b] = broadcast(t0)
t2 float32[i4, b8] = expand(t1)
outputs: t2
)");
}

TEST_F(ComputeBeforeBroadcasts, WhatIsSqueezedIsComputedWithoutTheDimension) {
  TensorView* x = input({1, 4});
  TensorView* y = input({4, 8});
  TensorView* wide =
      permute(expand(x, {IrBuilder::index(8), IrBuilder::index(4)}), {1, 0}); // [4, b8]
  TensorView* e = exp(wide);
  TensorView* mean = squeeze(e, std::vector<int64_t>{1}, /*squeeze_expanded=*/true);
  fusion_.addOutput(sum(mul(y, div(e, broadcast(mean, {false, true}))), {0}));
  computeBeforeBroadcasts(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4] = squeeze(x0)
t1 float32[i4] = exp(t0)
t2 float32[i4] = div(t1, t1)
t3 float32[i4, b] = broadcast(t2)
t4 float32[i4, i8] = mul(x1, t3)
t5 float32[r4, i8] = reduce add(t4)
outputs: t5
)");
}

TEST_F(ComputeBeforeBroadcasts, SqueezesOfWhatIsNotExpandedStay) {
  TensorView* x = input({4, 1, 8});
  TensorView* total = sum(x, {2});
  fusion_.addOutput(squeeze(exp(total), std::vector<int64_t>{1}));
  fusion_.addOutput(squeeze(x, std::vector<int64_t>{1}));
  computeBeforeBroadcasts(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, b, r8] = reduce add(x0)
t1 float32[i4, b] = exp(t0)
t2 float32[i4] = squeeze(t1)
t3 float32[i4, i8] = squeeze(x0)
outputs: t2 t3
)");
}

} // namespace nvfuser::test
