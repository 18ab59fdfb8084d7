// SPDX-License-Identifier: BSD-3-Clause
// Products of 16-bit matrices are made of larger ones where a library is slow for their sizes.
#include "preseg_for_test.h"

#include <preseg_passes/passes.h>

namespace nvfuser::test {

class PadProducts : public PresegTest {
 protected:
  TensorView* bf16(const std::vector<int64_t>& shape) {
    return input(shape, DataType::BFloat16);
  }
  void padAll() {
    padProducts(&fusion_, MachineModel());
  }
  void expectNone() {
    const std::string before = text();
    padAll();
    EXPECT_EQ(text(), before);
  }
};

TEST_F(PadProducts, OperandsGetZerosAndTheResultIsAPart) {
  TensorView* x = bf16({2000, 1024});
  TensorView* w = bf16({1024, 1001});
  fusion_.addOutput(relu(matmul(relu(x), relu(w))));
  padAll();
  EXPECT_EQ(text(), R"(t0 bfloat16[i2000, i1024] = relu(x0)
t1 bfloat16[i1024, i1001] = relu(x1)
t2 bfloat16[i1024, i1008] of [i1024, i1001] = pad(t1, __bfloat(0))
t3 bfloat16[i2000, i1008] = matmul(t0, t2)
t4 bfloat16[i2000, i1001] of [i2000, i1008] = slice(t3)
t5 bfloat16[i2000, i1001] = relu(t4)
outputs: t5
)");
}

TEST_F(PadProducts, SumsTakeZerosInBothOperands) {
  TensorView* x = bf16({2000, 1001});
  TensorView* w = bf16({1001, 1024});
  fusion_.addOutput(matmul(relu(x), relu(w)));
  padAll();
  EXPECT_EQ(text(), R"(t0 bfloat16[i2000, i1001] = relu(x0)
t1 bfloat16[i2000, i1008] of [i2000, i1001] = pad(t0, __bfloat(0))
t2 bfloat16[i1001, i1024] = relu(x1)
t3 bfloat16[i1008, i1024] of [i1001, i1024] = pad(t2, __bfloat(0))
t4 bfloat16[i2000, i1024] = matmul(t1, t3)
outputs: t4
)");
}

TEST_F(PadProducts, ZerosLieInTheMemoryOrderOfAnOperand) {
  TensorView* x = bf16({64, 1001, 64});
  TensorView* y = bf16({64, 1001, 64});
  TensorView* scores = matmul(relu(x), permute(relu(y), {0, 2, 1}));
  fusion_.addOutput(relu(scores));
  padAll();
  EXPECT_EQ(text(), R"(t0 bfloat16[i64, i1001, i64] = relu(x0)
t1 bfloat16[i64, i1001, i64] = relu(x1)
t2 bfloat16[i64, i1008, i64] of [i64, i1001, i64] = pad(t1, __bfloat(0))
t3 bfloat16[i64, i64, i1008] of [i64, i1008, i64] = Set(t2)
t4 bfloat16[i64, i1001, i1008] = matmul(t0, t3)
t5 bfloat16[i64, i1001, i1001] of [i64, i1001, i1008] = slice(t4)
t6 bfloat16[i64, i1001, i1001] = relu(t5)
outputs: t6
)");
}

TEST_F(PadProducts, WhatIsComputedWithReductionsIsJoinedWithZeros) {
  TensorView* x = bf16({64, 1001, 1001});
  TensorView* y = bf16({64, 1001, 64});
  TensorView* sums = broadcast(sum(x, {2}), {false, false, true});
  fusion_.addOutput(matmul(castOp(DataType::BFloat16, mul(x, sums)), relu(y)));
  padAll();
  EXPECT_EQ(text(), R"(t0 float32[i64, i1001, i1001] = cast(x0)
t1 float32[i64, i1001, i1001] = cast(x0)
t2 float32[i64, i1001, r1001] = reduce add(t1)
t3 bfloat16[i64, i1001] = cast(t2)
t4 bfloat16[i64, i1001, b] = broadcast(t3)
t5 float32[i64, i1001, b] = cast(t4)
t6 float32[i64, i1001, i1001] = mul(t0, t5)
t7 bfloat16[i64, i1001, i1001] = cast(t6)
t8 bfloat16[i64, i1001, i1008] of [i64, i1001, i1001] = pad(t7, __bfloat(0))
t9 bfloat16[i64, i1001, i7] = full(__bfloat(0))
t10 bfloat16[i64, i1001, i1008] of [i64, i1001, i7] = pad(t9, __bfloat(0))
t11 bfloat16[i64, i1001, i1008] = cat(t8, t10)
t12 bfloat16[i64, i1001, i64] = relu(x1)
t13 bfloat16[i64, i1008, i64] of [i64, i1001, i64] = pad(t12, __bfloat(0))
t14 bfloat16[i64, i1001, i64] = matmul(t11, t13)
outputs: t14
)");
}

TEST_F(PadProducts, ABiasIsAsWideAsTheResult) {
  TensorView* x = bf16({2000, 1024});
  TensorView* w = bf16({1001, 1024});
  TensorView* bias = bf16({1001});
  fusion_.addOutput(relu(linear(x, relu(w), bias)));
  padAll();
  EXPECT_EQ(text(), R"(t0 bfloat16[i1001, i1024] = relu(x1)
t1 bfloat16[i1008, i1024] of [i1001, i1024] = pad(t0, __bfloat(0))
t2 bfloat16[i1008] of [i1001] = pad(x2, __bfloat(0))
t3 bfloat16[i2000, i1008] = linear(x0, t1, t2)
t4 bfloat16[i2000, i1001] of [i2000, i1008] = slice(t3)
t5 bfloat16[i2000, i1001] = relu(t4)
outputs: t5
)");
}

TEST_F(PadProducts, NotIfCopiesTakeLonger) {
  fusion_.addOutput(relu(matmul(bf16({64, 33}), bf16({33, 64}))));
  expectNone();
}

TEST_F(PadProducts, NotIfRowsAreWholeVectors) {
  fusion_.addOutput(relu(matmul(relu(bf16({2001, 1000})), relu(bf16({1000, 1000})))));
  expectNone();
}

TEST_F(PadProducts, NotOfOtherTypesOrOpenSizes) {
  TensorView* x = input({2000, 1001});
  TensorView* w = input({1001, 1001});
  fusion_.addOutput(relu(matmul(relu(x), relu(w))));
  TensorView* open = bf16({-1, -1});
  fusion_.addOutput(relu(matmul(relu(open), relu(open))));
  expectNone();
}

} // namespace nvfuser::test
