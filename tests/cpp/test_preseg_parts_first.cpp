// SPDX-License-Identifier: BSD-3-Clause
// What is put together of parts comes first in a sum.
#include "preseg_for_test.h"

#include <preseg_passes/canonical_form.h>

namespace nvfuser::test {

using PartsFirst = PresegTest;

TEST_F(PartsFirst, Joined) {
  TensorView* left = input({8, 16});
  TensorView* halves = cat({left, input({8, 16})}, 1);
  fusion_.addOutput(add(neg(input({8, 32})), halves));
  putPartsFirst(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i8, i32] of [i8, i16] = pad(x0, float(0))
t1 float32[i8, i32] of [i8, i16] = pad(x1, float(0))
t2 float32[i8, i32] = cat(t0, t1)
t3 float32[i8, i32] = neg(x2)
t4 float32[i8, i32] = add(t2, t3)
outputs: t4
)");
}

TEST_F(PartsFirst, Padded) {
  const std::vector<int64_t> behind{0, 16};
  const std::vector<int64_t> before{16, 0};
  TensorView* left = pad(input({8, 16}), behind);
  TensorView* halves = add(left, pad(input({8, 16}), before));
  fusion_.addOutput(add(input({8, 32}), halves));
  putPartsFirst(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i8, i32] of [i8, i16] = pad(x0, float(0))
t1 float32[i8, i32] of [i8, i16] = pad(x1, float(0))
t2 float32[i8, i32] = add(t0, t1)
t3 float32[i8, i32] = add(t2, x2)
outputs: t3
)");
}

// Both are, or neither: they stay in the order in which they were written.
TEST_F(PartsFirst, NotBothOrNeither) {
  const std::vector<int64_t> behind{0, 16};
  TensorView* padded = pad(input({8, 16}), behind);
  fusion_.addOutput(add(padded, cat({input({8, 16}), input({8, 16})}, 1)));
  fusion_.addOutput(sub(input({8, 32}), padded));
  const std::string before = text();
  putPartsFirst(&fusion_);
  EXPECT_EQ(text(), before);
}

} // namespace nvfuser::test
