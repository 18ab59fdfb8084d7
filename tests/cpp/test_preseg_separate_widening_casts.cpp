// SPDX-License-Identifier: BSD-3-Clause
// Every reader of a widening cast has a cast of its own.
#include "preseg_for_test.h"

namespace nvfuser::test {

class SeparateWideningCasts : public PresegTest {};

TEST_F(SeparateWideningCasts, EveryReaderWidensForItself) {
  TensorView* x = input({4, 8}, DataType::BFloat16);
  TensorView* wide = castOp(DataType::Float, x);
  fusion_.addOutput(sub(wide, broadcast(sum(wide, {1}), {false, true})));
  separateWideningCasts(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = cast(x0)
t1 float32[i4, i8] = cast(x0)
t2 float32[i4, r8] = reduce add(t1)
t3 float32[i4, b] = broadcast(t2)
t4 float32[i4, i8] = sub(t0, t3)
outputs: t4
)");
}

TEST_F(SeparateWideningCasts, AReshapeIsOfTheNarrowTensor) {
  TensorView* x = abs(input({4, 6}, DataType::BFloat16));
  TensorView* wide = reshape(castOp(DataType::Float, x), {8, 3});
  fusion_.addOutput(sum(wide, {1}));
  fusion_.addOutput(neg(wide));
  separateWideningCasts(&fusion_);
  EXPECT_EQ(text(), R"(t0 bfloat16[i4, i6] = abs(x0)
t1 bfloat16[i8, i3] of [i4, i6] = reshape(t0)
t2 float32[i8, i3] = cast(t1)
t3 float32[i8, r3] = reduce add(t2)
t4 float32[i8, i3] = cast(t1)
t5 float32[i8, i3] = neg(t4)
outputs: t3 t5
)");
}

TEST_F(SeparateWideningCasts, ANarrowingCastIsMadeOnce) {
  TensorView* x = input({4, 8});
  TensorView* narrow = castOp(DataType::BFloat16, x);
  fusion_.addOutput(neg(narrow));
  fusion_.addOutput(abs(narrow));
  separateWideningCasts(&fusion_);
  EXPECT_EQ(text(), R"(t0 bfloat16[i4, i8] = cast(x0)
t1 float32[i4, i8] = cast(t0)
t2 float32[i4, i8] = neg(t1)
t3 bfloat16[i4, i8] = abs(t0)
outputs: t2 t3
)");
}

TEST_F(SeparateWideningCasts, AViewIsWidenedRatherThanViewed) {
  TensorView* x = input({4, 8}, DataType::BFloat16);
  TensorView* wide = castOp(DataType::Float, x);
  TensorView* turned = permute(wide, {1, 0});
  TensorView* pairs = reshape(turned, std::vector<int64_t>{8, 2, 2});
  fusion_.addOutput(sum(pairs, {2}));
  fusion_.addOutput(neg(wide));
  separateWideningCasts(&fusion_);
  EXPECT_EQ(text(), R"(t0 bfloat16[i8, i4] of [i4, i8] = Set(x0)
t1 bfloat16[i8, i2, i2] of [i8, i4] = reshape(t0)
t2 float32[i8, i2, i2] = cast(t1)
t3 float32[i8, i2, r2] = reduce add(t2)
t4 float32[i4, i8] = cast(x0)
t5 float32[i4, i8] = neg(t4)
outputs: t3 t5
)");
}

} // namespace nvfuser::test
