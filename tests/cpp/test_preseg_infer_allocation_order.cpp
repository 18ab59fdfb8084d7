// SPDX-License-Identifier: BSD-3-Clause
// Outputs take over the memory order of the inputs.
#include "preseg_for_test.h"

namespace nvfuser::test {

class InferAllocationOrder : public PresegTest {
 protected:
  // Channels last.
  TensorView* imageInput() {
    TensorView* tv = input({2, 3, 5});
    tv->setAllocationDomain({tv->axis(0), tv->axis(2), tv->axis(1)}, true);
    return tv;
  }
};

TEST_F(InferAllocationOrder, OutputsAreOrderedAsTheInput) {
  TensorView* out = relu(neg(imageInput()));
  fusion_.addOutput(out);
  inferAllocationOrder(&fusion_, {out});
  EXPECT_EQ(text(), R"(t0 float32[i2, i3, i5] = neg(x0)
t1 float32[i2, i3, i5] @ [i2, i5, i3] = relu(t0)
outputs: t1
)");
}

TEST_F(InferAllocationOrder, AnOrderThatSomebodyAskedForStays) {
  TensorView* out = neg(imageInput());
  out->setAllocationDomain({out->axis(2), out->axis(1), out->axis(0)}, true);
  fusion_.addOutput(out);
  inferAllocationOrder(&fusion_, {out});
  EXPECT_EQ(text(), R"(t0 float32[i2, i3, i5] @ [i5, i3, i2] = neg(x0)
outputs: t0
)");
}

TEST_F(InferAllocationOrder, OtherDimensionsHaveAnOrderOfTheirOwn) {
  TensorView* out = sum(imageInput(), {1});
  fusion_.addOutput(out);
  inferAllocationOrder(&fusion_, {out});
  EXPECT_EQ(text(), R"(t0 float32[i2, r3, i5] = reduce add(x0)
outputs: t0
)");
}

} // namespace nvfuser::test
