// SPDX-License-Identifier: BSD-3-Clause
// Schedulers that are left out for long rows.
#include "preseg_for_test.h"

#include <scheduler/registry.h>

#include <limits>

namespace nvfuser::test {

class LeftOutTest : public PresegTest {
 protected:
  void normalize(const std::vector<int64_t>& shape) {
    TensorView* x = input(shape);
    fusion_.addOutput(sub(x, broadcast(sum(x, {1}), {false, true})));
  }
};

TEST_F(LeftOutTest, OnlyRowsAsLong) {
  normalize({8, 64});
  EXPECT_EQ(longestRow(fusion_), 64);
  EXPECT_EQ(chooseScheduler(&fusion_), SchedulerType::InnerPersistent);
  const auto chosen = [&](double from) {
    return chooseScheduler(&fusion_, {{SchedulerType::InnerPersistent, {"too long", from}}});
  };
  EXPECT_EQ(chosen(65), SchedulerType::InnerPersistent);
  EXPECT_EQ(chosen(64), SchedulerType::None);
  EXPECT_EQ(chosen(0), SchedulerType::None);
}

TEST_F(LeftOutTest, RowsOfUnknownLengthAreTheLongest) {
  normalize({8, -1});
  EXPECT_EQ(longestRow(fusion_), std::numeric_limits<double>::infinity());
  LeftOut left_out;
  leaveOut(left_out, SchedulerType::InnerPersistent, {"too long", longestRow(fusion_)});
  EXPECT_EQ(chooseScheduler(&fusion_, left_out), SchedulerType::None);
}

TEST_F(LeftOutTest, TheShorterRowsOfTwoReasonsStay) {
  LeftOut left_out;
  leaveOut(left_out, SchedulerType::InnerPersistent, {"a", 64});
  leaveOut(left_out, SchedulerType::InnerPersistent, {"b", 128});
  EXPECT_EQ(left_out.at(SchedulerType::InnerPersistent).why, "a");
  leaveOut(left_out, SchedulerType::InnerPersistent, {"c"});
  EXPECT_EQ(left_out.at(SchedulerType::InnerPersistent).from_elements, 0);
}

} // namespace nvfuser::test
