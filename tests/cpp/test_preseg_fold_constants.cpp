// SPDX-License-Identifier: BSD-3-Clause
// Scalars of constants, and tensors that hold one scalar everywhere, are constants of operations.
#include "preseg_for_test.h"

#include <preseg_passes/canonical_form.h>

namespace nvfuser::test {

class FoldConstants : public PresegTest {
 protected:
  static Val* constant(double value) {
    return IrBuilder::create<Val>(value);
  }
  static TensorView* filled(double value) {
    return full({IrBuilder::index(4), IrBuilder::index(8)}, constant(value), DataType::Float);
  }
};

TEST_F(FoldConstants, OfScalars) {
  TensorView* x = input({4, 8});
  fusion_.addOutput(mul(x, reciprocal(mul(constant(4.0), constant(8.0)))));
  foldConstants(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = mul(x0, double(0.03125))
outputs: t0
)");
}

TEST_F(FoldConstants, OfTensorsThatHoldOne) {
  TensorView* x = input({4, 8});
  fusion_.addOutput(mul(add(x, filled(3)), neg(filled(2))));
  foldConstants(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = add(x0, float(3))
t1 float32[i4, i8] = mul(t0, float(-2))
outputs: t1
)");
}

TEST_F(FoldConstants, OfConstantsThatAreSpread) {
  TensorView* x = input({4, 8});
  TensorView* one = full({IrBuilder::index(4)}, constant(1), DataType::Float);
  fusion_.addOutput(sub(broadcast(one, {false, true}), x));
  foldConstants(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = sub(float(1), x0)
outputs: t0
)");
}

TEST_F(FoldConstants, ViewsOfConstantsAreMadeInTheirShape) {
  TensorView* x = input({2, 8});
  TensorView* zeros = slice(reshape(filled(0), {2, 2, 8}), {0, 0, 0}, {2, 1, 8});
  fusion_.addOutput(cat({zeros, broadcast(x, {false, true, false})}, 1));
  foldConstants(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i2, b, i8] = full(float(0))
t1 float32[i2, i2, i8] of [i2, b, i8] = pad(t0, float(0))
t2 float32[i2, b, i8] = broadcast(x0)
t3 float32[i2, i2, i8] of [i2, b, i8] = pad(t2, float(0))
t4 float32[i2, i2, i8] = cat(t1, t3)
outputs: t4
)");
}

TEST_F(FoldConstants, EachReaderHasItsOwn) {
  TensorView* zeros = filled(0);
  const auto padded = [&](int64_t left, int64_t right) {
    return pad(zeros, std::vector<int64_t>{0, 0, left, right});
  };
  fusion_.addOutput(add(padded(0, 1), padded(1, 0)));
  makeConstantsApart(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = full(float(0))
t1 float32[i5, i8] of [i4, i8] = pad(t0, float(0))
t2 float32[i4, i8] = full(float(0))
t3 float32[i5, i8] of [i4, i8] = pad(t2, float(0))
t4 float32[i5, i8] = add(t1, t3)
outputs: t4
)");
}

// Each result is a constant of its own shape, so that it needs no other kernel than such a one.
TEST_F(FoldConstants, OfConstantsAlone) {
  fusion_.addOutput(where(gt(filled(3), filled(2)), neg(filled(4)), filled(0)));
  fusion_.addOutput(sin(neg(filled(4)))); // rounded where it is computed
  foldConstants(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = full(float(-4))
t1 float32[i4, i8] = Set(t0)
t2 float32[i4, i8] = full(float(-4))
t3 float32[i4, i8] = sin(t2)
outputs: t1 t3
)");
}

// Nothing else gives the result its size.
TEST_F(FoldConstants, NotWhereTheTensorGivesTheSize) {
  TensorView* x = input({1, 8});
  fusion_.addOutput(add(x, filled(3)));
  foldConstants(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = full(float(3))
t1 float32[i4, i8] = add(x0, t0)
outputs: t1
)");
}

} // namespace nvfuser::test
