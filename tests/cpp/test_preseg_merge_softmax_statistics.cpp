// SPDX-License-Identifier: BSD-3-Clause
// The maximum and the sum of exponentials of a softmax are one pass.
#include "preseg_for_test.h"

#include <preseg_passes/rewriter.h>

#include <limits>

namespace nvfuser::test {

class MergeSoftmaxStatistics : public PresegTest {
 protected:
  TensorView* exponentials(TensorView* x) {
    return exp(sub(x, broadcast(max(x, {1}), {false, true})));
  }
  static constexpr double inf = std::numeric_limits<double>::infinity();
};

TEST_F(MergeSoftmaxStatistics, TheLossOfAClassifierReadsItsRowsOnce) {
  TensorView* x = input({4, 8});
  fusion_.addOutput(log(sum(exponentials(x), {1})));
  mergeSoftmaxStatistics(&fusion_, std::nullopt);
  EXPECT_EQ(text(), R"(t0 float32[i4, r8], t1 float32[i4, r8] = online_softmax(x0)
t2 float32[i4] = sub(t0, t0)
t3 float32[i4] = add(t1, t2)
t4 float32[i4] = log(t3)
outputs: t4
)");
}

TEST_F(MergeSoftmaxStatistics, ASoftmaxKeepsItsExponentials) {
  TensorView* x = input({4, 8});
  TensorView* powers = exponentials(x);
  fusion_.addOutput(div(powers, broadcast(sum(powers, {1}), {false, true})));
  mergeSoftmaxStatistics(&fusion_, std::nullopt);
  EXPECT_EQ(text(), R"(t0 float32[i4, r8] = reduce maximum(x0)
t1 float32[i4, b] = broadcast(t0)
t2 float32[i4, i8] = sub(x0, t1)
t3 float32[i4, i8] = exp(t2)
t4 float32[i4, r8] = reduce add(t3)
t5 float32[i4, b] = broadcast(t4)
t6 float32[i4, i8] = div(t3, t5)
outputs: t6
)");
}

TEST_F(MergeSoftmaxStatistics, UnlessItsRowsTakeSeveralKernels) {
  TensorView* x = input({4, 8});
  TensorView* powers = exponentials(x);
  fusion_.addOutput(div(powers, broadcast(sum(powers, {1}), {false, true})));
  mergeSoftmaxStatistics(&fusion_, /*repeated=*/0);
  EXPECT_EQ(text(), R"(t0 float32[i4, r8], t1 float32[i4, r8] = online_softmax(x0)
t2 float32[i4, b] = broadcast(t0)
t3 float32[i4, i8] = sub(x0, t2)
t4 float32[i4, i8] = exp(t3)
t5 float32[i4] = sub(t0, t0)
t6 float32[i4] = add(t1, t5)
t7 float32[i4, b] = broadcast(t6)
t8 float32[i4, i8] = div(t4, t7)
outputs: t8
)");
}

TEST_F(MergeSoftmaxStatistics, ALogarithmOfASumSubtractsZeroWhereTheMaximumIsInfinite) {
  TensorView* x = input({4, 8});
  TensorView* largest = max(x, {1});
  TensorView* base = where(eq(abs(largest), constantOf(inf, DataType::Float)),
                           constantOf(0.0, DataType::Float), largest)
                         ->as<TensorView>();
  TensorView* total = sum(exp(sub(x, broadcast(base, {false, true}))), {1});
  fusion_.addOutput(add(log(total), base));
  mergeSoftmaxStatistics(&fusion_, std::nullopt);
  EXPECT_EQ(text(), R"(t0 float32[i4, r8], t1 float32[i4, r8] = online_softmax(x0)
t2 bool[i4] = eq(t0, float(inf))
t3 float32[i4] = where(t2, t0, t1)
t4 float32[i4] = log(t3)
t5 float32[i4] = abs(t0)
t6 bool[i4] = eq(t5, float(inf))
t7 float32[i4] = where(t6, float(0), t0)
t8 float32[i4] = add(t4, t7)
outputs: t8
)");
}

} // namespace nvfuser::test
