// SPDX-License-Identifier: BSD-3-Clause
// Sums of products that differ in what all terms share are one sum.
#include "preseg_for_test.h"

#include <preseg_passes/canonical_form.h>

namespace nvfuser::test {

class ShareSums : public PresegTest {
 protected:
  // Of [4, 8], the same for all rows.
  TensorView* ofColumns() {
    return broadcast(input({8}), {true, false});
  }
  std::string shared(const std::vector<TensorView*>& outs) {
    for (TensorView* out : outs) {
      fusion_.addOutput(out);
    }
    shareSums(&fusion_);
    return text();
  }
};

TEST_F(ShareSums, AFactorOfAllTermsLeavesASumThatIsThereWithoutIt) {
  TensorView* g = input({4, 8});
  TensorView* w = ofColumns();
  EXPECT_EQ(shared({sum(mul(g, w), {0}), sum(g, {0})}), R"(t0 float32[r4, i8] = reduce add(x0)
t1 float32[i8] = mul(t0, x1)
outputs: t1 t0
)");
}

TEST_F(ShareSums, ProductsInAnyOrderAndWithScalars) {
  TensorView* g = input({4, 8});
  TensorView* x = input({4, 8});
  TensorView* w = ofColumns();
  TensorView* r = ofColumns();
  TensorView* first = mul(mul(mul(g, w), x), r);
  TensorView* second = mul(mul(x, constant(2.0))->as<TensorView>(), mul(r, g));
  EXPECT_EQ(shared({sum(first, {0}), sum(second, {0})}), R"(t0 float32[i4, i8] = mul(x0, x1)
t1 float32[r4, i8] = reduce add(t0)
t2 float32[i8] = mul(t1, x2)
t3 float32[i8] = mul(t2, x3)
t4 float32[i8] = mul(t1, double(2))
t5 float32[i8] = mul(t4, x3)
outputs: t3 t5
)");
}

// Alone, or with other factors, it would only be rounded differently.
TEST_F(ShareSums, NothingIsTakenOutForNothing) {
  TensorView* g = input({4, 8});
  TensorView* x = input({4, 8});
  TensorView* w = ofColumns();
  EXPECT_EQ(shared({sum(mul(g, w), {0}), sum(x, {0}), sum(g, {1})}),
            R"(t0 float32[b, i8] = broadcast(x2)
t1 float32[i4, i8] = mul(x0, t0)
t2 float32[r4, i8] = reduce add(t1)
t3 float32[r4, i8] = reduce add(x1)
t4 float32[i4, r8] = reduce add(x0)
outputs: t2 t3 t4
)");
}

} // namespace nvfuser::test
