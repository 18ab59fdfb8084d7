// SPDX-License-Identifier: BSD-3-Clause
// Parts of what is computed element by element are computed of parts of inputs.
#include "preseg_for_test.h"

namespace nvfuser::test {

class SliceInputs : public PresegTest {
 protected:
  static TensorView* firstColumns(TensorView* tv, int64_t count) {
    return slice(tv, std::vector<int64_t>{0, 0}, std::vector<int64_t>{4, count});
  }
  static TensorView* repeated(TensorView* tv, int64_t times, int64_t columns) {
    const std::vector<Val*> shape = {IrBuilder::index(4), IrBuilder::index(times),
                                     IrBuilder::index(columns)};
    return reshape(expand(broadcast(tv, {false, true, false}), shape), {4, times * columns});
  }
};

TEST_F(SliceInputs, AHalfOfANormalizedRowIsMadeOfAHalfOfTheRow) {
  TensorView* x = input({4, 8});
  TensorView* w = input({8});
  TensorView* scale = broadcast(rsqrt(sum(mul(x, x), {1})), {false, true});
  TensorView* y = mul(mul(x, scale), broadcast(w, {true, false}));
  fusion_.addOutput(pad(firstColumns(y, 4), std::vector<int64_t>{4, 0}));
  sliceInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i4] of [i4, i8] = slice(x0)
t1 float32[i4, i8] = mul(x0, x0)
t2 float32[i4, r8] = reduce add(t1)
t3 float32[i4] = rsqrt(t2)
t4 float32[i4, b] = broadcast(t3)
t5 float32[i4, i4] = mul(t0, t4)
t6 float32[i4] of [i8] = slice(x1)
t7 float32[b, i4] = broadcast(t6)
t8 float32[i4, i4] = mul(t5, t7)
t9 float32[i4, i8] of [i4, i4] = pad(t8, float(0))
outputs: t9
)");
}

TEST_F(SliceInputs, APartOfAPermutationIsOneOfOtherDimensions) {
  TensorView* x = input({8, 4});
  fusion_.addOutput(sum(firstColumns(transpose(exp(x), 0, 1), 3), {1}));
  sliceInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i3, i4] of [i8, i4] = slice(x0)
t1 float32[i3, i4] = exp(t0)
t2 float32[i4, i3] of [i3, i4] = Set(t1)
t3 float32[i4, r3] = reduce add(t2)
outputs: t3
)");
}

TEST_F(SliceInputs, APartOfWhatIsMadeOfPartsIsMadeOfSmallerOnes) {
  TensorView* x = input({4, 16});
  TensorView* gate = slice(x, std::vector<int64_t>{0, 8}, std::vector<int64_t>{4, 16});
  TensorView* y = mul(firstColumns(x, 8), sigmoid(gate));
  TensorView* half = slice(y, std::vector<int64_t>{0, 4}, std::vector<int64_t>{4, 8});
  fusion_.addOutput(transpose(half, 0, 1));
  fusion_.addOutput(transpose(firstColumns(y, 4), 0, 1));
  sliceInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i4] of [i4, i16] = slice(x0)
t1 float32[i4, i4] of [i4, i16] = slice(x0)
t2 float32[i4, i4] = sigmoid(t1)
t3 float32[i4, i4] = mul(t0, t2)
t4 float32[i4, i4] of [i4, i4] = Set(t3)
t5 float32[i4, i4] of [i4, i16] = slice(x0)
t6 float32[i4, i4] of [i4, i16] = slice(x0)
t7 float32[i4, i4] = sigmoid(t6)
t8 float32[i4, i4] = mul(t5, t7)
t9 float32[i4, i4] of [i4, i4] = Set(t8)
outputs: t4 t9
)");
}

TEST_F(SliceInputs, AChainOfSlicesStays) {
  TensorView* y = exp(firstColumns(input({4, 16}), 8));
  fusion_.addOutput(exp(firstColumns(y, 4)));
  const std::string before = text();
  sliceInputs(&fusion_);
  EXPECT_EQ(text(), before);
}

TEST_F(SliceInputs, APartOfAConstantIsASmallerOne) {
  TensorView* x = input({4, 3});
  TensorView* zeros = full({IrBuilder::index(4), IrBuilder::index(8)}, IrBuilder::create<Val>(0.0),
                           DataType::Float);
  fusion_.addOutput(sum(add(x, firstColumns(zeros, 3)), {1}));
  sliceInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i3] = full(float(0))
t1 float32[i4, i3] = add(x0, t0)
t2 float32[i4, r3] = reduce add(t1)
outputs: t2
)");
}

