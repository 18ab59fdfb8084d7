// SPDX-License-Identifier: BSD-3-Clause
// Powers, roots and reciprocals as the cheapest operations.
#include "preseg_for_test.h"

#include <preseg_passes/canonical_form.h>

namespace nvfuser::test {

class SimplifyPowers : public PresegTest {
 protected:
  static Val* constant(double value) {
    return IrBuilder::create<Val>(value);
  }
  std::string simplified(TensorView* out) {
    fusion_.addOutput(out);
    simplifyPowers(&fusion_);
    return text();
  }
};

TEST_F(SimplifyPowers, SmallIntegralExponents) {
  TensorView* x = input({4});
  EXPECT_EQ(simplified(pow(x, constant(3))), R"(t0 float32[i4] = mul(x0, x0)
t1 float32[i4] = mul(x0, t0)
outputs: t1
)");
}

TEST_F(SimplifyPowers, NegativeExponentsAreOfTheReciprocal) {
  TensorView* x = input({4});
  EXPECT_EQ(simplified(pow(x, constant(-2))), R"(t0 float32[i4] = reciprocal(x0)
t1 float32[i4] = mul(t0, t0)
outputs: t1
)");
}

// However it is spelled, where nothing else reads the cosine.
TEST_F(SimplifyPowers, TheReciprocalOfASquaredCosine) {
  TensorView* x = input({4});
  TensorView* cosine = cosh(x);
  EXPECT_EQ(simplified(reciprocal(mul(cosine, cosine))), R"(t0 float32[i4] = sech2(x0)
outputs: t0
)");
}

TEST_F(SimplifyPowers, TheSquaredReciprocalOfACosine) {
  EXPECT_EQ(simplified(pow(cosh(input({4})), constant(-2))), R"(t0 float32[i4] = sech2(x0)
outputs: t0
)");
}

TEST_F(SimplifyPowers, ACosineThatIsReadElsewhereStays) {
  TensorView* cosine = cosh(input({4}));
  fusion_.addOutput(cosine);
  EXPECT_EQ(simplified(reciprocal(mul(cosine, cosine))), R"(t0 float32[i4] = cosh(x0)
t1 float32[i4] = mul(t0, t0)
t2 float32[i4] = reciprocal(t1)
outputs: t0 t2
)");
}

// The powers of -0 and -inf are those of 0 and inf.
TEST_F(SimplifyPowers, HalfIntegralExponents) {
  TensorView* x = input({4});
  EXPECT_EQ(simplified(pow(x, constant(0.5))), R"(t0 bool[i4] = eq(x0, float(-inf))
t1 float32[i4] = where(t0, float(inf), x0)
t2 float32[i4] = add(t1, float(0))
t3 float32[i4] = sqrt(t2)
outputs: t3
)");
}

TEST_F(SimplifyPowers, HalfIntegralExponentsOfWhatHasNoSign) {
  TensorView* x = input({4});
  EXPECT_EQ(simplified(pow(add(mul(x, x), constant(1e-5)), constant(-0.5))),
            R"(t0 float32[i4] = mul(x0, x0)
t1 float32[i4] = add(t0, double(1e-05))
t2 float32[i4] = rsqrt(t1)
outputs: t2
)");
}

TEST_F(SimplifyPowers, LargeAndOtherExponentsStay) {
  TensorView* x = input({4});
  EXPECT_EQ(simplified(pow(pow(x, constant(9)), constant(0.3))),
            R"(t0 float32[i4] = pow(x0, double(9))
t1 float32[i4] = pow(t0, double(0.3))
outputs: t1
)");
}

TEST_F(SimplifyPowers, ChainsOfRootsAndReciprocals) {
  TensorView* x = input({4});
  EXPECT_EQ(simplified(sqrt(reciprocal(reciprocal(rsqrt(reciprocal(sqrt(x))))))),
            R"(t0 float32[i4] = rsqrt(x0)
t1 float32[i4] = rsqrt(t0)
t2 float32[i4] = sqrt(t1)
outputs: t2
)");
}

TEST_F(SimplifyPowers, AQuotientByABroadcastRoot) {
  TensorView* x = input({4, 8});
  TensorView* s = broadcast(sqrt(sum(x, {1})), {false, true});
  EXPECT_EQ(simplified(div(x, s)), R"(t0 float32[i4, r8] = reduce add(x0)
t1 float32[i4] = rsqrt(t0)
t2 float32[i4, b] = broadcast(t1)
t3 float32[i4, i8] = mul(x0, t2)
outputs: t3
)");
}

// A small divisor has no reciprocal.
TEST_F(SimplifyPowers, AnyOtherQuotientStays) {
  TensorView* x = input({4, 8});
  TensorView* s = broadcast(sum(x, {1}), {false, true});
  EXPECT_EQ(simplified(div(x, s)), R"(t0 float32[i4, r8] = reduce add(x0)
t1 float32[i4, b] = broadcast(t0)
t2 float32[i4, i8] = div(x0, t1)
outputs: t2
)");
}

TEST_F(SimplifyPowers, QuotientsByPowersOfTwo) {
  TensorView* x = input({4});
  EXPECT_EQ(simplified(div(div(x, constant(8)), constant(3))),
            R"(t0 float32[i4] = mul(x0, float(0.125))
t1 float32[i4] = div(t0, double(3))
outputs: t1
)");
}

TEST_F(SimplifyPowers, AProductWithAReciprocalStays) {
  TensorView* x = input({4});
  TensorView* y = input({4});
  EXPECT_EQ(simplified(mul(x, reciprocal(y))), R"(t0 float32[i4] = reciprocal(x1)
t1 float32[i4] = mul(x0, t0)
outputs: t1
)");
}

TEST_F(SimplifyPowers, TheExponentialOfALogSoftmax) {
  TensorView* x = input({4, 8});
  TensorView* shifted = sub(x, broadcast(max(x, {1}), {false, true}));
  TensorView* total = sum(exp(shifted), {1});
  EXPECT_EQ(simplified(exp(sub(shifted, broadcast(log(total), {false, true})))),
            R"(t0 float32[i4, r8] = reduce maximum(x0)
t1 float32[i4, b] = broadcast(t0)
t2 float32[i4, i8] = sub(x0, t1)
t3 float32[i4, i8] = exp(t2)
t4 float32[i4, r8] = reduce add(t3)
t5 float32[i4, b] = broadcast(t4)
t6 float32[i4, i8] = div(t3, t5)
outputs: t6
)");
}

// Nothing keeps these exponentials from overflowing.
TEST_F(SimplifyPowers, TheExponentialOfALogSumOfWhatIsNotShiftedStays) {
  TensorView* x = input({4, 8});
  TensorView* total = sum(exp(x), {1});
  EXPECT_EQ(simplified(exp(sub(x, broadcast(log(total), {false, true})))),
            R"(t0 float32[i4, i8] = exp(x0)
t1 float32[i4, r8] = reduce add(t0)
t2 float32[i4] = log(t1)
t3 float32[i4, b] = broadcast(t2)
t4 float32[i4, i8] = sub(x0, t3)
t5 float32[i4, i8] = exp(t4)
outputs: t5
)");
}

// As kernels of attention have softmax.
TEST_F(SimplifyPowers, PowersAndLogarithmsOfTwoThatAreOfE) {
  TensorView* x = input({4});
  TensorView* power = exp2(mul(x, constant(1.4426950408889634)));
  EXPECT_EQ(simplified(mul(log2(power), constant(0.6931471805599453))), R"(t0 float32[i4] = exp(x0)
t1 float32[i4] = log(t0)
outputs: t1
)");
}

TEST_F(SimplifyPowers, PowersAndLogarithmsOfEThatAreOfTwo) {
  TensorView* x = input({4});
  TensorView* power = exp(mul(x, constant(0.69314718)));
  EXPECT_EQ(simplified(mul(log(power), constant(1.44269504))), R"(t0 float32[i4] = exp2(x0)
t1 float32[i4] = log2(t0)
outputs: t1
)");
}

TEST_F(SimplifyPowers, PowersOfPowersOfTwo) {
  TensorView* x = input({4});
  EXPECT_EQ(simplified(pow(constant(2), pow(constant(0.0625), x))),
            R"(t0 float32[i4] = mul(x0, float(-4))
t1 float32[i4] = exp2(t0)
t2 float32[i4] = exp2(t1)
outputs: t2
)");
}

TEST_F(SimplifyPowers, PowersWhoseExponentWouldBeRoundedStay) {
  TensorView* x = input({4});
  EXPECT_EQ(simplified(pow(constant(8), pow(constant(-2), pow(constant(3), x)))),
            R"(t0 float32[i4] = pow(double(3), x0)
t1 float32[i4] = pow(double(-2), t0)
t2 float32[i4] = pow(double(8), t1)
outputs: t2
)");
}

TEST_F(SimplifyPowers, PowersOfOtherNumbersStay) {
  TensorView* x = input({4});
  TensorView* power = exp2(mul(x, constant(1.4427)));
  EXPECT_EQ(simplified(mul(log2(power), constant(0.693))),
            R"(t0 float32[i4] = mul(x0, double(1.4427))
t1 float32[i4] = exp2(t0)
t2 float32[i4] = log2(t1)
t3 float32[i4] = mul(t2, double(0.6929999999999999))
outputs: t3
)");
}

} // namespace nvfuser::test
