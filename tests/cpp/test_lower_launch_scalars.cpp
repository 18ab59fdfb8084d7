// SPDX-License-Identifier: BSD-3-Clause
// Scalars that follow from sizes, which a launch computes once rather than each thread
// (lower/launch_scalars.cpp).
#include "lowering_for_test.h"

namespace nvfuser::test {
namespace {

class LowerLaunchScalars : public LoweringTest {
 protected:
  LowerLaunchScalars() : x_(addInput(&fusion_, makeContigTensor(2))) {}

  Val* columns() const {
    return x_->axis(1)->extent();
  }

  // The parameters that a launch computes.
  std::vector<std::string> computed() {
    text();
    std::vector<std::string> out;
    for (const KernelParam& p : executor_.kernel()->params) {
      if (p.name.rfind("scalar", 0) == 0) {
        out.push_back(p.name + " = " + p.val->toInlineString());
      }
    }
    return out;
  }

  TensorView* x_;
};

TEST_F(LowerLaunchScalars, WhatElementsAreComputedWith) {
  fusion_.addOutput(div(x_, IrBuilder::castExpr(DataType::Double, columns())));
  EXPECT_EQ(computed(), (std::vector<std::string>{"scalar0 = ( (double)(i1) )"}));
}

// Two scalars that are the same are one.
TEST_F(LowerLaunchScalars, EqualOnesOnce) {
  for (int i = 0; i < 2; ++i) {
    fusion_.addOutput(div(x_, IrBuilder::castExpr(DataType::Double, columns())));
  }
  EXPECT_EQ(computed().size(), 1);
}

// A constant is as good in the text, and an index of a few operations too.
TEST_F(LowerLaunchScalars, NotConstantsAndShortIndices) {
  fusion_.addOutput(mul(x_, IrBuilder::create<Val>(2.0)));
  EXPECT_EQ(computed(), std::vector<std::string>());
}

// What a user gives is a parameter already, and no size.
TEST_F(LowerLaunchScalars, NotWhatIsGiven) {
  auto* given = IrBuilder::create<Val>(DataType::Double);
  fusion_.addInput(given);
  fusion_.addOutput(mul(x_, add(given, given)));
  EXPECT_EQ(computed(), std::vector<std::string>());
}

} // namespace
} // namespace nvfuser::test
