// SPDX-License-Identifier: BSD-3-Clause
// Kernels that read a linear layer of float32 add its bias.
#include "preseg_for_test.h"

#include <preseg_passes/passes.h>

namespace nvfuser::test {

class SeparateBias : public PresegTest {
 protected:
  TensorView* layer(DataType dtype = DataType::Float) {
    return linear(input({64, 32}, dtype), input({16, 32}, dtype), input({16}, dtype));
  }
  void expectNone() {
    const std::string before = text();
    separateBias(&fusion_);
    EXPECT_EQ(text(), before);
  }
};

TEST_F(SeparateBias, AKernelAddsIt) {
  fusion_.addOutput(relu(layer()));
  separateBias(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i64, i16] = linear(x2, x1)
t1 float32[b, i16] = broadcast(x0)
t2 float32[i64, i16] = add(t0, t1)
t3 float32[i64, i16] = relu(t2)
outputs: t3
)");
}

TEST_F(SeparateBias, NotIfTheResultIsReturned) {
  TensorView* out = layer();
  fusion_.addOutput(relu(out));
  fusion_.addOutput(out);
  expectNone();
}

TEST_F(SeparateBias, NotIfAViewOfItIsReturned) {
  TensorView* out = layer();
  fusion_.addOutput(relu(out));
  fusion_.addOutput(reshape(out, {64, 4, 4}));
  expectNone();
}

TEST_F(SeparateBias, NotIfALibraryReadsIt) {
  fusion_.addOutput(relu(linear(layer(), input({8, 16}))));
  expectNone();
}

TEST_F(SeparateBias, NotOfNarrowTypes) {
  fusion_.addOutput(relu(layer(DataType::BFloat16)));
  expectNone();
}

} // namespace nvfuser::test
