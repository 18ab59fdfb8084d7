// SPDX-License-Identifier: BSD-3-Clause
// All the parts of a tensor side by side are a permutation of it.
#include "preseg_for_test.h"

#include <preseg_passes/canonical_form.h>

namespace nvfuser::test {

class MergeParts : public PresegTest {
 protected:
  Val* number(int64_t value) {
    return IrBuilder::create<Val>(value);
  }
  // Every `step`-th element of a dimension, from `first` on.
  TensorView* every(TensorView* x, size_t dim, int64_t step, int64_t first) {
    std::vector<int64_t> split;
    std::vector<Val*> starts;
    std::vector<Val*> stops;
    for (const IterDomain* id : x->getLogicalDomain()) {
      const int64_t extent = id->extent()->intValue();
      const bool is_split = split.size() == dim && starts.size() == dim;
      split.push_back(is_split ? extent / step : extent);
      starts.push_back(number(0));
      stops.push_back(number(split.back()));
      if (is_split) {
        split.push_back(step);
        starts.push_back(number(first));
        stops.push_back(number(first + 1));
      }
    }
    const auto taken = std::vector<int64_t>{static_cast<int64_t>(dim) + 1};
    return squeeze(slice(reshape(x, split), starts, stops), taken);
  }
  std::string merged(const std::vector<TensorView*>& parts, int64_t dim) {
    fusion_.addOutput(cat(parts, dim));
    const std::string before = text();
    mergeParts(&fusion_);
    fusion_.removeDeadUses();
    return text() == before ? "the same" : text();
  }
};

TEST_F(MergeParts, OfOneDimension) {
  TensorView* x = input({4, 6, 8});
  EXPECT_EQ(merged({every(x, 1, 3, 0), every(x, 1, 3, 1), every(x, 1, 3, 2)}, 2),
            R"(t0 float32[i4, i2, i24] of [i4, i6, i8] = reshape(x0)
t1 float32[i4, i2, i24] = Set(t0)
outputs: t1
)");
}

TEST_F(MergeParts, OfTwoDimensionsInAnyOrder) {
  TensorView* x = input({4, 6, 6, 8});
  std::vector<TensorView*> parts;
  for (const int64_t column : {0, 1}) {
    for (const int64_t row : {0, 1, 2}) {
      parts.push_back(every(every(x, 1, 3, row), 2, 2, column));
    }
  }
  EXPECT_EQ(merged(parts, 0),
            R"(t0 float32[i4, i2, i3, i3, i2, i8] of [i4, i6, i6, i8] = reshape(x0)
t1 float32[i2, i3, i4, i2, i3, i8] of [i4, i2, i3, i3, i2, i8] = Set(t0)
t2 float32[i24, i2, i3, i8] of [i2, i3, i4, i2, i3, i8] = reshape(t1)
t3 float32[i24, i2, i3, i8] = Set(t2)
outputs: t3
)");
}

TEST_F(MergeParts, OfWhatIsComputed) {
  TensorView* x = exp(input({4, 6, 8}));
  EXPECT_EQ(merged({every(x, 0, 2, 0), every(x, 0, 2, 1)}, 1), R"(t0 float32[i4, i6, i8] = exp(x0)
t1 float32[i2, i12, i8] of [i4, i6, i8] = reshape(t0)
t2 float32[i2, i12, i8] = Set(t1)
outputs: t2
)");
}

// Quarters of rows as the pixels of squares: the gradient of putting these side by side.
TEST_F(MergeParts, StacksOfStacks) {
  TensorView* x = input({4, 6, 32});
  std::vector<TensorView*> rows;
  for (const int64_t row : {0, 1}) {
    std::vector<TensorView*> columns;
    for (const int64_t column : {0, 1}) {
      const int64_t first = 8 * (row + (2 * column));
      TensorView* quarter = slice(x, {0, 0, first}, {4, 6, first + 8});
      columns.push_back(broadcast(quarter, {false, false, true, false}));
    }
    TensorView* row_of_pixels = reshape(cat(columns, 2), std::vector<int64_t>{4, 12, 8});
    rows.push_back(broadcast(row_of_pixels, {false, true, false, false}));
  }
  EXPECT_EQ(merged(rows, 1), R"(t0 float32[i4, i6, i2, i2, i8] of [i4, i6, i32] = reshape(x0)
t1 float32[i4, i2, i6, i2, i8] of [i4, i6, i2, i2, i8] = Set(t0)
t2 float32[i4, i2, i12, i8] of [i4, i2, i6, i2, i8] = reshape(t1)
t3 float32[i4, i2, i12, i8] = Set(t2)
outputs: t3
)");
}

TEST_F(MergeParts, SlicesSideBySideAreAll) {
  TensorView* x = exp(input({4, 6}));
  EXPECT_EQ(
      merged({slice(x, {0, 0}, {4, 2}), slice(x, {0, 2}, {4, 4}), slice(x, {0, 4}, {4, 6})}, 1),
      R"(t0 float32[i4, i6] = exp(x0)
outputs: t0
)");
}

TEST_F(MergeParts, SlicesOfDifferentWidthsStay) {
  TensorView* x = input({4, 8});
  EXPECT_EQ(merged({slice(x, {0, 0}, {4, 2}), slice(x, {0, 4}, {4, 8})}, 1), "the same");
  EXPECT_EQ(merged({slice(x, {0, 4}, {4, 8}), slice(x, {0, 0}, {4, 2})}, 1), "the same");
  EXPECT_EQ(
      merged({slice(x, {0, 0}, {4, 4}), slice(x, {0, 4}, {4, 6}), slice(x, {0, 6}, {4, 8})}, 1),
      "the same");
}

// Elements of a row would be read across.
TEST_F(MergeParts, HalvesOfARowBetweenEachOtherStay) {
  TensorView* x = input({4, 6});
  const std::vector<bool> last = {false, false, true};
  EXPECT_EQ(
      merged({broadcast(slice(x, {0, 0}, {4, 3}), last), broadcast(slice(x, {0, 3}, {4, 6}), last)},
             2),
      "the same");
}

TEST_F(MergeParts, InAnotherOrderTheyStay) {
  TensorView* x = input({4, 6, 8});
  EXPECT_EQ(merged({every(x, 1, 3, 0), every(x, 1, 3, 2), every(x, 1, 3, 1)}, 2), "the same");
}

TEST_F(MergeParts, SomeOfThemStay) {
  TensorView* x = input({4, 6, 8});
  EXPECT_EQ(merged({every(x, 1, 3, 0), every(x, 1, 3, 1)}, 2), "the same");
}

TEST_F(MergeParts, OfSeveralTensorsTheyStay) {
  EXPECT_EQ(merged({every(input({4, 8}), 0, 2, 0), every(input({4, 8}), 0, 2, 1)}, 1), "the same");
}

// They would be read across.
TEST_F(MergeParts, OfTheInnermostDimensionTheyStay) {
  TensorView* x = input({4, 8});
  EXPECT_EQ(merged({every(x, 1, 2, 0), every(x, 1, 2, 1)}, 1), "the same");
}

// A half of a dimension that was split into two.
TEST_F(MergeParts, OneOutermostPartIsASlice) {
  TensorView* x = input({4, 6});
  TensorView* halves = reshape(exp(x), std::vector<int64_t>{4, 2, 3});
  TensorView* second =
      slice(halves, {number(0), number(1), number(0)}, {number(4), number(2), number(3)});
  fusion_.addOutput(squeeze(second, std::vector<int64_t>{1}));
  mergeParts(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i6] = exp(x0)
t1 float32[i4, i3] of [i4, i6] = slice(t0)
t2 float32[i4, i3] = Set(t1)
outputs: t2
)");
}

