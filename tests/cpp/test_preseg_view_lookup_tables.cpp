// SPDX-License-Identifier: BSD-3-Clause
// A table that is an input with other dimensions is a view of it.
#include "preseg_for_test.h"

namespace nvfuser::test {

class ViewLookupTables : public PresegTest {
 protected:
  MovedViews views_;
};

TEST_F(ViewLookupTables, AReshapedInputIsLookedUpWhereItLies) {
  TensorView* x = input({4, 3, 5});
  TensorView* index = input({7}, DataType::Int);
  fusion_.addOutput(neg(index_select(reshape(x, std::vector<int64_t>{4, 15}), index, 1)));
  viewLookupTables(&fusion_, {}, views_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i7] = index_select(x2, x1)
t1 float32[i4, i7] = neg(t0)
outputs: t1
)");
  ASSERT_EQ(views_.inputs.size(), 1u);
  EXPECT_EQ(views_.inputs.front().source, x);
}

TEST_F(ViewLookupTables, WhatIsWrittenOrReadOtherwiseStays) {
  TensorView* x = input({4, 3, 5});
  TensorView* y = input({4, 3, 5});
  TensorView* index = input({7}, DataType::Int);
  TensorView* flat = reshape(y, std::vector<int64_t>{4, 15});
  fusion_.addOutput(index_select(reshape(x, std::vector<int64_t>{4, 15}), index, 1));
  fusion_.addOutput(index_select(flat, index, 1));
  fusion_.addOutput(exp(flat));
  const std::string before = text();
  viewLookupTables(&fusion_, {x}, views_);
  EXPECT_EQ(text(), before);
  EXPECT_TRUE(views_.inputs.empty());
}

} // namespace nvfuser::test
