// SPDX-License-Identifier: BSD-3-Clause
// Outputs that are copies with an order in memory of their own.
#include "preseg_for_test.h"

namespace nvfuser::test {

class ComputeIntoOutputs : public PresegTest {
 protected:
  static TensorView* reordered(TensorView* tv) {
    TensorView* copy = set(tv);
    copy->setAllocationDomain({copy->axis(1), copy->axis(0)}, true);
    return copy;
  }
};

TEST_F(ComputeIntoOutputs, OthersReadTheOutput) {
  TensorView* y = exp(input({4, 8}));
  TensorView* output = reordered(y);
  fusion_.addOutput(output);
  fusion_.addOutput(sum(y, {0}));
  computeIntoOutputs(&fusion_, {output});
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] @ [i8, i4] = exp(x0)
t1 float32[r4, i8] = reduce add(t0)
outputs: t0 t1
)");
}

TEST_F(ComputeIntoOutputs, InputsOutputsAndSumsAreCopied) {
  TensorView* x = input({4, 8});
  TensorView* y = exp(x);
  TensorView* z = sum(input({4, 8, 2}), {2});
  std::vector<TensorView*> outputs;
  for (TensorView* tv : {x, y, z}) {
    outputs.push_back(reordered(tv));
    fusion_.addOutput(outputs.back());
  }
  fusion_.addOutput(y);
  const std::string before = text();
  computeIntoOutputs(&fusion_, outputs);
  EXPECT_EQ(text(), before);
}

} // namespace nvfuser::test
