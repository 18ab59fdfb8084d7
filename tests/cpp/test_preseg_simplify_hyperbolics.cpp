// SPDX-License-Identifier: BSD-3-Clause
// Tangents that gates are made of are sigmoids.
#include "preseg_for_test.h"

#include <preseg_passes/canonical_form.h>

namespace nvfuser::test {

class SimplifyHyperbolics : public PresegTest {
 protected:
  static Val* constant(double value) {
    return IrBuilder::create<Val>(value);
  }
  std::string simplified(std::initializer_list<TensorView*> outs) {
    for (TensorView* out : outs) {
      fusion_.addOutput(out);
    }
    simplifyHyperbolics(&fusion_);
    return text();
  }
};

// The 2 of the sigmoid is the half of what it is multiplied by.
TEST_F(SimplifyHyperbolics, AGateBesideAHalf) {
  TensorView* x = input({4});
  TensorView* y = input({4});
  TensorView* gate = add(tanh(y), constant(1));
  EXPECT_EQ(simplified({mul(mul(x, constant(0.5)), gate)}), R"(t0 float32[i4] = mul(x1, float(2))
t1 float32[i4] = sigmoid(t0)
t2 float32[i4] = mul(x0, t1)
outputs: t2
)");
}

TEST_F(SimplifyHyperbolics, AGateThatIsHalvedAfterAProduct) {
  TensorView* x = input({4});
  TensorView* y = input({4});
  EXPECT_EQ(simplified({mul(mul(x, add(constant(1), tanh(y))), constant(0.5))}),
            R"(t0 float32[i4] = mul(x1, float(2))
t1 float32[i4] = sigmoid(t0)
t2 float32[i4] = mul(x0, t1)
outputs: t2
)");
}

// A constant factor of the argument takes the 2.
TEST_F(SimplifyHyperbolics, AHalfThatIsAddedToTheHalf) {
  TensorView* y = mul(input({4}), constant(0.75));
  EXPECT_EQ(simplified({add(mul(tanh(y), constant(0.5)), constant(0.5))}),
            R"(t0 float32[i4] = mul(x0, float(1.5))
t1 float32[i4] = sigmoid(t0)
outputs: t1
)");
}

TEST_F(SimplifyHyperbolics, ASigmoidOfAHalf) {
  TensorView* y = mul(input({4}), constant(0.5));
  EXPECT_EQ(simplified({add(mul(tanh(y), constant(0.5)), constant(0.5))}),
            R"(t0 float32[i4] = sigmoid(x0)
outputs: t0
)");
}

TEST_F(SimplifyHyperbolics, AGateThatFalls) {
  EXPECT_EQ(simplified({sub(constant(1), tanh(input({4})))}), R"(t0 float32[i4] = mul(x0, float(2))
t1 float32[i4] = neg(t0)
t2 float32[i4] = sigmoid(t1)
t3 float32[i4] = mul(t2, float(2))
outputs: t3
)");
}

// The gradient reads the same exponential.
TEST_F(SimplifyHyperbolics, AGateAndItsSlope) {
  TensorView* t = tanh(mul(input({4}), constant(0.75)));
  EXPECT_EQ(simplified({add(t, constant(1)), sub(constant(1), mul(t, t))}),
            R"(t0 float32[i4] = mul(x0, double(0.75))
t1 float32[i4] = mul(t0, float(2))
t2 float32[i4] = sigmoid(t1)
t3 float32[i4] = mul(t2, float(2))
t4 float32[i4] = sech2(t0)
outputs: t3 t4
)");
}

TEST_F(SimplifyHyperbolics, TheSlopeTimesAConstant) {
  TensorView* t = tanh(input({4}));
  EXPECT_EQ(simplified({sub(constant(0.5), mul(mul(t, t), constant(0.5)))}),
            R"(t0 float32[i4] = sech2(x0)
t1 float32[i4] = mul(t0, float(0.5))
outputs: t1
)");
}

TEST_F(SimplifyHyperbolics, ATangentThatIsReadElsewhereStays) {
  TensorView* t = tanh(input({4}));
  EXPECT_EQ(simplified({add(t, constant(1)), neg(t)}), R"(t0 float32[i4] = tanh(x0)
t1 float32[i4] = add(t0, double(1))
t2 float32[i4] = neg(t0)
outputs: t1 t2
)");
}

TEST_F(SimplifyHyperbolics, AnotherConstantStays) {
  TensorView* t = tanh(input({4}));
  EXPECT_EQ(simplified({add(mul(t, constant(0.5)), constant(0.25))}), R"(t0 float32[i4] = tanh(x0)
t1 float32[i4] = mul(t0, double(0.5))
t2 float32[i4] = add(t1, double(0.25))
outputs: t2
)");
}

TEST_F(SimplifyHyperbolics, OtherScalesStay) {
  TensorView* x = input({4});
  TensorView* y = input({4});
  EXPECT_EQ(simplified({mul(mul(x, constant(0.25)), add(tanh(y), constant(1)))}),
            R"(t0 float32[i4] = mul(x0, double(0.25))
t1 float32[i4] = mul(x1, float(2))
t2 float32[i4] = sigmoid(t1)
t3 float32[i4] = mul(t2, float(2))
t4 float32[i4] = mul(t0, t3)
outputs: t4
)");
}

} // namespace nvfuser::test
