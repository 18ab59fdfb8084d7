// SPDX-License-Identifier: BSD-3-Clause
// Gathers and scatters that stay within rows are operations on rows.
#include "preseg_for_test.h"

#include <preseg_passes/canonical_form.h>

namespace nvfuser::test {

class SimplifyLookups : public PresegTest {
 protected:
  TensorView* column(TensorView* index) {
    return broadcast(index, {false, true});
  }
};

TEST_F(SimplifyLookups, OneElementOfEachRow) {
  TensorView* x = input({4, 8});
  TensorView* index = input({4}, DataType::Int);
  fusion_.addOutput(squeeze(gather(exp(x), column(index), 1), std::vector<int64_t>{1}));
  simplifyLookups(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = exp(x0)
t1 int64[i4, b] = broadcast(x1)
t2 float32[i4, b] = take_along_axis(t0, t1)
t3 float32[i4] = squeeze(t2)
outputs: t3
)");
}

TEST_F(SimplifyLookups, AsManyElementsOfEachRow) {
  TensorView* x = input({4, 8});
  TensorView* index = input({4, 3}, DataType::Int);
  fusion_.addOutput(gather(exp(x), index, 1));
  simplifyLookups(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = exp(x0)
t1 float32[i4, i3] = take_along_axis(t0, x1)
t2 float32[i4, i3] = Set(t1)
outputs: t2
)");
}

TEST_F(SimplifyLookups, FewerRowsStayAGather) {
  TensorView* x = input({4, 8});
  TensorView* index = input({2, 3}, DataType::Int);
  fusion_.addOutput(gather(exp(x), index, 1));
  simplifyLookups(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = exp(x0)
t1 float32[i2, i3] = gather(t0, x1)
outputs: t1
)");
}

TEST_F(SimplifyLookups, AScatterOfOneElementIntoEachRow) {
  TensorView* x = input({4, 8});
  TensorView* index = input({4}, DataType::Int);
  Val* minus_one = IrBuilder::create<Val>(-1.0);
  fusion_.addOutput(scatter(exp(x), column(index), minus_one, 1));
  simplifyLookups(&fusion_);
  EXPECT_EQ(text(), R"(t0 int64[i8] = iota(8, 0, 1)
t1 int64[b, i8] = broadcast(t0)
t2 int64[i4, b] = broadcast(x1)
t3 bool[i4, i8] = eq(t1, t2)
t4 float32[i4, i8] = exp(x0)
t5 float32[i4, i8] = where(t3, float(-1), t4)
outputs: t5
)");
}

// So probabilities become their gradient: p - 1 at the label.
TEST_F(SimplifyLookups, AScatterOfWhatIsComputedOfTheElementThatItReplaces) {
  TensorView* p = exp(input({4, 8}));
  TensorView* index = input({4}, DataType::Int);
  TensorView* less = sub(take_along_axis(p, column(index), 1), constant(1.0));
  fusion_.addOutput(scatter(p, column(index), less, 1));
  simplifyLookups(&fusion_);
  EXPECT_EQ(text(), R"(t0 int64[i8] = iota(8, 0, 1)
t1 int64[b, i8] = broadcast(t0)
t2 int64[i4, b] = broadcast(x1)
t3 bool[i4, i8] = eq(t1, t2)
t4 float32[i4, i8] = exp(x0)
t5 float32[i4, i8] = sub(t4, double(1))
t6 float32[i4, i8] = Set(t5)
t7 float32[i4, i8] = where(t3, t6, t4)
outputs: t7
)");
}

TEST_F(SimplifyLookups, AScatterOfWhatIsFoundElsewhere) {
  TensorView* p = exp(input({4, 8}));
  TensorView* index = input({4}, DataType::Int);
  TensorView* other = input({4}, DataType::Int);
  fusion_.addOutput(scatter(p, column(index), take_along_axis(p, column(other), 1), 1));
  simplifyLookups(&fusion_);
  EXPECT_EQ(text(), R"(t0 int64[i8] = iota(8, 0, 1)
t1 int64[b, i8] = broadcast(t0)
t2 int64[i4, b] = broadcast(x1)
t3 bool[i4, i8] = eq(t1, t2)
t4 float32[i4, i8] = exp(x0)
t5 int64[i4, b] = broadcast(x2)
t6 float32[i4, b] = take_along_axis(t4, t5)
t7 float32[i4, b] = Set(t6)
t8 float32[i4, i8] = where(t3, t7, t4)
outputs: t8
)");
}

TEST_F(SimplifyLookups, AScatterOfSeveralElementsStays) {
  TensorView* x = input({4, 8});
  TensorView* index = input({4, 3}, DataType::Int);
  TensorView* source = input({4, 3});
  fusion_.addOutput(scatter(exp(x), index, source, 1));
  simplifyLookups(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = exp(x0)
t1 float32[i4, i8] = scatter(t0, x1, x2)
outputs: t1
)");
}

TEST_F(SimplifyLookups, AScatterOfTheSameIntoEachRow) {
  TensorView* table = full({IrBuilder::index(4), IrBuilder::index(8)},
                           IrBuilder::create<Val>(0.0, DataType::Float), DataType::Float);
  TensorView* index = input({4, 1}, DataType::Int);
  TensorView* same =
      expand(broadcast(input({}), {true, true}), {IrBuilder::index(4), IrBuilder::index(1)});
  fusion_.addOutput(scatter(table, index, same, 1));
  simplifyLookups(&fusion_);
  EXPECT_EQ(text(), R"(t0 int64[i8] = iota(8, 0, 1)
t1 int64[b, i8] = broadcast(t0)
t2 bool[i4, i8] = eq(t1, x0)
t3 float32[b, b] = broadcast(x1)
t4 float32[b4, b] = expand(t3)
t5 float32[b4, b] = Set(t4)
t6 float32[i4, i8] = full(float(0))
t7 float32[i4, i8] = where(t2, t5, t6)
outputs: t7
)");
}

} // namespace nvfuser::test
