// SPDX-License-Identifier: BSD-3-Clause
// Sums of products that differ in what all terms share are one sum.
#include "preseg_for_test.h"

#include <preseg_passes/canonical_form.h>

namespace nvfuser::test {

class ShareSums : public PresegTest {
 protected:
  // Of [4, 8], the same for all rows.
  TensorView* ofColumns() {
    return broadcast(input({8}), {true, false});
  }
  std::string shared(const std::vector<TensorView*>& outs) {
    for (TensorView* out : outs) {
      fusion_.addOutput(out);
    }
    shareSums(&fusion_);
    return text();
  }
};

TEST_F(ShareSums, AFactorOfAllTermsLeavesASumThatIsThereWithoutIt) {
  TensorView* g = input({4, 8});
  TensorView* w = ofColumns();
  EXPECT_EQ(shared({sum(mul(g, w), {0}), sum(g, {0})}), R"(t0 float32[r4, i8] = reduce add(x0)
t1 float32[i8] = mul(t0, x1)
outputs: t1 t0
)");
}

// The product of two factors is there: it is read beside the sum that a third one leaves.
TEST_F(ShareSums, WhatIsLeftIsAProductThatExists) {
  TensorView* g = input({4, 8});
  TensorView* w = ofColumns();
  TensorView* x = input({4, 8});
  TensorView* late = broadcast(sum(x, {1}), {false, true});
  TensorView* weighted = mul(w, g);
  EXPECT_EQ(shared({weighted, sum(mul(mul(mul(x, w), late), g), {1})}),
            R"(t0 float32[b, i8] = broadcast(x1)
t1 float32[i4, i8] = mul(t0, x0)
t2 float32[i4, i8] = mul(x2, t1)
t3 float32[i4, r8] = reduce add(t2)
t4 float32[i4, r8] = reduce add(x2)
t5 float32[i4] = mul(t3, t4)
outputs: t1 t5
)");
}

// Elsewhere it is multiplied by one more such factor.
TEST_F(ShareSums, AFactorOfAProductThatIsMultipliedElsewhereLeavesTheSum) {
  TensorView* g = input({4, 8});
  TensorView* product = mul(input({4, 8}), ofColumns());
  EXPECT_EQ(shared({sum(mul(g, product), {0}), mul(product, ofColumns())}),
            R"(t0 float32[i4, i8] = mul(x0, x2)
t1 float32[r4, i8] = reduce add(t0)
t2 float32[i8] = mul(t1, x1)
t3 float32[b, i8] = broadcast(x1)
t4 float32[i4, i8] = mul(x2, t3)
t5 float32[b, i8] = broadcast(x3)
t6 float32[i4, i8] = mul(t4, t5)
outputs: t2 t6
)");
}

TEST_F(ShareSums, AFactorOfAProductThatIsThereAnywayStays) {
  TensorView* g = input({4, 8});
  TensorView* product = mul(input({4, 8}), ofColumns());
  EXPECT_EQ(shared({sum(mul(g, product), {0}), mul(product, input({4, 8}))}),
            R"(t0 float32[b, i8] = broadcast(x1)
t1 float32[i4, i8] = mul(x2, t0)
t2 float32[i4, i8] = mul(x0, t1)
t3 float32[r4, i8] = reduce add(t2)
t4 float32[i4, i8] = mul(t1, x3)
outputs: t3 t4
)");
}

TEST_F(ShareSums, AFactorOfAProductThatIsSummedAloneStays) {
  TensorView* product = mul(input({4, 8}), ofColumns());
  EXPECT_EQ(shared({sum(mul(input({4, 8}), product), {0})}), R"(t0 float32[b, i8] = broadcast(x0)
t1 float32[i4, i8] = mul(x1, t0)
t2 float32[i4, i8] = mul(x2, t1)
t3 float32[r4, i8] = reduce add(t2)
outputs: t3
)");
}

TEST_F(ShareSums, ProductsInAnyOrderAndWithScalars) {
  TensorView* g = input({4, 8});
  TensorView* x = input({4, 8});
  TensorView* w = ofColumns();
  TensorView* r = ofColumns();
  TensorView* first = mul(mul(mul(g, w), x), r);
  TensorView* second = mul(mul(x, constant(2.0))->as<TensorView>(), mul(r, g));
  EXPECT_EQ(shared({sum(first, {0}), sum(second, {0})}), R"(t0 float32[i4, i8] = mul(x0, x1)
t1 float32[r4, i8] = reduce add(t0)
t2 float32[i8] = mul(t1, x2)
t3 float32[i8] = mul(t2, x3)
t4 float32[i8] = mul(t1, double(2))
t5 float32[i8] = mul(t4, x3)
outputs: t3 t5
)");
}

// Alone, or with other factors, it would only be rounded differently.
TEST_F(ShareSums, NothingIsTakenOutForNothing) {
  TensorView* g = input({4, 8});
  TensorView* x = input({4, 8});
  TensorView* w = ofColumns();
  EXPECT_EQ(shared({sum(mul(g, w), {0}), sum(x, {0}), sum(g, {1})}),
            R"(t0 float32[b, i8] = broadcast(x2)
t1 float32[i4, i8] = mul(x0, t0)
t2 float32[r4, i8] = reduce add(t1)
t3 float32[r4, i8] = reduce add(x1)
t4 float32[i4, r8] = reduce add(x0)
outputs: t2 t3 t4
)");
}

// The root of a layer norm, which waits for a sum itself.
TEST_F(ShareSums, AFactorThatWaitsForAnotherReduction) {
  TensorView* g = input({4, 8});
  TensorView* x = input({4, 8});
  TensorView* root = broadcast(rsqrt(sum(mul(x, x), {1})), {false, true});
  TensorView* scale = broadcast(input({4}), {false, true});
  EXPECT_EQ(shared({sum(mul(mul(mul(g, x), root), scale), {1})}),
            R"(t0 float32[i4, i8] = mul(x0, x1)
t1 float32[i4, b] = broadcast(x2)
t2 float32[i4, i8] = mul(t0, t1)
t3 float32[i4, r8] = reduce add(t2)
t4 float32[i4, i8] = mul(x1, x1)
t5 float32[i4, r8] = reduce add(t4)
t6 float32[i4] = rsqrt(t5)
t7 float32[i4] = mul(t3, t6)
outputs: t7
)");
}

// A hand-written norm's backward pass: (x - m) / s of its deviations, which the sum of squares of
// another one are divided by too.
TEST_F(ShareSums, DivisorsLeaveSums) {
  TensorView* g = input({4, 8});
  TensorView* x = input({4, 8});
  TensorView* deviation = broadcast(input({4}), {false, true});
  TensorView* w = broadcast(input({4}), {false, true});
  TensorView* normal = div(x, deviation);
  TensorView* twice = div(normal, deviation);
  EXPECT_EQ(shared({normal, sum(mul(g, normal), {1}), sum(mul(neg(mul(g, w)), twice), {1})}),
            R"(t0 float32[i4, b] = broadcast(x2)
t1 float32[i4, i8] = div(x1, t0)
t2 float32[i4, i8] = mul(x0, x1)
t3 float32[i4, r8] = reduce add(t2)
t4 float32[i4] = div(t3, x2)
t5 float32[i4] = mul(t3, x3)
t6 float32[i4] = div(t5, x2)
t7 float32[i4] = div(t6, x2)
t8 float32[i4] = neg(t7)
outputs: t1 t4 t8
)");
}

TEST_F(ShareSums, ADivisorLeavesASumAlone) {
  TensorView* deviation = broadcast(input({4}), {false, true});
  EXPECT_EQ(shared({sum(div(input({4, 8}), deviation), {1})}),
            R"(t0 float32[i4, r8] = reduce add(x1)
t1 float32[i4] = div(t0, x0)
outputs: t1
)");
}

TEST_F(ShareSums, DivisorsThatDifferScalarsAndThoseOfOthersStay) {
  fusion_.addOutput(sum(div(input({4, 8}), input({4, 8})), {1}));
  fusion_.addOutput(sum(div(input({4, 8}), constant(3.0)), {1}));
  TensorView* quotient = div(input({4, 8}), broadcast(input({4}), {false, true}));
  fusion_.addOutput(quotient);
  fusion_.addOutput(sum(mul(quotient, input({4, 8})), {1}));
  const std::string before = text();
  shareSums(&fusion_);
  EXPECT_EQ(text(), before);
}

// ---- one element of each row that a position marks

class MarkedSums : public ShareSums {
 protected:
  // where(iota == label, -1, 0), of [4, 8].
  TensorView* marked(TensorView* label, double value = -1) {
    TensorView* column = broadcast(iota(IrBuilder::index(8)), {true, false});
    return where(eq(column, broadcast(label, {false, true})),
                 IrBuilder::create<Val>(value, DataType::Float),
                 IrBuilder::create<Val>(0.0, DataType::Float))
        ->as<TensorView>();
  }
};

TEST_F(MarkedSums, AreTheElementIfItIsInside) {
  TensorView* scale = broadcast(input({4}), {false, true});
  TensorView* terms = mul(marked(input({4}, DataType::Int)), scale);
  EXPECT_EQ(shared({sum(terms, {1})}), R"(t0 int64[i4, b] = broadcast(x1)
t1 bool[i4, b] = ge(t0, 0)
t2 bool[i4, b] = lt(t0, 8)
t3 bool[i4, b] = logical_and(t1, t2)
t4 bool[i4] = squeeze(t3)
t5 float32[i4] = where(t4, float(-1), float(0))
t6 float32[i4] = mul(t5, x0)
t7 float32[i4] = add(t6, float(0))
outputs: t7
)");
}

TEST_F(MarkedSums, OtherDimensionsAreSummed) {
  TensorView* scale = broadcast(input({4}), {false, true});
  TensorView* terms = mul(scale, marked(input({4}, DataType::Int), 2));
  EXPECT_EQ(shared({sum(terms, {0, 1})}), R"(t0 int64[i4, b] = broadcast(x1)
t1 bool[i4, b] = ge(t0, 0)
t2 bool[i4, b] = lt(t0, 8)
t3 bool[i4, b] = logical_and(t1, t2)
t4 bool[i4] = squeeze(t3)
t5 float32[i4] = where(t4, float(2), float(0))
t6 float32[i4] = mul(t5, x0)
t7 float32[r4] = reduce add(t6)
t8 float32[] = add(t7, float(0))
outputs: t8
)");
}

TEST_F(MarkedSums, NotOfFactorsThatDifferWithinARow) {
  TensorView* terms = mul(marked(input({4}, DataType::Int)), input({4, 8}));
  fusion_.addOutput(sum(terms, {1}));
  const std::string before = text();
  shareSums(&fusion_);
  EXPECT_EQ(text(), before);
}

TEST_F(MarkedSums, NotAlongOtherDimensions) {
  fusion_.addOutput(sum(marked(input({4}, DataType::Int)), {0}));
  const std::string before = text();
  shareSums(&fusion_);
  EXPECT_EQ(text(), before);
}

} // namespace nvfuser::test
