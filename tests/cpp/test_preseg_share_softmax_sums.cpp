// SPDX-License-Identifier: BSD-3-Clause
// The sums of a softmax and of a logsumexp of the same tensor are one.
#include "preseg_for_test.h"

#include <preseg_passes/canonical_form.h>
#include <preseg_passes/rewriter.h>

#include <limits>

namespace nvfuser::test {

class ShareSoftmaxSums : public PresegTest {
 protected:
  void SetUp() override {
    x_ = input({4, 8});
    max_ = max(x_, {1});
    Val* infinity = constantOf(std::numeric_limits<double>::infinity(), DataType::Float);
    base_ =
        where(eq(abs(max_), infinity), constantOf(0.0, DataType::Float), max_)->as<TensorView>();
  }
  TensorView* exponentials(TensorView* base) {
    return exp(sub(x_, broadcast(base, {false, true})));
  }
  TensorView* x_ = nullptr;
  TensorView* max_ = nullptr;
  TensorView* base_ = nullptr; // 0 where the maximum is infinite
};

TEST_F(ShareSoftmaxSums, TheExponentialsOfASoftmaxAreKept) {
  TensorView* powers = exponentials(max_);
  fusion_.addOutput(div(powers, broadcast(sum(powers, {1}), {false, true})));
  fusion_.addOutput(add(log(sum(exponentials(base_), {1})), base_));
  shareSoftmaxSums(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, r8] = reduce maximum(x0)
t1 float32[i4, b] = broadcast(t0)
t2 float32[i4, i8] = sub(x0, t1)
t3 float32[i4, i8] = exp(t2)
t4 float32[i4, r8] = reduce add(t3)
t5 float32[i4, b] = broadcast(t4)
t6 float32[i4, i8] = div(t3, t5)
t7 float32[i4] = abs(t0)
t8 bool[i4] = eq(t7, float(inf))
t9 float32[i4] = maximum(t0, float(0))
t10 float32[i4] = where(t8, t9, t4)
t11 float32[i4] = log(t10)
t12 float32[i4] = where(t8, float(0), t0)
t13 float32[i4] = add(t11, t12)
outputs: t6 t13
)");
}

TEST_F(ShareSoftmaxSums, SoAreThoseThatAreLessByTheGuardedMaximum) {
  TensorView* powers = exponentials(base_);
  fusion_.addOutput(div(powers, broadcast(sum(powers, {1}), {false, true})));
  fusion_.addOutput(sum(exponentials(max_), {1}));
  shareSoftmaxSums(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, r8] = reduce maximum(x0)
t1 float32[i4] = abs(t0)
t2 bool[i4] = eq(t1, float(inf))
t3 float32[i4] = where(t2, float(0), t0)
t4 float32[i4, b] = broadcast(t3)
t5 float32[i4, i8] = sub(x0, t4)
t6 float32[i4, i8] = exp(t5)
t7 float32[i4, r8] = reduce add(t6)
t8 float32[i4, b] = broadcast(t7)
t9 float32[i4, i8] = div(t6, t8)
t10 float32[i4] = sub(t0, t0)
t11 float32[i4] = add(t7, t10)
outputs: t9 t11
)");
}

TEST_F(ShareSoftmaxSums, OtherSumsStay) {
  TensorView* other = max(input({4, 8}), {1});
  fusion_.addOutput(sum(exponentials(max_), {1}));
  fusion_.addOutput(sum(exponentials(other), {1}));
  const std::string before = text();
  shareSoftmaxSums(&fusion_);
  EXPECT_EQ(text(), before);
}

} // namespace nvfuser::test
