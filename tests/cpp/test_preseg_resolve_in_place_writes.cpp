// SPDX-License-Identifier: BSD-3-Clause
// Writes to an input's storage: directly, after a single read of it, or through a copy at the end.
#include "preseg_for_test.h"

namespace nvfuser::test {

class ResolveInPlaceWrites : public PresegTest {
 protected:
  // Whether the write goes through a copy.
  bool resolve(TensorView* out, TensorView* target, bool overlap = false) {
    fusion_.addOutput(out, target);
    std::vector<InPlaceWrite> writes{{out, target}};
    resolveInPlaceWrites(&fusion_, writes, overlap);
    return writes[0].through_copy;
  }
};

TEST_F(ResolveInPlaceWrites, AnElementwiseUpdateReadsTheInputOnce) {
  TensorView* x = input({4, 6});
  EXPECT_FALSE(resolve(add(mul(x, x), neg(x)), x));
  EXPECT_EQ(text(), R"(t0 float32[i4, i6] = Set(x0)
t1 float32[i4, i6] = mul(t0, t0)
t2 float32[i4, i6] = neg(t0)
t3 float32[i4, i6] = add(t1, t2)
outputs: t3
)");
}

TEST_F(ResolveInPlaceWrites, AnUpdateThatReadsOtherElementsGoesThroughACopy) {
  TensorView* x = input({4, 6});
  EXPECT_TRUE(resolve(sub(x, broadcast(sum(x, {1}), {false, true})), x));
  EXPECT_EQ(text(), R"(t0 float32[i4, r6] = reduce add(x0)
t1 float32[i4, b] = broadcast(t0)
t2 float32[i4, i6] = sub(x0, t1)
t3 float32[i4, i6] = Set(t2)
outputs: t3
)");
}

TEST_F(ResolveInPlaceWrites, StorageThatIsReadThroughAnotherArgumentIsWrittenLast) {
  TensorView* x = input({4, 6});
  EXPECT_TRUE(resolve(neg(x), x, /*overlap=*/true));
  EXPECT_EQ(text(), R"(t0 float32[i4, i6] = neg(x0)
t1 float32[i4, i6] = Set(t0)
outputs: t1
)");
}

} // namespace nvfuser::test
