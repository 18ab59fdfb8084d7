// SPDX-License-Identifier: BSD-3-Clause
// Parts that a reshape gives a dimension of their own are stacked.
#include "preseg_for_test.h"

#include <preseg_passes/canonical_form.h>

namespace nvfuser::test {

class StackParts : public PresegTest {
 protected:
  void expectUnchanged() {
    const std::string before = text();
    stackParts(&fusion_);
    EXPECT_EQ(text(), before);
  }
};

TEST_F(StackParts, EachIsAnElementOfTheNewDimension) {
  TensorView* joined = cat({input({4, 3}), exp(input({4, 3}))}, 1);
  fusion_.addOutput(neg(reshape(joined, {4, 2, 3})));
  stackParts(&fusion_);
  fusion_.removeDeadUses();
  EXPECT_EQ(text(), R"(t0 float32[i4, b, i3] = broadcast(x0)
t1 float32[i4, i2, i3] of [i4, b, i3] = pad(t0, float(0))
t2 float32[i4, i3] = exp(x1)
t3 float32[i4, b, i3] = broadcast(t2)
t4 float32[i4, i2, i3] of [i4, b, i3] = pad(t3, float(0))
t5 float32[i4, i2, i3] = cat(t1, t4)
t6 float32[i4, i2, i3] = neg(t5)
outputs: t6
)");
}

TEST_F(StackParts, AlongTheFirstDimension) {
  TensorView* joined = cat({input({3}), input({3}), input({3})}, 0);
  fusion_.addOutput(sum(reshape(joined, {3, 3}), {0}));
  stackParts(&fusion_);
  fusion_.removeDeadUses();
  EXPECT_EQ(text(), R"(t0 float32[b, i3] = broadcast(x0)
t1 float32[i3, i3] of [b, i3] = pad(t0, float(0))
t2 float32[b, i3] = broadcast(x1)
t3 float32[i3, i3] of [b, i3] = pad(t2, float(0))
t4 float32[b, i3] = broadcast(x2)
t5 float32[i3, i3] of [b, i3] = pad(t4, float(0))
t6 float32[i3, i3] = cat(t1, t3, t5)
t7 float32[r3, i3] = reduce add(t6)
outputs: t7
)");
}

TEST_F(StackParts, PartsOfSeveralElementsStay) {
  fusion_.addOutput(neg(reshape(cat({input({4, 3}), input({4, 3})}, 1), {4, 3, 2})));
  fusion_.addOutput(neg(reshape(cat({input({4, 2}), input({4, 4})}, 1), {4, 2, 3})));
  fusion_.addOutput(neg(reshape(cat({input({4, 3}), input({4, 3})}, 1), {2, 2, 2, 3})));
  fusion_.addOutput(neg(reshape(cat({input({4, 3}), input({4, 3})}, 1), {4, 6, 1})));
  expectUnchanged();
}

TEST_F(StackParts, WhatIsReturnedIsWrittenPartByPartEitherWay) {
  fusion_.addOutput(reshape(cat({input({4, 3}), input({4, 3})}, 1), {4, 2, 3}));
  expectUnchanged();
}

} // namespace nvfuser::test
