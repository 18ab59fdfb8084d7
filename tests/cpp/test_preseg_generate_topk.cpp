// SPDX-License-Identifier: BSD-3-Clause
// The largest elements of short rows are maxima of keys.
#include "preseg_for_test.h"

#include <preseg_passes/generate_topk.h>

namespace nvfuser::test {

class GenerateTopK : public PresegTest {
 protected:
  // Both results, or those that are asked for.
  void define(TensorView* in, int64_t k, bool largest = true, bool values = true,
              bool indices = true) {
    const TopKResult result = topk(in, constant(k), 1, largest, true);
    if (values) {
      fusion_.addOutput(result.values);
    }
    if (indices) {
      fusion_.addOutput(result.indices);
    }
  }
};

TEST_F(GenerateTopK, TwoOfARowOfIntegers) {
  define(input({4, 8}, DataType::Int32), 2);
  generateTopK(&fusion_, 1);
  EXPECT_EQ(text(), R"(t0 int64[i2] = iota(2, 0, 1)
t1 int64[b, i2] = broadcast(t0)
t2 bool[b, i2] = eq(t1, 0)
t3 int64[i4, i8] = cast(x0)
t4 int64[i4, i8] = mul(t3, 4294967296)
t5 int64[i8] = iota(8, 2147483647, -1)
t6 int64[b, i8] = broadcast(t5)
t7 int64[i4, i8] = add(t4, t6)
t8 int64[i4, r8] = reduce maximum(t7)
t9 int64[i4, b] = broadcast(t8)
t10 int64[i4, b] = broadcast(t8)
t11 bool[i4, i8] = lt(t7, t10)
t12 int64[i4, i8] = where(t11, t7, -9223372036854775808)
t13 int64[i4, r8] = reduce maximum(t12)
t14 int64[i4, b] = broadcast(t13)
t15 int64[i4, i2] = where(t2, t9, t14)
t16 int64[i4, i2] = bitwise_right_shift(t15, 32)
t17 int32[i4, i2] = cast(t16)
t18 int64[i4, i2] = bitwise_and(t15, 2147483647)
t19 int64[i4, i2] = sub(2147483647, t18)
outputs: t17 t19
)");
}

TEST_F(GenerateTopK, ThePositionOfTheSmallestFloat) {
  define(input({4, 8}), 1, /*largest=*/false, /*values=*/false);
  generateTopK(&fusion_, 1);
  EXPECT_EQ(text(), R"(t0 bool[i4, i8] = isnan(x0)
t1 int32[i4, i8] = bitcast(x0)
t2 int32[i4, i8] = bitwise_right_shift(t1, 31)
t3 int32[i4, i8] = bitwise_and(t2, 2147483647)
t4 int32[i4, i8] = bitwise_xor(t1, t3)
t5 int32[i4, i8] = where(t0, 2143289344, t4)
t6 int32[i4, i8] = bitwise_not(t5)
t7 int64[i4, i8] = cast(t6)
t8 int64[i4, i8] = mul(t7, 4294967296)
t9 int64[i8] = iota(8, 2147483647, -1)
t10 int64[b, i8] = broadcast(t9)
t11 int64[i4, i8] = add(t8, t10)
t12 int64[i4, r8] = reduce maximum(t11)
t13 int64[i4, b] = broadcast(t12)
t14 int64[i4, b] = bitwise_and(t13, 2147483647)
t15 int64[i4, b] = sub(2147483647, t14)
outputs: t15
)");
}

TEST_F(GenerateTopK, ElementsOfSixteenBitsAreOrderedAsFloats) {
  define(input({4, 8}, DataType::Half), 1, /*largest=*/true, /*values=*/true, /*indices=*/false);
  generateTopK(&fusion_, 1);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = cast(x0)
t1 bool[i4, i8] = isnan(t0)
t2 int32[i4, i8] = bitcast(t0)
t3 int32[i4, i8] = bitwise_right_shift(t2, 31)
t4 int32[i4, i8] = bitwise_and(t3, 2147483647)
t5 int32[i4, i8] = bitwise_xor(t2, t4)
t6 int32[i4, i8] = where(t1, 2143289344, t5)
t7 int64[i4, i8] = cast(t6)
t8 int64[i4, i8] = mul(t7, 4294967296)
t9 int64[i8] = iota(8, 2147483647, -1)
t10 int64[b, i8] = broadcast(t9)
t11 int64[i4, i8] = add(t8, t10)
t12 int64[i4, r8] = reduce maximum(t11)
t13 int64[i4, b] = broadcast(t12)
t14 int64[i4, b] = bitwise_right_shift(t13, 32)
t15 int32[i4, b] = cast(t14)
t16 int32[i4, b] = bitwise_right_shift(t15, 31)
t17 int32[i4, b] = bitwise_and(t16, 2147483647)
t18 int32[i4, b] = bitwise_xor(t15, t17)
t19 float32[i4, b] = bitcast(t18)
t20 float16[i4, b] = cast(t19)
outputs: t20
)");
}

TEST_F(GenerateTopK, WhatIsNotAskedForStays) {
  TensorView* x = input({4, 8});
  define(x, 2);
  define(x, 3);
  ASSERT_EQ(generatableTopKs(&fusion_).size(), 2);
  generateTopK(&fusion_, 0b10);
  ASSERT_EQ(generatableTopKs(&fusion_).size(), 1);
  EXPECT_EQ(generatableTopKs(&fusion_).front()->input(1)->toInlineString(), "2");
}

TEST_F(GenerateTopK, WhatNoKeyHoldsOrNoKernelMakesStays) {
  define(input({4, 8}, DataType::Double), 2);
  define(input({4, 8}, DataType::Int), 2);
  define(input({4, 1}), 1);
  define(reshape(input({4, 4}), {2, 8}), 2);
  define(input({4, 16}), 9);
  define(input({4, 16}), 0);
  const TopKResult of_call = topk(input({4, 8}), scalarInput(DataType::Int), 1, true, true);
  fusion_.addOutput(of_call.values);
  const TopKResult of_one = topk(input({}), constant(int64_t{1}), 0, true, true);
  fusion_.addOutput(of_one.values);
  EXPECT_TRUE(generatableTopKs(&fusion_).empty());
}

} // namespace nvfuser::test