TEST_F(SliceInputs, APartOfACountCountsFromAnotherNumberOn) {
  TensorView* x = input({4, 6});
  Val* number = IrBuilder::create<Val>(int64_t{8});
  TensorView* count = iota(number, IrBuilder::create<Val>(int64_t{-3}),
                           IrBuilder::create<Val>(int64_t{2}), DataType::Int);
  TensorView* knots = expand(broadcast(castOp(DataType::Float, count), {true, false}),
                             {IrBuilder::create<Val>(int64_t{4}), number});
  TensorView* from_second = slice(knots, std::vector<int64_t>{0, 1}, std::vector<int64_t>{4, 7});
  fusion_.addOutput(sub(x, from_second));
  sliceInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 int64[i6] = iota(6, -1, 2)
t1 float32[i6] = cast(t0)
t2 float32[b, i6] = broadcast(t1)
t3 float32[b4, i6] = expand(t2)
t4 float32[i4, i6] = sub(x0, t3)
outputs: t4
)");
}

// Of what is repeated, one of the repetitions is what it was.
TEST_F(SliceInputs, APartOfRepetitionsIsWhatIsRepeated) {
  TensorView* x = input({4, 3});
  TensorView* y = mul(input({4, 6}), repeated(exp(x), 2, 3));
  TensorView* second = slice(y, std::vector<int64_t>{0, 3}, std::vector<int64_t>{4, 6});
  fusion_.addOutput(add(firstColumns(y, 3), second));
  sliceInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i3] of [i4, i6] = slice(x1)
t1 float32[i4, i3] = exp(x0)
t2 float32[i4, i3] = mul(t0, t1)
t3 float32[i4, i3] of [i4, i6] = slice(x1)
t4 float32[i4, i3] = mul(t3, t1)
t5 float32[i4, i3] = add(t2, t4)
outputs: t5
)");
}

// Two of three repetitions, and parts of one, stay.
TEST_F(SliceInputs, OtherPartsOfRepetitionsStay) {
  TensorView* x = input({4, 2});
  TensorView* three = repeated(exp(x), 3, 2);
  fusion_.addOutput(exp(firstColumns(three, 4)));
  fusion_.addOutput(exp(firstColumns(three, 1)));
  const std::string before = text();
  sliceInputs(&fusion_);
  EXPECT_EQ(text(), before);
}

TEST_F(SliceInputs, PartsOfPartsAreSharedByThoseThatOverlap) {
  TensorView* x = input({4, 8});
  const auto columns = [](TensorView* tv, int64_t start, int64_t stop) {
    return slice(tv, std::vector<int64_t>{0, start}, std::vector<int64_t>{4, stop});
  };
  TensorView* first = exp(x);
  TensorView* second = mul(columns(first, 0, 7), columns(first, 1, 8));
  fusion_.addOutput(add(columns(second, 0, 6), columns(second, 1, 7)));
  sliceInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i6] of [i4, i8] = slice(x0)
t1 float32[i4, i6] = exp(t0)
t2 float32[i4, i6] of [i4, i8] = slice(x0)
t3 float32[i4, i6] = exp(t2)
t4 float32[i4, i6] = mul(t1, t3)
t5 float32[i4, i6] of [i4, i8] = slice(x0)
t6 float32[i4, i6] = exp(t5)
t7 float32[i4, i6] = mul(t3, t6)
t8 float32[i4, i6] = add(t4, t7)
outputs: t8
)");
}

TEST_F(SliceInputs, WhatIsReturnedBesideItsPartsIsMadeOfThem) {
  TensorView* y = exp(input({4, 8}));
  TensorView* half = slice(y, std::vector<int64_t>{0, 4}, std::vector<int64_t>{4, 8});
  fusion_.addOutput(y);
  fusion_.addOutput(mul(firstColumns(y, 4), sin(half)));
  TensorView* z = cos(input({4, 8})); // its parts are not all of it
  fusion_.addOutput(z);
  fusion_.addOutput(neg(firstColumns(z, 4)));
  sliceInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i4] of [i4, i8] = slice(x0)
t1 float32[i4, i4] = exp(t0)
t2 float32[i4, i8] of [i4, i4] = pad(t1, float(0))
t3 float32[i4, i4] of [i4, i8] = slice(x0)
t4 float32[i4, i4] = exp(t3)
t5 float32[i4, i8] of [i4, i4] = pad(t4, float(0))
t6 float32[i4, i8] = cat(t2, t5)
t7 float32[i4, i4] = sin(t4)
t8 float32[i4, i4] = mul(t1, t7)
t9 float32[i4, i8] = cos(x1)
t10 float32[i4, i4] of [i4, i8] = slice(x1)
t11 float32[i4, i4] = cos(t10)
t12 float32[i4, i4] = neg(t11)
outputs: t6 t8 t9 t12
)");
}

TEST_F(SliceInputs, APartOfSumsStays) {
  TensorView* x = input({4, 8, 2});
  fusion_.addOutput(exp(firstColumns(exp(sum(x, {2})), 4)));
  const std::string before = text();
  sliceInputs(&fusion_);
  EXPECT_EQ(text(), before);
}

TEST_F(SliceInputs, WithoutReductionsToo) {
  TensorView* x = input({4, 8});
  fusion_.addOutput(exp(firstColumns(exp(x), 4)));
  sliceInputs(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i4] of [i4, i8] = slice(x0)
t1 float32[i4, i4] = exp(t0)
t2 float32[i4, i4] = exp(t1)
outputs: t2
)");
}

} // namespace nvfuser::test
