// SPDX-License-Identifier: BSD-3-Clause
// Lookups go before what is computed of the table element by element.
#include "preseg_for_test.h"

#include <preseg_passes/input_bits.h>

namespace nvfuser::test {

class LookUpInInputs : public PresegTest {};

TEST_F(LookUpInInputs, OneElementOfEachRowIsComputedAfterItIsFound) {
  TensorView* x = input({4, 8}, DataType::BFloat16);
  TensorView* index = input({4, 1}, DataType::Int);
  TensorView* wide = castOp(DataType::Float, x);
  fusion_.addOutput(sum(wide, {1}));
  fusion_.addOutput(take_along_axis(wide, index, 1));
  lookUpInInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = cast(x0)
t1 float32[i4, r8] = reduce add(t0)
t2 bfloat16[i4, b] = take_along_axis(x0, x1)
t3 float32[i4, b] = cast(t2)
outputs: t1 t3
)");
}

TEST_F(LookUpInInputs, WhatIsComputedOutOfBoundsIsZero) {
  TensorView* x = input({4, 8});
  TensorView* index = input({4, 1}, DataType::Int);
  fusion_.addOutput(take_along_axis(exp(x), index, 1));
  lookUpInInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 int64[i4, b] = Set(x1)
t1 bool[i4, b] = ge(t0, 0)
t2 bool[i4, b] = lt(t0, 8)
t3 bool[i4, b] = logical_and(t1, t2)
t4 float32[i4, b] = take_along_axis(x0, x1)
t5 float32[i4, b] = exp(t4)
t6 float32[i4, b] = where(t3, t5, float(0))
outputs: t6
)");
}

TEST_F(LookUpInInputs, AnOperandThatAllElementsShareIsNotLookedUp) {
  TensorView* x = input({4, 8});
  TensorView* index = input({4, 1}, DataType::Int);
  TensorView* scale = broadcast(exp(input({})), {true, true});
  fusion_.addOutput(take_along_axis(mul(x, scale), index, 1));
  lookUpInInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 int64[i4, b] = Set(x1)
t1 bool[i4, b] = ge(t0, 0)
t2 bool[i4, b] = lt(t0, 8)
t3 bool[i4, b] = logical_and(t1, t2)
t4 float32[i4, b] = take_along_axis(x0, x1)
t5 float32[] = exp(x2)
t6 float32[b, b] = broadcast(t5)
t7 float32[i4, b] = mul(t4, t6)
t8 float32[i4, b] = where(t3, t7, float(0))
outputs: t8
)");
}

TEST_F(LookUpInInputs, ATableThatIsReducedIsMadeBefore) {
  TensorView* x = input({4, 8, 2});
  TensorView* index = input({4, 1}, DataType::Int);
  fusion_.addOutput(take_along_axis(sum(x, {2}), index, 1));
  lookUpInInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8, r2] = reduce add(x0)
t1 float32[i4, b] = take_along_axis(t0, x1)
outputs: t1
)");
}

// The selection that a scatter of one element into each row is.
TEST_F(LookUpInInputs, FewerRowsThanThereAreAreComputedAfterTheyAreFound) {
  TensorView* x = input({16, 8});
  TensorView* first = input({4}, DataType::Int);
  TensorView* second = input({2, 3}, DataType::Int);
  TensorView* table = exp(x);
  fusion_.addOutput(index_select(table, first, 0));
  fusion_.addOutput(embedding_fwd(second, table));
  lookUpInInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 int64[i4] = Set(x1)
t1 bool[i4] = ge(t0, 0)
t2 bool[i4] = lt(t0, 16)
t3 bool[i4] = logical_and(t1, t2)
t4 bool[i4, b] = broadcast(t3)
t5 float32[i4, i8] = index_select(x0, x1)
t6 float32[i4, i8] = exp(t5)
t7 float32[i4, i8] = where(t4, t6, float(0))
t8 int64[i2, i3] = Set(x2)
t9 bool[i2, i3] = ge(t8, 0)
t10 bool[i2, i3] = lt(t8, 16)
t11 bool[i2, i3] = logical_and(t9, t10)
t12 bool[i2, i3, b] = broadcast(t11)
t13 float32[i2, i3, i8] = embedding_fwd(x0, x2)
t14 float32[i2, i3, i8] = exp(t13)
t15 float32[i2, i3, i8] = where(t12, t14, float(0))
outputs: t7 t15
)");
}

