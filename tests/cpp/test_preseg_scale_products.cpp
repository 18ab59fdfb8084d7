// SPDX-License-Identifier: BSD-3-Clause
// Constants that an operand or a result of a product is multiplied by are the product's.
#include "preseg_for_test.h"

#include <preseg_passes/passes.h>

namespace nvfuser::test {

class ScaleProducts : public PresegTest {
 protected:
  static constexpr DataType kNarrow = DataType::BFloat16;

  TensorView* scaled(TensorView* tv, double factor = 0.25) {
    return castOp(tv->dtype(), mul(tv, IrBuilder::create<Val>(factor, DataType::Double)));
  }
  TensorView* product(TensorView* a) {
    return matmul(a, input({32, 16}, kNarrow));
  }
  void expectNone() {
    const std::string before = text();
    scaleProducts(&fusion_);
    EXPECT_EQ(text(), before);
  }
};

TEST_F(ScaleProducts, OfOperands) {
  fusion_.addOutput(matmul(scaled(input({64, 32}, kNarrow)), scaled(input({32, 16}, kNarrow), 3)));
  scaleProducts(&fusion_);
  EXPECT_EQ(text(), R"(t0 bfloat16[i64, i16] = matmul(x1, x0, double(0.75))
outputs: t0
)");
}

TEST_F(ScaleProducts, OfViewsOfOperands) {
  TensorView* heads = permute(reshape(scaled(input({64, 128}, kNarrow)), {64, 4, 32}), {1, 0, 2});
  fusion_.addOutput(product(heads));
  scaleProducts(&fusion_);
  EXPECT_EQ(text(), R"(t0 bfloat16[i64, i4, i32] of [i64, i128] = reshape(x0)
t1 bfloat16[i4, i64, i32] of [i64, i4, i32] = Set(t0)
t2 bfloat16[i4, i64, i16] = matmul(t1, x1, double(0.25))
outputs: t2
)");
}

TEST_F(ScaleProducts, OfResults) {
  fusion_.addOutput(scaled(product(input({64, 32}, kNarrow))));
  scaleProducts(&fusion_);
  EXPECT_EQ(text(), R"(t0 bfloat16[i64, i16] = matmul(x0, x1, double(0.25))
outputs: t0
)");
}

TEST_F(ScaleProducts, OfViewsOfResults) {
  TensorView* heads = permute(reshape(product(input({64, 32}, kNarrow)), {64, 4, 4}), {1, 0, 2});
  fusion_.addOutput(matmul(scaled(heads), input({4, 8}, kNarrow)));
  scaleProducts(&fusion_);
  EXPECT_EQ(text(), R"(t0 bfloat16[i64, i16] = matmul(x0, x1, double(0.25))
t1 bfloat16[i64, i4, i4] of [i64, i16] = reshape(t0)
t2 bfloat16[i4, i64, i4] of [i64, i4, i4] = Set(t1)
t3 bfloat16[i4, i64, i8] = matmul(t2, x2)
outputs: t3
)");
}

TEST_F(ScaleProducts, WithABiasThatIsNotScaled) {
  fusion_.addOutput(
      linear(scaled(input({64, 32}, kNarrow)), input({16, 32}, kNarrow), input({16}, kNarrow)));
  scaleProducts(&fusion_);
  EXPECT_EQ(text(), R"(t0 bfloat16[i64, i16] = linear(x2, x1, x0, double(0.25))
outputs: t0
)");
}

TEST_F(ScaleProducts, OfOnesThatHaveAFactor) {
  TensorView* a = input({64, 32}, kNarrow);
  TensorView* out =
      matmul(scaled(a), input({32, 16}, kNarrow), IrBuilder::create<Val>(2.0, DataType::Double));
  fusion_.addOutput(out);
  scaleProducts(&fusion_);
  EXPECT_EQ(text(), R"(t0 bfloat16[i64, i16] = matmul(x0, x1, double(0.5))
outputs: t0
)");
}

TEST_F(ScaleProducts, OfTypesWithoutCasts) {
  fusion_.addOutput(mul(matmul(input({64, 32}), input({32, 16})),
                        IrBuilder::create<Val>(0.125, DataType::Double)));
  scaleProducts(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i64, i16] = matmul(x1, x0, double(0.125))
outputs: t0
)");
}

TEST_F(ScaleProducts, OfQuotients) {
  TensorView* scores = product(input({64, 32}, kNarrow));
  Val* root = IrBuilder::create<Val>(8.0, DataType::Double);
  fusion_.addOutput(castOp(kNarrow, truediv(scores, root)));
  scaleProducts(&fusion_);
  EXPECT_EQ(text(), R"(t0 bfloat16[i64, i16] = matmul(x0, x1, double(0.125))
outputs: t0
)");
}

TEST_F(ScaleProducts, NotOfAConstantByAResult) {
  TensorView* scores = product(input({64, 32}, kNarrow));
  Val* root = IrBuilder::create<Val>(8.0, DataType::Double);
  fusion_.addOutput(castOp(kNarrow, truediv(root, scores)));
  expectNone();
}

TEST_F(ScaleProducts, NotIfAKernelWritesTheOperandAnyway) {
  fusion_.addOutput(product(scaled(castOp(kNarrow, relu(input({64, 32}, kNarrow))))));
  expectNone();
}

TEST_F(ScaleProducts, NotIfTheScaledOperandIsReturned) {
  TensorView* a = scaled(input({64, 32}, kNarrow));
  fusion_.addOutput(product(a));
  fusion_.addOutput(a);
  expectNone();
}

TEST_F(ScaleProducts, NotIfAKernelReadsTheScaledResultAlone) {
  fusion_.addOutput(relu(scaled(product(input({64, 32}, kNarrow)))));
  expectNone();
}

TEST_F(ScaleProducts, NotIfAKernelReadsTheResultAsItIs) {
  TensorView* out = product(input({64, 32}, kNarrow));
  fusion_.addOutput(scaled(out));
  fusion_.addOutput(relu(out));
  expectNone();
}

TEST_F(ScaleProducts, NotASumWithABias) {
  fusion_.addOutput(
      scaled(linear(input({64, 32}, kNarrow), input({16, 32}, kNarrow), input({16}, kNarrow))));
  expectNone();
}

TEST_F(ScaleProducts, NotByFactorsThatMayOverflow) {
  fusion_.addOutput(scaled(product(input({64, 32}, kNarrow)), 1e-30));
  expectNone();
}

TEST_F(ScaleProducts, NotByZeroWhichInfinitiesOutlive) {
  fusion_.addOutput(scaled(product(input({64, 32}, kNarrow)), 0));
  expectNone();
}

} // namespace nvfuser::test
