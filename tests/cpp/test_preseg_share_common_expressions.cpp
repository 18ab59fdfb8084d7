// SPDX-License-Identifier: BSD-3-Clause
// Equal operations on equal operands are made once.
#include "preseg_for_test.h"

#include <preseg_passes/canonical_form.h>

namespace nvfuser::test {

class ShareCommonExpressions : public PresegTest {
 protected:
  static Val* constant(double value) {
    return IrBuilder::create<Val>(value);
  }
};

TEST_F(ShareCommonExpressions, InAnyOrderOfOperands) {
  TensorView* x = input({4, 8});
  TensorView* y = input({4, 8});
  fusion_.addOutput(sub(exp(add(x, y)), mul(exp(add(y, x)), constant(2))));
  shareCommonExpressions(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = add(x0, x1)
t1 float32[i4, i8] = exp(t0)
t2 float32[i4, i8] = mul(t1, double(2))
t3 float32[i4, i8] = sub(t1, t2)
outputs: t3
)");
}

TEST_F(ShareCommonExpressions, OfReductionsAndViews) {
  TensorView* x = input({4, 8});
  const auto mean = [&] { return broadcast(div(sum(x, {1}), constant(8)), {false, true}); };
  fusion_.addOutput(mul(sub(x, mean()), sub(x, mean())));
  shareCommonExpressions(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, r8] = reduce add(x0)
t1 float32[i4] = div(t0, double(8))
t2 float32[i4, b] = broadcast(t1)
t3 float32[i4, i8] = sub(x0, t2)
t4 float32[i4, i8] = mul(t3, t3)
outputs: t4
)");
}

TEST_F(ShareCommonExpressions, NotOfWhatDiffersInAField) {
  TensorView* x = input({4, 4});
  fusion_.addOutput(add(permute(x, {1, 0}), x));
  fusion_.addOutput(
      add(broadcast(sum(x, {0}), {true, false}), broadcast(sum(x, {1}), {false, true})));
  fusion_.addOutput(sub(castOp(DataType::Half, x), castOp(DataType::BFloat16, x)));
  const std::string before = text();
  shareCommonExpressions(&fusion_);
  EXPECT_EQ(text(), before);
}

TEST_F(ShareCommonExpressions, EachRandomTensorIsItsOwn) {
  TensorView* x = input({4});
  fusion_.addOutput(sub(rand_like(x), rand_like(x)));
  const std::string before = text();
  shareCommonExpressions(&fusion_);
  EXPECT_EQ(text(), before);
}

TEST_F(ShareCommonExpressions, BothOutputsStay) {
  TensorView* x = input({4});
  fusion_.addOutput(exp(x));
  fusion_.addOutput(exp(x));
  shareCommonExpressions(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4] = exp(x0)
t1 float32[i4] = Set(t0)
outputs: t0 t1
)");
}

TEST_F(ShareCommonExpressions, ATableIsNotItsOwnIndex) {
  TensorView* x = input({4}, DataType::Int);
  TensorView* table = add(x, x);
  fusion_.addOutput(index_select(table, add(x, x), 0));
  shareCommonExpressions(&fusion_);
  EXPECT_EQ(text(), R"(t0 int64[i4] = add(x0, x0)
t1 int64[i4] = add(x0, x0)
t2 int64[i4] = index_select(t0, t1)
outputs: t2
)");
}

} // namespace nvfuser::test