// What every kernel finds for itself: rows, unless they are read across.
TEST_F(LookUpInInputs, RowsThatKeepTheirOrderAreReadAsTheyAre) {
  TensorView* index = input({5, 6}, DataType::Int);
  TensorView* rows = embedding_fwd(index, input({16, 8}));
  TensorView* heads = embedding_fwd(index, input({32, 4}));
  TensorView* columns = index_select(input({8, 16}), input({4}, DataType::Int), 1);
  fusion_.addOutput(exp(rows));
  fusion_.addOutput(permute(neg(heads), {2, 0, 1}));
  fusion_.addOutput(columns);
  EXPECT_TRUE(readsWholeRows(rows->definition()));
  EXPECT_FALSE(readsWholeRows(heads->definition()));
  EXPECT_FALSE(readsWholeRows(columns->definition()));
  const InputBits bits(fusion_.exprs());
  EXPECT_TRUE(bits.areFewFor(rows->definition()));
  EXPECT_FALSE(bits.areKnownFor(heads->definition()));
}

TEST_F(LookUpInInputs, AsManyRowsAsThereAreStay) {
  TensorView* index = input({4}, DataType::Int);
  TensorView* table = exp(input({4, 8}));
  fusion_.addOutput(index_select(table, index, 0));
  // Something else needs them, and elements of columns are in sectors of their own.
  TensorView* other = exp(input({16, 8}));
  fusion_.addOutput(index_select(other, index, 0));
  fusion_.addOutput(sum(other, {0}));
  fusion_.addOutput(index_select(exp(input({8, 16})), index, 1));
  const std::string before = text();
  lookUpInInputs(&fusion_);
  EXPECT_EQ(text(), before);
}

TEST_F(LookUpInInputs, OfPositionsThePositionIsFound) {
  TensorView* x = input({4, 8});
  TensorView* label = input({4, 1}, DataType::Int);
  TensorView* index = input({4, 1}, DataType::Int);
  TensorView* positions = broadcast(iota(constant(int64_t{8})), {true, false});
  TensorView* marked = where(eq(positions, label), neg(x), x);
  fusion_.addOutput(take_along_axis(marked, index, 1));
  lookUpInInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 int64[i4, b] = Set(x2)
t1 bool[i4, b] = ge(t0, 0)
t2 bool[i4, b] = lt(t0, 8)
t3 bool[i4, b] = logical_and(t1, t2)
t4 int64[i4, b] = Set(x2)
t5 int64[i4, b] = mul(t4, 1)
t6 int64[i4, b] = add(t5, 0)
t7 bool[i4, b] = eq(t6, x1)
t8 float32[i4, b] = take_along_axis(x0, x2)
t9 float32[i4, b] = neg(t8)
t10 float32[i4, b] = where(t7, t9, t8)
t11 float32[i4, b] = where(t3, t10, float(0))
outputs: t11
)");
}

TEST_F(LookUpInInputs, InARowThatAllShareItsOwnElementIsFound) {
  TensorView* x = input({4, 8});
  TensorView* bias = exp(input({8}));
  TensorView* index = broadcast(input({4}, DataType::Int), {false, true});
  fusion_.addOutput(take_along_axis(add(x, broadcast(bias, {true, false})), index, 1));
  lookUpInInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 int64[i4, b] = broadcast(x2)
t1 int64[i4, b] = Set(t0)
t2 bool[i4, b] = ge(t1, 0)
t3 bool[i4, b] = lt(t1, 8)
t4 bool[i4, b] = logical_and(t2, t3)
t5 float32[i4, b] = take_along_axis(x0, t0)
t6 float32[i8] = exp(x1)
t7 int64[i4] = squeeze(t0)
t8 float32[i4] = index_select(t6, t7)
t9 float32[i4, b] = broadcast(t8)
t10 float32[i4, b] = add(t5, t9)
t11 float32[i4, b] = where(t4, t10, float(0))
outputs: t11
)");
}

TEST_F(LookUpInInputs, SeveralElementsOfASharedRowAreLookedUpInTheWhole) {
  TensorView* x = input({4, 8});
  TensorView* index = input({4, 3}, DataType::Int);
  TensorView* table = add(x, broadcast(input({8}), {true, false}));
  fusion_.addOutput(take_along_axis(table, index, 1));
  const std::string before = text();
  lookUpInInputs(&fusion_);
  EXPECT_EQ(text(), before);
}

// ---- sums of selections

class LookUpSelections : public PresegTest {
 protected:
  TensorView* isAt(TensorView* index) {
    return eq(broadcast(iota(constant(int64_t{8})), {true, false}), index)->as<TensorView>();
  }
  std::string lookedUp(TensorView* out) {
    fusion_.addOutput(out);
    lookUpSelections(&fusion_);
    return text();
  }
};

