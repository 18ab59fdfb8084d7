// SPDX-License-Identifier: BSD-3-Clause
// Partial sums of columns lie where the last rows of a result will be.
#include "preseg_for_test.h"

#include <preseg_passes/rewrites.h>

namespace nvfuser::test {

class LendRows : public PresegTest {
 protected:
  // Reduces its rows, of which the result is made, and its columns in three groups.
  TensorView* norm(TensorView* x) {
    TensorView* result = sub(x, broadcast(sum(x, {1}), {false, true}));
    fusion_.addOutput(result);
    fusion_.addOutput(sum(x, {0}));
    splitColumnReductions(&fusion_, {.partial_sums = 3});
    return result;
  }
  void lend() {
    outputs_.clear();
    for (Val* v : fusion_.outputs()) {
      outputs_.push_back(v->as<TensorView>());
    }
    lendRows(&fusion_, outputs_, views_, parts_);
  }

  std::vector<TensorView*> outputs_;
  MovedViews views_;
  std::vector<OutputPart> parts_;
};

// 256 bytes for three rows of sums, and as many to begin at a multiple of 256: 16 rows of 32 bytes.
TEST_F(LendRows, TheLastRowsAreComputedOfViewsOfInputs) {
  TensorView* x = input({1000, 8});
  TensorView* result = norm(x);
  lend();
  EXPECT_EQ(text(), R"(t0 float32[i1000, r8] = reduce add(x0)
t1 float32[i1000, b] = broadcast(t0)
t2 float32[i1000, i8] = sub(x0, t1)
t3 float32[i3, i8, r334] of [r1000, i8] = reduce add(x0)
t4 float32[r3, i8] = reduce add(t3)
t5 float32[i16, r8] = reduce add(x1)
t6 float32[i16, b] = broadcast(t5)
t7 float32[i16, i8] = sub(x1, t6)
outputs: t2 t4 t7
)");
  EXPECT_EQ(result->writtenElements(), 984 * 8);
  ASSERT_EQ(views_.inputs.size(), 1);
  EXPECT_EQ(views_.inputs[0].source, x);
  EXPECT_EQ(views_.inputs[0].starts[0]->intValue(), 984);
  EXPECT_EQ(views_.inputs[0].starts[1]->intValue(), 0);
  ASSERT_EQ(parts_.size(), 2);
  EXPECT_EQ(parts_[0].part, result);
  EXPECT_EQ(parts_[0].start->intValue(), 0);
  EXPECT_EQ(parts_[1].part, fusion_.outputs()[2]);
  EXPECT_EQ(parts_[1].start->intValue(), 984);
  EXPECT_EQ(parts_[1].whole, outputs_[0]);
}

// They are rows of the last of several batches.
TEST_F(LendRows, RowsOfSeveralDimensions) {
  TensorView* x = input({4, 250, 8});
  TensorView* result = sub(x, broadcast(sum(x, {2}), {false, false, true}));
  fusion_.addOutput(result);
  fusion_.addOutput(sum(x, {0, 1}));
  splitColumnReductions(&fusion_, {.partial_sums = 3});
  lend();
  EXPECT_EQ(text(), R"(t0 float32[i4, i250, r8] = reduce add(x0)
t1 float32[i4, i250, b] = broadcast(t0)
t2 float32[i4, i250, i8] = sub(x0, t1)
t3 float32[i3, i8, r334] of [r4, r250, i8] = reduce add(x0)
t4 float32[r3, i8] = reduce add(t3)
t5 float32[b, i16, r8] = reduce add(x1)
t6 float32[b, i16, b] = broadcast(t5)
t7 float32[b, i16, i8] = sub(x1, t6)
outputs: t2 t4 t7
)");
  EXPECT_EQ(result->writtenElements(), 984 * 8);
  ASSERT_EQ(parts_.size(), 2);
  EXPECT_EQ(parts_[1].dim, 1);
  EXPECT_EQ(parts_[1].start->intValue(), 984);
}

TEST_F(LendRows, NotWhereThatIsMuchOfTheResult) {
  norm(input({100, 8}));
  lend();
  EXPECT_TRUE(parts_.empty());
}

// The last rows would be written before those of the first result are read.
TEST_F(LendRows, NotOfAResultThatIsRead) {
  fusion_.addOutput(neg(norm(input({1000, 8}))));
  lend();
  EXPECT_EQ(parts_.size(), 2);
  EXPECT_EQ(parts_[0].part, fusion_.outputs()[2]);
}

// Nor is a part of it what it depends on.
TEST_F(LendRows, NotOfAResultThatDependsOnAllRows) {
  TensorView* x = input({1000, 8});
  TensorView* scaled = mul(x, broadcast(sum(x, {1}), {false, true}));
  fusion_.addOutput(add(scaled, broadcast(sum(x, {0}), {true, false})));
  splitColumnReductions(&fusion_, {.partial_sums = 3});
  lend();
  EXPECT_TRUE(parts_.empty());
}

// Sums of rows are no rows, though what they sum has as many dimensions.
TEST_F(LendRows, NotOfSumsOfRows) {
  TensorView* x = input({1000, 8});
  TensorView* sums = sum(x, {1});
  fusion_.addOutput(sums);
  norm(x);
  lend();
  EXPECT_FALSE(sums->writtenElements().has_value());
  ASSERT_EQ(parts_.size(), 2);
  EXPECT_EQ(parts_[0].part, fusion_.outputs()[1]);
}

TEST_F(LendRows, NotWithoutPartialSums) {
  TensorView* x = input({1000, 8});
  fusion_.addOutput(sub(x, broadcast(sum(x, {1}), {false, true})));
  lend();
  EXPECT_TRUE(parts_.empty());
}

} // namespace nvfuser::test
