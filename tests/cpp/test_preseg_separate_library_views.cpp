// SPDX-License-Identifier: BSD-3-Clause
// Library ops get views of their own where others need them too.
#include "preseg_for_test.h"

namespace nvfuser::test {

class SeparateLibraryViews : public PresegTest {};

TEST_F(SeparateLibraryViews, AViewThatIsReadElsewhereIsMadeTwice) {
  TensorView* a = input({4, 8}, DataType::Half);
  TensorView* weight = input({6, 8}, DataType::Half);
  TensorView* view = transpose(weight, 0, 1);
  fusion_.addOutput(matmul(a, view));
  fusion_.addOutput(neg(view));
  separateViewsForLibraryOps(&fusion_);
  EXPECT_EQ(text(), R"(t0 float16[i8, i6] of [i6, i8] = Set(x1)
t1 float16[i4, i6] = matmul(x0, t0)
t2 float16[i8, i6] of [i6, i8] = Set(x1)
t3 float32[i8, i6] = cast(t2)
t4 float32[i8, i6] = neg(t3)
outputs: t1 t4
)");
}

TEST_F(SeparateLibraryViews, AViewForTheLibraryAloneStays) {
  TensorView* a = input({4, 8}, DataType::Half);
  TensorView* weight = input({6, 8}, DataType::Half);
  fusion_.addOutput(matmul(a, transpose(weight, 0, 1)));
  separateViewsForLibraryOps(&fusion_);
  EXPECT_EQ(text(), R"(t0 float16[i8, i6] of [i6, i8] = Set(x1)
t1 float16[i4, i6] = matmul(x0, t0)
outputs: t1
)");
}

} // namespace nvfuser::test
