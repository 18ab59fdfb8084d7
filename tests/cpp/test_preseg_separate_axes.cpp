// SPDX-License-Identifier: BSD-3-Clause
// What is read along two axes is read as two tensors.
#include "preseg_for_test.h"

#include <preseg_passes/passes.h>

namespace nvfuser::test {

class SeparateAxes : public PresegTest {
 protected:
  void separate(const std::unordered_set<const TensorView*>& kept = {}) {
    separateAxes(&fusion_, kept, views_);
  }
  MovedViews views_;
};

TEST_F(SeparateAxes, AMatrixAndItsTranspose) {
  TensorView* x = input({8, 8});
  fusion_.addOutput(add(x, transpose(x, 0, 1)));
  separate();
  EXPECT_EQ(text(), R"(t0 float32[i8, i8] of [i8, i8] = Set(x1)
t1 float32[i8, i8] = add(x0, t0)
outputs: t1
)");
  ASSERT_EQ(views_.inputs.size(), 1U);
  EXPECT_EQ(views_.inputs[0].source, x);
  EXPECT_TRUE(views_.inputs[0].starts.empty());
}

TEST_F(SeparateAxes, WhatIsComputedIsComputedAgain) {
  TensorView* x = input({8});
  TensorView* y = exp(x);
  fusion_.addOutput(mul(broadcast(y, {false, true}), broadcast(y, {true, false})));
  separate();
  EXPECT_EQ(text(), R"(t0 float32[i8] = exp(x1)
t1 float32[i8, b] = broadcast(t0)
t2 float32[i8] = exp(x0)
t3 float32[b, i8] = broadcast(t2)
t4 float32[i8, i8] = mul(t1, t3)
outputs: t4
)");
}

TEST_F(SeparateAxes, PositionsAreMadeAgain) {
  TensorView* i = iota(IrBuilder::index(8));
  TensorView* is_diagonal = eq(broadcast(i, {false, true}), broadcast(i, {true, false}));
  fusion_.addOutput(
      where(is_diagonal, input({8, 8}), IrBuilder::create<Val>(0.0, DataType::Float)));
  separate();
  EXPECT_EQ(text(), R"(t0 int64[i8] = iota(8, 0, 1)
t1 int64[i8, b] = broadcast(t0)
t2 int64[i8] = iota(8, 0, 1)
t3 int64[b, i8] = broadcast(t2)
t4 bool[i8, i8] = eq(t1, t3)
t5 float32[i8, i8] = where(t4, x0, float(0))
outputs: t5
)");
  EXPECT_TRUE(views_.inputs.empty());
}

TEST_F(SeparateAxes, NotWhatIsReducedBefore) {
  TensorView* y = sum(input({8, 8}), {1});
  fusion_.addOutput(mul(broadcast(y, {false, true}), broadcast(y, {true, false})));
  const std::string before = text();
  separate();
  EXPECT_EQ(text(), before);
}

TEST_F(SeparateAxes, NotWhatIsWritten) {
  TensorView* x = input({8, 8});
  fusion_.addOutput(add(x, transpose(x, 0, 1)));
  const std::string before = text();
  separate({x});
  EXPECT_EQ(text(), before);
}

TEST_F(SeparateAxes, OneAxisNeedsOneTensor) {
  TensorView* x = input({8, 8});
  fusion_.addOutput(add(mul(x, x), sum(exp(x), {1}, /*keep_dim=*/true)));
  const std::string before = text();
  separate();
  EXPECT_EQ(text(), before);
}

// Each of them ties the axes to each other, so that one alone makes no difference.
TEST_F(SeparateAxes, SeveralThatAreReadAlongBothAxes) {
  TensorView* x = input({8, 8});
  TensorView* row = broadcast(input({8}), {false, true});
  TensorView* scale = broadcast(input({8}), {false, true});
  TensorView* one = mul(add(x, row), scale);
  TensorView* other = mul(add(transpose(input({8, 8}), 0, 1), row), scale);
  fusion_.addOutput(add(one, transpose(other, 0, 1)));
  separate();
  EXPECT_EQ(text(), R"(t0 float32[i8, b] = broadcast(x1)
t1 float32[i8, i8] = add(x0, t0)
t2 float32[i8, b] = broadcast(x2)
t3 float32[i8, i8] = mul(t1, t2)
t4 float32[i8, i8] of [i8, i8] = Set(x3)
t5 float32[i8, b] = broadcast(x5)
t6 float32[i8, i8] = add(t4, t5)
t7 float32[i8, b] = broadcast(x4)
t8 float32[i8, i8] = mul(t6, t7)
t9 float32[i8, i8] of [i8, i8] = Set(t8)
t10 float32[i8, i8] = add(t3, t9)
outputs: t10
)");
  EXPECT_EQ(views_.inputs.size(), 2U);
}

TEST_F(SeparateAxes, ReadersAlongTheSameAxisShareACopy) {
  TensorView* y = exp(input({8, 8}));
  fusion_.addOutput(sub(y, broadcast(max(y, {1}), {false, true})));
  TensorView* across = transpose(y, 0, 1);
  fusion_.addOutput(add(sub(across, broadcast(max(across, {1}), {false, true})), y));
  separate();
  EXPECT_EQ(text(), R"(t0 float32[i8, i8] = exp(x0)
t1 float32[i8, r8] = reduce maximum(t0)
t2 float32[i8, b] = broadcast(t1)
t3 float32[i8, i8] = sub(t0, t2)
t4 float32[i8, i8] = exp(x1)
t5 float32[i8, i8] of [i8, i8] = Set(t4)
t6 float32[i8, r8] = reduce maximum(t5)
t7 float32[i8, b] = broadcast(t6)
t8 float32[i8, i8] = sub(t5, t7)
t9 float32[i8, i8] = add(t8, t0)
outputs: t3 t9
)");
  EXPECT_EQ(views_.inputs.size(), 1U);
}

} // namespace nvfuser::test
