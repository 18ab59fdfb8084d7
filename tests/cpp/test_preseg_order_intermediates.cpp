// SPDX-License-Identifier: BSD-3-Clause
// What is computed has the order in memory of what it is computed of.
#include "preseg_for_test.h"

namespace nvfuser::test {

class OrderIntermediates : public PresegTest {
 protected:
  TensorView* channelsLast() {
    TensorView* x = input({4, 8, 5});
    x->setAllocationDomain({x->axis(0), x->axis(2), x->axis(1)}, true);
    return x;
  }
};

TEST_F(OrderIntermediates, TheFirstOperandWithAllElementsDecides) {
  TensorView* last = channelsLast();
  TensorView* row = broadcast(input({5}), {true, true, false});
  TensorView* a = mul(row, last);
  TensorView* b = add(input({4, 8, 5}), a);
  fusion_.addOutput(sum(add(exp(a), b), {1}));
  orderIntermediates(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[b, b, i5] = broadcast(x1)
t1 float32[i4, i8, i5] @ [i4, i5, i8] = mul(t0, x0)
t2 float32[i4, i8, i5] @ [i4, i5, i8] = exp(t1)
t3 float32[i4, i8, i5] = add(x2, t1)
t4 float32[i4, i8, i5] @ [i4, i5, i8] = add(t2, t3)
t5 float32[i4, r8, i5] = reduce add(t4)
outputs: t5
)");
}

// A kernel writes them as it computes them.
TEST_F(OrderIntermediates, PermutedOnesLieAsBefore) {
  TensorView* columns = permute(exp(input({8, 5})), {1, 0});
  fusion_.addOutput(sum(neg(columns), {1}));
  orderIntermediates(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i8, i5] = exp(x0)
t1 float32[i5, i8] of [i8, i5] @ [i8, i5] = Set(t0)
t2 float32[i5, i8] @ [i8, i5] = neg(t1)
t3 float32[i5, r8] = reduce add(t2)
outputs: t3
)");
}

TEST_F(OrderIntermediates, PermutedOnesThatMeetAnInputOfTheirOrderStay) {
  TensorView* columns = permute(exp(input({8, 5})), {1, 0});
  fusion_.addOutput(sum(mul(neg(columns), input({5, 8})), {1}));
  const std::string before = text();
  orderIntermediates(&fusion_);
  EXPECT_EQ(text(), before);
}

// A part of an input, and what is computed of it, lie as it does.
TEST_F(OrderIntermediates, PermutedOnesThatMeetPartsOfSuchAnInputStay) {
  TensorView* columns = permute(exp(input({8, 5})), {1, 0});
  TensorView* part = slice(input({5, 16}), {0, 8}, {5, 16});
  TensorView* scale = broadcast(input({8}), {true, false});
  fusion_.addOutput(sum(mul(neg(columns), sub(mul(scale, sin(part)), scale)), {1}));
  const std::string before = text();
  orderIntermediates(&fusion_);
  EXPECT_EQ(text(), before);
}

TEST_F(OrderIntermediates, PermutedOnesThatGetDimensionsAfterACastStay) {
  TensorView* columns = permute(exp(input({8, 6})), {1, 0});
  TensorView* each = broadcast(neg(columns), {true, false, false});
  fusion_.addOutput(sum(mul(each, input({3, 6, 8})), {2}));
  const std::string before = text();
  orderIntermediates(&fusion_);
  EXPECT_EQ(text(), before);
}

TEST_F(OrderIntermediates, PermutedOnesThatAreReshapedStay) {
  TensorView* columns = permute(exp(input({8, 6})), {1, 0});
  fusion_.addOutput(sum(reshape(columns, std::vector<int64_t>{2, 3, 8}), {1}));
  const std::string before = text();
  orderIntermediates(&fusion_);
  EXPECT_EQ(text(), before);
}

// A library reads it as another tensor, whose dimensions it has.
TEST_F(OrderIntermediates, WhatIsSeenInMemoryStays) {
  TensorView* heads = permute(exp(input({4, 8, 6})), {1, 0, 2});
  TensorView* rows = makeConcreteTensor({8, 24});
  IrBuilder::create<MemoryViewOp>(rows, heads, std::vector<Val*>());
  fusion_.addOutput(neg(rows));
  const std::string before = text();
  orderIntermediates(&fusion_);
  EXPECT_EQ(text(), before);
}

TEST_F(OrderIntermediates, OutputsStay) {
  fusion_.addOutput(neg(channelsLast()));
  const std::string before = text();
  orderIntermediates(&fusion_);
  EXPECT_EQ(text(), before);
}

} // namespace nvfuser::test
