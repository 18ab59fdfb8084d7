// SPDX-License-Identifier: BSD-3-Clause
// Scatters update a copy, or what is computed for them alone, or an input that they are written to.
#include "preseg_for_test.h"

#include <preseg_passes/scatter_in_place.h>

namespace nvfuser::test {

class ScatterInPlace : public PresegTest {
 protected:
  void run(const std::vector<InPlaceWrite>& writes = {}, bool overlap = false,
           uint64_t which = ~uint64_t{0}) {
    scatterInPlace(&fusion_, which, writes, overlap);
  }
};

TEST_F(ScatterInPlace, AnInputIsCopied) {
  TensorView* x = input({4, 100});
  TensorView* index = input({4, 3}, DataType::Int);
  fusion_.addOutput(scatter(x, index, input({4, 3}), 1));
  run();
  EXPECT_EQ(text(), "");
}

TEST_F(ScatterInPlace, WhatIsComputedForThisAloneIsNot) {
  TensorView* x = input({4, 100});
  TensorView* index = input({4, 3}, DataType::Int);
  Val* one = IrBuilder::create<Val>(1.0);
  fusion_.addOutput(scatter(scatter(neg(x), index, one, 1), index, input({4, 3}), 1));
  run();
  EXPECT_EQ(text(), "");
}

TEST_F(ScatterInPlace, WhatOthersReadIsCopied) {
  TensorView* x = neg(input({4, 100}));
  TensorView* index = input({4, 3}, DataType::Int);
  Val* one = IrBuilder::create<Val>(1.0);
  fusion_.addOutput(scatter(x, index, one, 1));
  fusion_.addOutput(exp(x));
  run();
  EXPECT_EQ(text(), "");
}

TEST_F(ScatterInPlace, ViewsAreCopied) {
  TensorView* x = reshape(input({400}), std::vector<int64_t>{4, 100});
  TensorView* index = input({4, 3}, DataType::Int);
  fusion_.addOutput(scatter(x, index, IrBuilder::create<Val>(1.0), 1));
  run();
  EXPECT_EQ(text(), "");
}

TEST_F(ScatterInPlace, TheBeginningOfALongerSource) {
  TensorView* x = input({4, 100});
  TensorView* index = input({2, 3}, DataType::Int);
  fusion_.addOutput(scatter(x, index, input({4, 5}), 1));
  run();
  EXPECT_EQ(text(), "");
}

TEST_F(ScatterInPlace, AnInputThatBecomesTheResult) {
  TensorView* x = input({4, 100});
  TensorView* index = input({4, 3}, DataType::Int);
  TensorView* y = scatter(x, index, IrBuilder::create<Val>(1.0), 1);
  fusion_.addOutput(y, x);
  std::vector<InPlaceWrite> writes{{y, x}};
  run(writes);
  EXPECT_EQ(text(), "");
  resolveInPlaceWrites(&fusion_, writes, /*overlap=*/false);
  EXPECT_FALSE(writes[0].through_copy);
  EXPECT_TRUE(isScatteredInto(writes[0]));
  scatterIntoCopy(&fusion_, writes[0]);
  EXPECT_EQ(text(), "");
}

TEST_F(ScatterInPlace, AnInputThatAnotherArgumentShows) {
  TensorView* x = input({4, 100});
  TensorView* index = input({4, 3}, DataType::Int);
  TensorView* y = scatter(x, index, IrBuilder::create<Val>(1.0), 1);
  fusion_.addOutput(y, x);
  std::vector<InPlaceWrite> writes{{y, x}};
  run(writes, /*overlap=*/true);
  resolveInPlaceWrites(&fusion_, writes, /*overlap=*/true);
  EXPECT_TRUE(writes[0].through_copy);
  EXPECT_EQ(text(), "");
}

TEST_F(ScatterInPlace, OnlyThoseThatAreWanted) {
  TensorView* x = input({4, 100});
  TensorView* index = input({4, 3}, DataType::Int);
  Val* one = IrBuilder::create<Val>(1.0);
  fusion_.addOutput(scatter(x, index, one, 0));
  fusion_.addOutput(scatter(x, index, one, 1));
  run({}, false, /*which=*/2);
  EXPECT_EQ(text(), "");
}

} // namespace nvfuser::test
