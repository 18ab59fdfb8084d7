// SPDX-License-Identifier: BSD-3-Clause
// Reductions of columns beside reductions of rows are made in two steps.
#include "preseg_for_test.h"

#include <preseg_passes/column_reductions.h>
#include <preseg_passes/rewrites.h>

namespace nvfuser::test {

class SplitColumnReductions : public PresegTest {
 protected:
  // Reduces its rows and its columns.
  void addNorm(TensorView* x) {
    fusion_.addOutput(sub(x, broadcast(sum(x, {1}), {false, true})));
    fusion_.addOutput(sum(x, {0}));
  }
  void define() {
    addNorm(input({12, 8}));
  }
};

TEST_F(SplitColumnReductions, SumsForEachGroupOfRowsComeFirst) {
  define();
  EXPECT_EQ(splitColumnReductions(&fusion_, {.partial_sums = 3}), nullptr);
  EXPECT_EQ(text(), R"(t0 float32[i12, r8] = reduce add(x0)
t1 float32[i12, b] = broadcast(t0)
t2 float32[i12, i8] = sub(x0, t1)
t3 float32[i3, i8, r4] of [r12, i8] = reduce add(x0)
t4 float32[r3, i8] = reduce add(t3)
outputs: t2 t4
)");
}

TEST_F(SplitColumnReductions, AGroupTakesSeveralRowsAtOnce) {
  define();
  splitColumnReductions(&fusion_, {.partial_sums = 3, .rows_at_once = 2});
  EXPECT_EQ(text(), R"(t0 float32[i12, r8] = reduce add(x0)
t1 float32[i12, b] = broadcast(t0)
t2 float32[i12, i8] = sub(x0, t1)
t3 float32[i3, i8, r2, r2] of [r12, i8] = reduce add(x0)
t4 float32[r3, i8] = reduce add(t3)
outputs: t2 t4
)");
}

TEST_F(SplitColumnReductions, TheNumberOfGroupsMayBeLeftToTheLaunch) {
  define();
  const Val* groups = splitColumnReductions(&fusion_, {.partial_sums = Rewrites::kAnyNumber});
  ASSERT_NE(groups, nullptr);
  EXPECT_EQ(text(), R"(t0 float32[i12, r8] = reduce add(x0)
t1 float32[i12, b] = broadcast(t0)
t2 float32[i12, i8] = sub(x0, t1)
t3 float32[i?, i8, r?] of [r12, i8] = reduce add(x0)
t4 float32[r?, i8] = reduce add(t3)
outputs: t2 t4
)");
  EXPECT_EQ(fusion_.outputs()[1]->definition()->input(0)->as<TensorView>()->axis(0)->extent(),
            groups);
}

TEST_F(SplitColumnReductions, ColumnsMayHaveWhatAThreadReduces) {
  TensorView* x = input({128, 32, 3});
  TensorView* largest = max(x, {2});
  fusion_.addOutput(sub(largest, broadcast(sum(largest, {1}), {false, true})));
  fusion_.addOutput(sum(x, {0}));
  const auto found = findRowsAndColumns(&fusion_);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].columns.size(), 1u);
  EXPECT_EQ(found[0].sums, 3);
  EXPECT_EQ(found[0].row_bytes, 12);
  splitColumnReductions(&fusion_, {.partial_sums = 4});
  EXPECT_EQ(text(), R"(t0 float32[i128, i32, r3] = reduce maximum(x0)
t1 float32[i128, r32] = reduce add(t0)
t2 float32[i128, b] = broadcast(t1)
t3 float32[i128, i32] = sub(t0, t2)
t4 float32[i4, i32, i3, r32] of [r128, i32, i3] = reduce add(x0)
t5 float32[r4, i32, i3] = reduce add(t4)
outputs: t3 t5
)");
}

TEST_F(SplitColumnReductions, ColumnsAloneStay) {
  TensorView* x = input({12, 8});
  fusion_.addOutput(sum(x, {0}));
  fusion_.addOutput(max(x, {0}));
  EXPECT_TRUE(findRowsAndColumns(&fusion_).empty());
  EXPECT_EQ(splitColumnReductions(&fusion_, {.partial_sums = 3}), nullptr);
  EXPECT_EQ(text(), R"(t0 float32[r12, i8] = reduce add(x0)
t1 float32[r12, i8] = reduce maximum(x0)
outputs: t0 t1
)");
}

// Norms of several widths in one definition, as of hidden states and of heads, and of several
// numbers of tokens.
TEST_F(SplitColumnReductions, EachWidthHasGroupsOfItsOwn) {
  addNorm(exp(input({128, 32})));
  addNorm(exp(input({128, 8})));
  addNorm(exp(input({64, 8})));
  const auto found = findRowsAndColumns(&fusion_);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].sums, 1);
  EXPECT_EQ(found[0].row_bytes, 4);
  Rewrites wanted{.partial_sums = 4};
  wanted.groups_of[{128, 8}] = {.count = 2, .rows_at_once = 16};
  splitColumnReductions(&fusion_, wanted);
  EXPECT_EQ(text(), R"(t0 float32[i128, i32] = exp(x0)
t1 float32[i128, r32] = reduce add(t0)
t2 float32[i128, b] = broadcast(t1)
t3 float32[i128, i32] = sub(t0, t2)
t4 float32[i4, i32, r32] of [r128, i32] = reduce add(t0)
t5 float32[r4, i32] = reduce add(t4)
t6 float32[i128, i8] = exp(x1)
t7 float32[i128, r8] = reduce add(t6)
t8 float32[i128, b] = broadcast(t7)
t9 float32[i128, i8] = sub(t6, t8)
t10 float32[i2, i8, r4, r16] of [r128, i8] = reduce add(t6)
t11 float32[r2, i8] = reduce add(t10)
t12 float32[i64, i8] = exp(x2)
t13 float32[i64, r8] = reduce add(t12)
t14 float32[i64, b] = broadcast(t13)
t15 float32[i64, i8] = sub(t12, t14)
t16 float32[i4, i8, r16] of [r64, i8] = reduce add(t12)
t17 float32[r4, i8] = reduce add(t16)
outputs: t3 t5 t9 t11 t15 t17
)");
}

// Norms that read what has no rows, computed once, are regions of their own: of heads that are
// rotated by the same angles.
TEST_F(SplitColumnReductions, RegionsShareWhatHasNoRows) {
  TensorView* angles = cos(input({32}));
  TensorView* rows = input({128, 32});
  addNorm(mul(rows, broadcast(angles, {true, false})));
  addNorm(mul(input({128, 32}), broadcast(angles, {true, false})));
  auto found = findRowsAndColumns(&fusion_);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].sums, 1);
  EXPECT_EQ(found[1].row_bytes, 4);
  addNorm(exp(rows)); // of what the first one reads
  found = findRowsAndColumns(&fusion_);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].sums + found[1].sums, 3);
}

} // namespace nvfuser::test