TEST_F(MergeParts, OneInnermostPartStays) {
  fusion_.addOutput(every(input({4, 6}), 1, 2, 1));
  const std::string before = text();
  mergeParts(&fusion_);
  EXPECT_EQ(text(), before);
}

class JoinParts : public PresegTest {
 protected:
  std::pair<TensorView*, TensorView*> halves(TensorView* x) {
    const int64_t rows = x->getLogicalDomain()[0]->extent()->intValue();
    const int64_t half = x->getLogicalDomain()[1]->extent()->intValue() / 2;
    return {slice(x, {0, 0}, {rows, half}), slice(x, {0, half}, {rows, 2 * half})};
  }
  std::string joined(TensorView* left, TensorView* right) {
    fusion_.addOutput(cat({left, right}, 1));
    const std::string before = text();
    joinParts(&fusion_);
    fusion_.removeDeadUses();
    return text() == before ? "the same" : text();
  }
};

TEST_F(JoinParts, OfTheSameOperations) {
  const auto [x1, x2] = halves(input({4, 8}));
  const auto [y1, y2] = halves(input({4, 8}));
  EXPECT_EQ(joined(mul(exp(x1), y1), mul(y2, exp(x2))), R"(t0 float32[i4, i8] = exp(x0)
t1 float32[i4, i8] = mul(t0, x1)
outputs: t1
)");
}

