// SPDX-License-Identifier: BSD-3-Clause
// Sums of products with values of a row have one factor of each term.
#include "preseg_for_test.h"

#include <preseg_passes/canonical_form.h>

namespace nvfuser::test {

class CollectTerms : public PresegTest {
 protected:
  TensorView* x_ = input({4, 40});
  TensorView* y_ = input({4, 40});

  // Of each row.
  TensorView* spread(TensorView* row) {
    return broadcast(row, {false, true});
  }
  TensorView* ofRow(TensorView* tv) {
    return spread(sum(tv, {1}));
  }
  std::string collected(const std::vector<TensorView*>& outs) {
    for (TensorView* out : outs) {
      fusion_.addOutput(out);
    }
    collectTerms(&fusion_);
    return text();
  }
};

TEST_F(CollectTerms, EachTermHasOneFactor) {
  TensorView* r = spread(input({4}));
  TensorView* scaled = mul(mul(y_, r), ofRow(y_));
  EXPECT_EQ(collected({mul(sub(sub(x_, ofRow(x_)), scaled), r)}),
            R"(t0 float32[i4, r40] = reduce add(x0)
t1 float32[i4] = mul(t0, x2)
t2 float32[i4] = neg(t1)
t3 float32[i4, b] = broadcast(t2)
t4 float32[i4, b] = broadcast(x2)
t5 float32[i4, i40] = mul(x0, t4)
t6 float32[i4, i40] = add(t3, t5)
t7 float32[i4, r40] = reduce add(x1)
t8 float32[i4] = mul(t7, x2)
t9 float32[i4] = mul(t8, x2)
t10 float32[i4, b] = broadcast(t9)
t11 float32[i4, i40] = mul(x1, t10)
t12 float32[i4, i40] = sub(t6, t11)
outputs: t12
)");
}

TEST_F(CollectTerms, ScalarsAreFactorsToo) {
  TensorView* first = mul(x_, constant(4.0))->as<TensorView>();
  EXPECT_EQ(collected({mul(sub(neg(first), y_), ofRow(x_))}),
            R"(t0 float32[i4, r40] = reduce add(x0)
t1 float32[i4] = mul(t0, float(4))
t2 float32[i4, b] = broadcast(t1)
t3 float32[i4, i40] = mul(x0, t2)
t4 float32[i4, i40] = neg(t3)
t5 float32[i4, b] = broadcast(t0)
t6 float32[i4, i40] = mul(x1, t5)
t7 float32[i4, i40] = sub(t4, t6)
outputs: t7
)");
}

// What others read is computed anyway.
TEST_F(CollectTerms, WhatIsReadElsewhereIsATerm) {
  TensorView* scaled = mul(y_, spread(input({4})));
  EXPECT_EQ(collected({scaled, mul(sub(sub(x_, ofRow(x_)), scaled), ofRow(y_))}),
            R"(t0 float32[i4, b] = broadcast(x2)
t1 float32[i4, i40] = mul(x1, t0)
t2 float32[i4, r40] = reduce add(x1)
t3 float32[i4, r40] = reduce add(x0)
t4 float32[i4] = mul(t2, t3)
t5 float32[i4] = neg(t4)
t6 float32[i4, b] = broadcast(t5)
t7 float32[i4, b] = broadcast(t2)
t8 float32[i4, i40] = mul(x0, t7)
t9 float32[i4, i40] = add(t6, t8)
t10 float32[i4, b] = broadcast(t2)
t11 float32[i4, i40] = mul(t1, t10)
t12 float32[i4, i40] = sub(t9, t11)
outputs: t1 t12
)");
}

TEST_F(CollectTerms, NotForTheSameNumberOfOperations) {
  EXPECT_EQ(collected({sub(x_, mul(y_, ofRow(y_)))}), R"(t0 float32[i4, r40] = reduce add(x1)
t1 float32[i4, b] = broadcast(t0)
t2 float32[i4, i40] = mul(x1, t1)
t3 float32[i4, i40] = sub(x0, t2)
outputs: t3
)");
}

// A deviation of one tensor, as in a normalization, is not taken apart.
TEST_F(CollectTerms, NotOfOneTerm) {
  EXPECT_EQ(collected({mul(sub(x_, ofRow(x_)), ofRow(y_))}), R"(t0 float32[i4, r40] = reduce add(x0)
t1 float32[i4, b] = broadcast(t0)
t2 float32[i4, i40] = sub(x0, t1)
t3 float32[i4, r40] = reduce add(x1)
t4 float32[i4, b] = broadcast(t3)
t5 float32[i4, i40] = mul(t2, t4)
outputs: t5
)");
}

// Two inputs may be close to each other, and exact.
TEST_F(CollectTerms, NotWhereWhatIsSubtractedWasNotReduced) {
  TensorView* center = spread(input({4}));
  TensorView* sum = sub(sub(x_, center), mul(mul(y_, center), ofRow(y_)));
  EXPECT_EQ(collected({mul(sum, ofRow(x_))}), R"(t0 float32[i4, b] = broadcast(x2)
t1 float32[i4, i40] = sub(x0, t0)
t2 float32[i4, i40] = mul(x1, t0)
t3 float32[i4, r40] = reduce add(x1)
t4 float32[i4, b] = broadcast(t3)
t5 float32[i4, i40] = mul(t2, t4)
t6 float32[i4, i40] = sub(t1, t5)
t7 float32[i4, r40] = reduce add(x0)
t8 float32[i4, b] = broadcast(t7)
t9 float32[i4, i40] = mul(t6, t8)
outputs: t9
)");
}

// What is computed of three elements is hardly less than what is computed of each.
TEST_F(CollectTerms, NotOfShortRows) {
  TensorView* x = input({4, 3});
  TensorView* y = input({4, 3});
  EXPECT_EQ(collected({mul(sub(sub(x, ofRow(x)), y), ofRow(y))}),
            R"(t0 float32[i4, r3] = reduce add(x2)
t1 float32[i4, b] = broadcast(t0)
t2 float32[i4, i3] = sub(x2, t1)
t3 float32[i4, i3] = sub(t2, x3)
t4 float32[i4, r3] = reduce add(x3)
t5 float32[i4, b] = broadcast(t4)
t6 float32[i4, i3] = mul(t3, t5)
outputs: t6
)");
}

TEST_F(CollectTerms, NotTwiceOfOneTensor) {
  TensorView* r = ofRow(x_);
  EXPECT_EQ(collected({mul(sub(mul(x_, ofRow(y_)), mul(x_, r)), r)}),
            R"(t0 float32[i4, r40] = reduce add(x1)
t1 float32[i4, b] = broadcast(t0)
t2 float32[i4, i40] = mul(x0, t1)
t3 float32[i4, r40] = reduce add(x0)
t4 float32[i4, b] = broadcast(t3)
t5 float32[i4, i40] = mul(x0, t4)
t6 float32[i4, i40] = sub(t2, t5)
t7 float32[i4, i40] = mul(t6, t4)
outputs: t7
)");
}

} // namespace nvfuser::test
