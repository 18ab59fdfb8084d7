// SPDX-License-Identifier: BSD-3-Clause
// What gives bit by bit the same with fewer operations, and what does not.
#include "preseg_for_test.h"

#include <preseg_passes/canonical_form.h>

#include <limits>

namespace nvfuser::test {

class SimplifyIdentities : public PresegTest {
 protected:
  static Val* constant(double value) {
    return IrBuilder::create<Val>(value);
  }
  // The text of the definition of one output after the rewrite.
  std::string simplified(TensorView* out) {
    fusion_.addOutput(out);
    simplifyIdentities(&fusion_);
    return text();
  }
};

TEST_F(SimplifyIdentities, WhatUndoesItself) {
  TensorView* x = input({4, 8});
  EXPECT_EQ(simplified(exp(neg(neg(x)))), R"(t0 float32[i4, i8] = exp(x0)
outputs: t0
)");
}

TEST_F(SimplifyIdentities, AnOutputThatIsAnInputIsACopy) {
  TensorView* x = input({4, 8});
  EXPECT_EQ(simplified(mul(x, constant(1))), R"(t0 float32[i4, i8] = Set(x0)
outputs: t0
)");
}

TEST_F(SimplifyIdentities, NeutralOperands) {
  TensorView* x = input({4, 8});
  TensorView* y = sub(div(pow(mul(x, constant(1)), constant(1)), constant(1)), constant(0));
  EXPECT_EQ(simplified(exp(add(y, constant(-0.0)))), R"(t0 float32[i4, i8] = exp(x0)
outputs: t0
)");
}

// -0 + 0 is 0.
TEST_F(SimplifyIdentities, ZeroIsAddedUnlessThereIsNoNegativeZero) {
  TensorView* x = input({4, 8});
  EXPECT_EQ(simplified(add(exp(add(x, constant(0))), constant(0))),
            R"(t0 float32[i4, i8] = add(x0, double(0))
t1 float32[i4, i8] = exp(t0)
outputs: t1
)");
}

TEST_F(SimplifyIdentities, SignsOfSumsAndProducts) {
  TensorView* x = input({4, 8});
  TensorView* y = input({4, 8});
  EXPECT_EQ(simplified(mul(sub(x, neg(y)), add(neg(x), y))), R"(t0 float32[i4, i8] = add(x0, x1)
t1 float32[i4, i8] = sub(x1, x0)
t2 float32[i4, i8] = mul(t0, t1)
outputs: t2
)");
}

TEST_F(SimplifyIdentities, SquaresHaveNoSign) {
  TensorView* x = input({4, 8});
  TensorView* y = abs(mul(x, constant(-1)));
  EXPECT_EQ(simplified(mul(y, y)), R"(t0 float32[i4, i8] = mul(x0, x0)
outputs: t0
)");
}

TEST_F(SimplifyIdentities, CastsThereAndBackWhereTheyAreExact) {
  TensorView* x = input({4, 8}, DataType::BFloat16);
  TensorView* wide = castOp(DataType::Double, castOp(DataType::Float, x));
  EXPECT_EQ(simplified(castOp(DataType::BFloat16, wide)), R"(t0 bfloat16[i4, i8] = Set(x0)
outputs: t0
)");
}

TEST_F(SimplifyIdentities, ANarrowingCastRounds) {
  TensorView* x = input({4, 8});
  EXPECT_EQ(simplified(castOp(DataType::Float, castOp(DataType::BFloat16, x))),
            R"(t0 bfloat16[i4, i8] = cast(x0)
t1 float32[i4, i8] = cast(t0)
outputs: t1
)");
}

TEST_F(SimplifyIdentities, PermutationsThereAndBack) {
  TensorView* x = input({4, 8});
  EXPECT_EQ(simplified(exp(permute(permute(x, {1, 0}), {1, 0}))), R"(t0 float32[i4, i8] = exp(x0)
outputs: t0
)");
}

TEST_F(SimplifyIdentities, BroadcastsAndSqueezes) {
  TensorView* x = input({4});
  TensorView* y = broadcast(broadcast(x, {true, false}), {false, false, true});
  EXPECT_EQ(simplified(exp(squeeze(y, std::vector<int64_t>{0}))),
            R"(t0 float32[i4, b] = broadcast(x0)
t1 float32[i4, b] = exp(t0)
outputs: t1
)");
}

TEST_F(SimplifyIdentities, ASelectionOfConstantsStaysOne) {
  TensorView* mask = input({4, 8}, DataType::Bool);
  TensorView* hidden = sub(constant(1), castOp(DataType::Float, mask));
  EXPECT_EQ(simplified(mul(hidden, constant(-10000))),
            R"(t0 float32[i4, i8] = where(x0, float(-0), float(-10000))
outputs: t0
)");
}

TEST_F(SimplifyIdentities, MasksThatAreCompared) {
  TensorView* mask = input({4, 8}, DataType::Bool);
  TensorView* x = input({4, 8});
  TensorView* hidden = eq(castOp(DataType::Float, mask), constant(0));
  EXPECT_EQ(simplified(where(hidden, constant(-1), x)),
            R"(t0 float32[i4, i8] = where(x0, x1, float(-1))
outputs: t0
)");
}

// NaN and infinities would be lost.
TEST_F(SimplifyIdentities, AProductWithAMaskIsNoSelection) {
  TensorView* mask = input({4, 8}, DataType::Bool);
  TensorView* x = input({4, 8});
  EXPECT_EQ(simplified(mul(x, castOp(DataType::Float, mask))), R"(t0 float32[i4, i8] = cast(x0)
t1 float32[i4, i8] = mul(x1, t0)
outputs: t1
)");
}

TEST_F(SimplifyIdentities, ABoundaryThatWasAskedForStays) {
  TensorView* x = input({4, 8});
  EXPECT_EQ(simplified(exp(segment_set(set(x)))), R"(t0 float32[i4, i8] = SegmenterSet(x0)
t1 float32[i4, i8] = exp(t0)
outputs: t1
)");
}

TEST_F(SimplifyIdentities, HalvesOfSumsWithConstants) {
  TensorView* x = input({4, 8});
  TensorView* half = mul(add(constant(1), x)->as<TensorView>(), constant(0.5));
  TensorView* quarter = mul(constant(0.25), sub(constant(3), half))->as<TensorView>();
  EXPECT_EQ(simplified(quarter), R"(t0 float32[i4, i8] = mul(x0, float(0.5))
t1 float32[i4, i8] = mul(t0, float(0.25))
t2 float32[i4, i8] = add(float(0.125), t1)
t3 float32[i4, i8] = sub(float(0.75), t2)
outputs: t3
)");
}

// A factor above 1 may overflow, another one is rounded, and a small constant may be denormal.
TEST_F(SimplifyIdentities, OtherFactorsOfSumsStay) {
  for (const auto& [factor, summand] :
       {std::pair{2.0, 1.0}, {0.3, 1.0}, {-0.5, 1.0}, {0.5, 1e-30}}) {
    fusion_.addOutput(mul(add(input({4, 8}), constant(summand)), constant(factor)));
  }
  const std::string before = text();
  simplifyIdentities(&fusion_);
  EXPECT_EQ(text(), before);
}

TEST_F(SimplifyIdentities, WhatIsComparedForEqualityIsNotComparedAgain) {
  TensorView* labels = input({8}, DataType::Int);
  Val* ignored = IrBuilder::create<Val>(int64_t{-100}, DataType::Int);
  fusion_.addOutput(where(ne(labels, ignored), labels, ignored));
  fusion_.addOutput(eq(labels, ignored));
  simplifyIdentities(&fusion_);
  simplifyIdentities(&fusion_);
  EXPECT_EQ(text(), R"(t0 bool[i8] = ne(x0, -100)
t1 int64[i8] = where(t0, x0, -100)
t2 bool[i8] = logical_not(t0)
outputs: t1 t2
)");
}

} // namespace nvfuser::test