TEST_F(LookUpSelections, TheOneElementOfARowIsLookedUp) {
  TensorView* x = input({4, 8});
  TensorView* label = broadcast(input({4}, DataType::Int), {false, true});
  EXPECT_EQ(lookedUp(sum(where(isAt(label), exp(x), constant(0.0)), {1})),
            R"(t0 int64[i4, b] = broadcast(x1)
t1 int64[i4, b] = Set(t0)
t2 bool[i4, b] = ge(t1, 0)
t3 bool[i4, b] = lt(t1, 8)
t4 bool[i4, b] = logical_and(t2, t3)
t5 float32[i4, b] = take_along_axis(x0, t0)
t6 float32[i4, b] = exp(t5)
t7 float32[i4, b] = where(t4, t6, float(0))
t8 float32[i4] = squeeze(t7)
t9 float32[i4] = add(t8, float(0))
outputs: t9
)");
}

TEST_F(LookUpSelections, AndSummedOverRows) {
  TensorView* x = input({4, 8});
  TensorView* label = input({4, 1}, DataType::Int32);
  EXPECT_EQ(lookedUp(sum(where(isAt(label), x, constant(0.0)), {0, 1})),
            R"(t0 float32[i4, b] = take_along_axis(x0, x1)
t1 float32[i4] = squeeze(t0)
t2 float32[r4] = reduce add(t1)
t3 float32[] = add(t2, float(0))
outputs: t3
)");
}

// A lookup in what is reduced would take a kernel of its own.
TEST_F(LookUpSelections, WhatIsNotComputedOfInputsElementByElementIsCompared) {
  TensorView* x = sum(input({4, 8, 2}), {2});
  TensorView* label = input({4, 1}, DataType::Int);
  EXPECT_EQ(lookedUp(sum(where(isAt(label), x, constant(0.0)), {1})),
            R"(t0 int64[i8] = iota(8, 0, 1)
t1 int64[b, i8] = broadcast(t0)
t2 bool[i4, i8] = eq(t1, x1)
t3 float32[i4, i8, r2] = reduce add(x0)
t4 float32[i4, i8] = where(t2, t3, float(0))
t5 float32[i4, r8] = reduce add(t4)
outputs: t5
)");
}

TEST_F(LookUpSelections, OtherSelectionsStay) {
  TensorView* x = input({4, 8});
  TensorView* label = input({4, 1}, DataType::Int);
  TensorView* each = input({4, 8}, DataType::Int);
  TensorView* ones = where(isAt(label), x, constant(1.0))->as<TensorView>();
  TensorView* many = where(isAt(each), x, constant(0.0))->as<TensorView>();
  EXPECT_EQ(lookedUp(add(sum(ones, {1}), sum(many, {1}))->as<TensorView>()),
            R"(t0 int64[i8] = iota(8, 0, 1)
t1 int64[b, i8] = broadcast(t0)
t2 bool[i4, i8] = eq(t1, x1)
t3 float32[i4, i8] = where(t2, x0, float(1))
t4 float32[i4, r8] = reduce add(t3)
t5 int64[i8] = iota(8, 0, 1)
t6 int64[b, i8] = broadcast(t5)
t7 bool[i4, i8] = eq(t6, x2)
t8 float32[i4, i8] = where(t7, x0, float(0))
t9 float32[i4, r8] = reduce add(t8)
t10 float32[i4] = add(t4, t9)
outputs: t10
)");
}

TEST_F(LookUpInInputs, APermutedTableIsLookedUpInAsItWasBefore) {
  TensorView* x = input({4, 8});
  TensorView* index = input({8, 1}, DataType::Int);
  TensorView* row = broadcast(input({8}), {false, true});
  fusion_.addOutput(take_along_axis(sub(transpose(exp(x), 0, 1), row), index, 1));
  lookUpInInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 int64[i8, b] = Set(x1)
t1 bool[i8, b] = ge(t0, 0)
t2 bool[i8, b] = lt(t0, 4)
t3 bool[i8, b] = logical_and(t1, t2)
t4 int64[b, i8] of [i8, b] = Set(x1)
t5 float32[b, i8] = take_along_axis(x0, t4)
t6 float32[b, i8] = exp(t5)
t7 float32[i8, b] of [b, i8] = Set(t6)
t8 float32[i8, b] = Set(t7)
t9 float32[i8, b] = broadcast(x2)
t10 float32[i8, b] = sub(t8, t9)
t11 float32[i8, b] = where(t3, t10, float(0))
outputs: t11
)");
}

} // namespace nvfuser::test
