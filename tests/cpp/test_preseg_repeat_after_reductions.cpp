// SPDX-License-Identifier: BSD-3-Clause
// What is read before and after a reduction is computed again after it.
#include "preseg_for_test.h"

namespace nvfuser::test {

class RepeatAfterReductions : public PresegTest {};

TEST_F(RepeatAfterReductions, AWidenedInputIsWidenedAgain) {
  TensorView* x = input({4, 8}, DataType::BFloat16);
  TensorView* wide = castOp(DataType::Float, x);
  fusion_.addOutput(sub(wide, broadcast(sum(wide, {1}), {false, true})));
  repeatAfterReductions(&fusion_, 0);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = cast(x0)
t1 float32[i4, i8] = cast(x0)
t2 float32[i4, r8] = reduce add(t1)
t3 float32[i4, b] = broadcast(t2)
t4 float32[i4, i8] = sub(t0, t3)
outputs: t4
)");
}

TEST_F(RepeatAfterReductions, WhatIsMadeOfMoreThanItTakesIsKept) {
  TensorView* x = input({4, 8});
  TensorView* y = input({4, 8});
  TensorView* both = add(x, y);
  fusion_.addOutput(sub(both, broadcast(sum(both, {1}), {false, true})));
  repeatAfterReductions(&fusion_, 0);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = add(x0, x1)
t1 float32[i4, r8] = reduce add(t0)
t2 float32[i4, b] = broadcast(t1)
t3 float32[i4, i8] = sub(t0, t2)
outputs: t3
)");
}

} // namespace nvfuser::test
