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

} // namespace nvfuser::test
