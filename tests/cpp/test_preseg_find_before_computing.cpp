// SPDX-License-Identifier: BSD-3-Clause
// What is looked up at a few positions of merged dimensions is computed of what is found there.
#include "preseg_for_test.h"

#include <preseg_passes/canonical_form.h>

namespace nvfuser::test {

class FindBeforeComputing : public PresegTest {};

TEST_F(FindBeforeComputing, RowsAndColumnsAsOnePosition) {
  TensorView* x = input({8, 16});
  TensorView* row = max(x, {1});
  TensorView* shifted = sub(x, broadcast(row, {false, true}));
  TensorView* flat = reshape(shifted, {int64_t{128}});
  fusion_.addOutput(index_select(flat, input({8}, DataType::Int), 0));
  findBeforeComputing(&fusion_);
  EXPECT_EQ(text(), R"(t0 bool[i8] = ge(x1, 0)
t1 bool[i8] = lt(x1, 128)
t2 bool[i8] = logical_and(t0, t1)
t3 float32[i128] of [i8, i16] = reshape(x0)
t4 float32[i8] = index_select(t3, x1)
t5 float32[i8, r16] = reduce maximum(x0)
t6 float32[i8, b] = broadcast(t5)
t7 float32[i8] = squeeze(t6)
t8 int64[i8] = div(x1, 16)
t9 float32[i8] = index_select(t7, t8)
t10 float32[i8] = sub(t4, t9)
t11 float32[i8] = where(t2, t10, float(0))
outputs: t11
)");
}

TEST_F(FindBeforeComputing, CastsAndCopiesOfZeroAreZero) {
  TensorView* x = input({4, 8, 16, 2}, DataType::BFloat16);
  TensorView* flat = reshape(castOp(DataType::Float, x), {int64_t{4}, int64_t{128}, int64_t{2}});
  fusion_.addOutput(index_select(flat, input({3}, DataType::Int32), 1));
  findBeforeComputing(&fusion_);
  EXPECT_EQ(text(), R"(t0 bfloat16[i4, i128, i2] of [i4, i8, i16, i2] = reshape(x0)
t1 bfloat16[i4, i3, i2] = index_select(t0, x1)
t2 float32[i4, i3, i2] = cast(t1)
outputs: t2
)");
}

TEST_F(FindBeforeComputing, AnOperandInTheMiddleKeepsWhatCountsItsDimensions) {
  TensorView* x = input({4, 8, 16});
  TensorView* scale = input({8});
  TensorView* one = input({});
  TensorView* scaled = mul(x, broadcast(scale, {true, false, true}));
  scaled = add(scaled, broadcast(one, {true, true, true}));
  fusion_.addOutput(index_select(reshape(scaled, {int64_t{512}}), input({5}, DataType::Int), 0));
  findBeforeComputing(&fusion_);
  EXPECT_EQ(text(), R"(t0 bool[i5] = ge(x3, 0)
t1 bool[i5] = lt(x3, 512)
t2 bool[i5] = logical_and(t0, t1)
t3 float32[i512] of [i4, i8, i16] = reshape(x0)
t4 float32[i5] = index_select(t3, x3)
t5 float32[b, i8, b] = broadcast(x1)
t6 float32[i8] = squeeze(t5)
t7 int64[i5] = div(x3, 16)
t8 int64[i5] = mod(t7, 8)
t9 float32[i5] = index_select(t6, t8)
t10 float32[i5] = mul(t4, t9)
t11 float32[b, b, b] = broadcast(x2)
t12 float32[b] = squeeze(t11)
t13 float32[i5] = add(t10, t12)
t14 float32[i5] = where(t2, t13, float(0))
outputs: t14
)");
}

TEST_F(FindBeforeComputing, ManyPositionsReadATable) {
  TensorView* x = exp(input({8, 16}));
  fusion_.addOutput(index_select(reshape(x, {int64_t{128}}), input({33}, DataType::Int), 0));
  const std::string before = text();
  findBeforeComputing(&fusion_);
  EXPECT_EQ(text(), before);
}

TEST_F(FindBeforeComputing, WhatIsReducedIsATable) {
  TensorView* x = sum(input({8, 16, 4}), {2});
  fusion_.addOutput(index_select(reshape(x, {int64_t{128}}), input({8}, DataType::Int), 0));
  const std::string before = text();
  findBeforeComputing(&fusion_);
  EXPECT_EQ(text(), before);
}

} // namespace nvfuser::test
