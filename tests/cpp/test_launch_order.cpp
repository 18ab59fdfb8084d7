// SPDX-License-Identifier: BSD-3-Clause
// What stays of the order of segments when some are joined.
#include "ops_for_test.h"

#include <segment/launch_order.h>

namespace nvfuser::test {

class LaunchOrder : public testing_utils::OpsTest {
 protected:
  // One that reads these tensors; returns what it makes.
  Val* add(std::vector<Val*> inputs) {
    Segment& segment = segments_.emplace_back();
    segment.inputs = std::move(inputs);
    segment.outputs = {input({4})};
    return segment.outputs.front();
  }

  std::vector<Segment> segments_;
};

TEST_F(LaunchOrder, WhatLiesBetweenTwoIsEnclosed) {
  Val* x = input({4});
  Val* sums = add({x});
  add({sums}); // nobody needs it
  Val* of_groups = add({sums});
  Val* others = add({x}); // does not need the first
  Val* factors = add({of_groups, x});
  add({factors, others, sums});
  EXPECT_EQ(enclosedBy(segments_, 0, 5), (std::vector<size_t>{2, 4}));
  EXPECT_EQ(enclosedBy(segments_, 2, 5), (std::vector<size_t>{4}));
  EXPECT_TRUE(enclosedBy(segments_, 0, 2).empty());
  EXPECT_TRUE(enclosedBy(segments_, 3, 5).empty());
}

} // namespace nvfuser::test
