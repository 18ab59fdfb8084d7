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
  EXPECT_EQ(text(), R"(t0 float32[i4, i100] = Set(x0)
t1 float32[i4, i100] = scatter_in_place(t0, x1, x2)
outputs: t1
)");
}

TEST_F(ScatterInPlace, WhatIsComputedForThisAloneIsNot) {
  TensorView* x = input({4, 100});
  TensorView* index = input({4, 3}, DataType::Int);
  Val* one = IrBuilder::create<Val>(1.0);
  fusion_.addOutput(scatter(scatter(neg(x), index, one, 1), index, input({4, 3}), 1));
  run();
  EXPECT_EQ(text(), R"(t0 float32[i4, i100] = neg(x0)
t1 float32[i4, i100] = scatter_in_place(t0, x1, float(1))
t2 float32[i4, i100] = scatter_in_place(t1, x1, x2)
outputs: t2
)");
}

TEST_F(ScatterInPlace, WhatOthersReadIsCopied) {
  TensorView* x = neg(input({4, 100}));
  TensorView* index = input({4, 3}, DataType::Int);
  Val* one = IrBuilder::create<Val>(1.0);
  fusion_.addOutput(scatter(x, index, one, 1));
  fusion_.addOutput(exp(x));
  run();
  EXPECT_EQ(text(), R"(t0 float32[i4, i100] = neg(x0)
t1 float32[i4, i100] = Set(t0)
t2 float32[i4, i100] = scatter_in_place(t1, x1, float(1))
t3 float32[i4, i100] = exp(t0)
outputs: t2 t3
)");
}

TEST_F(ScatterInPlace, ViewsAreCopied) {
  TensorView* x = reshape(input({400}), std::vector<int64_t>{4, 100});
  TensorView* index = input({4, 3}, DataType::Int);
  fusion_.addOutput(scatter(x, index, IrBuilder::create<Val>(1.0), 1));
  run();
  EXPECT_EQ(text(), R"(t0 float32[i4, i100] of [i400] = reshape(x0)
t1 float32[i4, i100] = Set(t0)
t2 float32[i4, i100] = scatter_in_place(t1, x1, float(1))
outputs: t2
)");
}

TEST_F(ScatterInPlace, TheBeginningOfALongerSource) {
  TensorView* x = input({4, 100});
  TensorView* index = input({2, 3}, DataType::Int);
  fusion_.addOutput(scatter(x, index, input({4, 5}), 1));
  run();
  EXPECT_EQ(text(), R"(t0 float32[i4, i100] = Set(x0)
t1 float32[i2, i3] of [i4, i5] = slice(x2)
t2 float32[i4, i100] = scatter_in_place(t0, x1, t1)
outputs: t2
)");
}

TEST_F(ScatterInPlace, AnInputThatBecomesTheResult) {
  TensorView* x = input({4, 100});
  TensorView* index = input({4, 3}, DataType::Int);
  TensorView* y = scatter(x, index, IrBuilder::create<Val>(1.0), 1);
  fusion_.addOutput(y, x);
  std::vector<InPlaceWrite> writes{{y, x}};
  run(writes);
  EXPECT_EQ(text(), R"(t0 float32[i4, i100] = scatter_in_place(x0, x1, float(1))
outputs: t0
)");
  resolveInPlaceWrites(&fusion_, writes, /*overlap=*/false);
  EXPECT_FALSE(writes[0].through_copy);
  EXPECT_TRUE(isScatteredInto(writes[0]));
  scatterIntoCopy(&fusion_, writes[0]);
  EXPECT_EQ(text(), R"(t0 float32[i4, i100] = Set(x0)
t1 float32[i4, i100] = scatter_in_place(t0, x1, float(1))
outputs: t1
)");
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
  EXPECT_EQ(text(), R"(t0 float32[i4, i100] = Set(x0)
t1 float32[i4, i100] = scatter_in_place(t0, x1, float(1))
t2 float32[i4, i100] = Set(t1)
outputs: t2
)");
}

TEST_F(ScatterInPlace, OnlyThoseThatAreWanted) {
  TensorView* x = input({4, 100});
  TensorView* index = input({4, 3}, DataType::Int);
  Val* one = IrBuilder::create<Val>(1.0);
  fusion_.addOutput(scatter(x, index, one, 0));
  fusion_.addOutput(scatter(x, index, one, 1));
  run({}, false, /*which=*/2);
  EXPECT_EQ(text(), R"(t0 float32[i4, i100] = scatter(x0, x1, float(1))
t1 float32[i4, i100] = Set(x0)
t2 float32[i4, i100] = scatter_in_place(t1, x1, float(1))
outputs: t0 t2
)");
}

} // namespace nvfuser::test
