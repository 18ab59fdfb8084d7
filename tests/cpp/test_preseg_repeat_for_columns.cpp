// SPDX-License-Identifier: BSD-3-Clause
// Columns that have kernels of their own compute again what they sum.
#include "preseg_for_test.h"

namespace nvfuser::test {

class RepeatForColumns : public PresegTest {};

TEST_F(RepeatForColumns, WhatTakesAFewOperationsIsComputedAgain) {
  TensorView* x = input({12, 8});
  TensorView* y = input({12, 8});
  TensorView* product = mul(x, y);
  fusion_.addOutput(sub(product, broadcast(sum(product, {1}), {false, true})));
  fusion_.addOutput(sum(product, {0}));
  repeatForColumns(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i12, i8] = mul(x0, x1)
t1 float32[i12, r8] = reduce add(t0)
t2 float32[i12, b] = broadcast(t1)
t3 float32[i12, i8] = sub(t0, t2)
t4 float32[i12, i8] = mul(x0, x1)
t5 float32[r12, i8] = reduce add(t4)
outputs: t3 t5
)");
}

TEST_F(RepeatForColumns, WhatARowIsReducedForIsRead) {
  TensorView* x = input({12, 8});
  TensorView* centered = sub(x, broadcast(sum(x, {1}), {false, true}));
  fusion_.addOutput(centered);
  fusion_.addOutput(sum(cumsum(centered, 1), {0}));
  repeatForColumns(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i12, r8] = reduce add(x0)
t1 float32[i12, b] = broadcast(t0)
t2 float32[i12, i8] = sub(x0, t1)
t3 float32[i12, i8] = scan(t2)
t4 float32[r12, i8] = reduce add(t3)
outputs: t2 t4
)");
}

} // namespace nvfuser::test