TEST_F(JoinParts, WithOneConcatenationLeft) {
  const auto [x1, x2] = halves(input({4, 8}));
  const auto [c1, c2] = halves(input({4, 8}));
  const auto [s1, s2] = halves(input({4, 8}));
  EXPECT_EQ(joined(sub(mul(x1, c1), mul(x2, s1)), add(mul(x2, c2), mul(x1, s2))),
            R"(t0 float32[i4, i8] = mul(x0, x1)
t1 float32[i4, i4] of [i4, i8] = slice(x0)
t2 float32[i4, i4] = neg(t1)
t3 float32[i4, i8] of [i4, i4] = pad(t2, float(0))
t4 float32[i4, i4] of [i4, i8] = slice(x0)
t5 float32[i4, i8] of [i4, i4] = pad(t4, float(0))
t6 float32[i4, i8] = cat(t3, t5)
t7 float32[i4, i8] = mul(t6, x2)
t8 float32[i4, i8] = add(t0, t7)
outputs: t8
)");
}

TEST_F(JoinParts, WhatAllShareIsShared) {
  const auto [x1, x2] = halves(input({4, 8}));
  TensorView* of_row = broadcast(input({4}), {false, true});
  EXPECT_EQ(joined(mul(x1, of_row), mul(x2, of_row)), R"(t0 float32[i4, b] = broadcast(x1)
t1 float32[i4, i8] = mul(x0, t0)
outputs: t1
)");
}

TEST_F(JoinParts, InAnotherOrderTheyStay) {
  const auto [x1, x2] = halves(input({4, 8}));
  EXPECT_EQ(joined(exp(x2), exp(x1)), "the same");
}

TEST_F(JoinParts, OfSeveralTensorsTheyStay) {
  const auto [x1, x2] = halves(input({4, 8}));
  const auto [y1, y2] = halves(input({4, 8}));
  EXPECT_EQ(joined(exp(x1), exp(y2)), "the same");
}

TEST_F(JoinParts, PartsThatOthersReadStay) {
  const auto [x1, x2] = halves(input({4, 8}));
  TensorView* left = exp(x1);
  fusion_.addOutput(left);
  EXPECT_EQ(joined(left, exp(x2)), "the same");
}

// -(a + b) and (-a) + (-b) are zeros of different signs where a is -b.
TEST_F(JoinParts, NegatedSumsStay) {
  const auto [x1, x2] = halves(input({4, 8}));
  const auto [y1, y2] = halves(input({4, 8}));
  EXPECT_EQ(joined(neg(add(x1, y1)), add(x2, y2)), "the same");
}

} // namespace nvfuser::test
