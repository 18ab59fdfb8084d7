// SPDX-License-Identifier: BSD-3-Clause
// Library ops get views of their own where others need them too.
#include "preseg_for_test.h"

#include <definition/library_views.h>

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

// A kernel writes it once, whichever way libraries read it; what is cut out is written alone.
TEST_F(SeparateLibraryViews, AResultOfAKernelIsReadInAnyOrder) {
  TensorView* result = castOp(DataType::BFloat16, neg(input({4, 8}, DataType::BFloat16)));
  TensorView* view = transpose(result, 0, 1);
  fusion_.addOutput(matmul(result, view));
  fusion_.addOutput(matmul(slice(result, {0, 0}, {2, 8}), view));
  separateViewsForLibraryOps(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i4, i8] = cast(x0)
t1 float32[i4, i8] = neg(t0)
t2 bfloat16[i4, i8] = cast(t1)
t3 bfloat16[i8, i4] of [i4, i8] = Set(t2)
t4 bfloat16[i4, i4] = matmul(t2, t3)
t5 bfloat16[i2, i8] of [i4, i8] = slice(t2)
t6 bfloat16[i8, i4] of [i4, i8] = Set(t2)
t7 bfloat16[i2, i4] = matmul(t5, t6)
outputs: t4 t7
)");
}

// A permuted tensor is reshaped by a copy, which a kernel makes.
TEST_F(SeparateLibraryViews, AResultOfAKernelIsReshapedOnlyInItsOrder) {
  TensorView* x = castOp(DataType::BFloat16, neg(input({2, 4, 8}, DataType::BFloat16)));
  const auto views = [](TensorView* operand) {
    std::vector<std::string> kinds;
    for (const Expr* e : viewsBehind(operand)) {
      kinds.emplace_back(e->opName());
    }
    return kinds;
  };
  using Kinds = std::vector<std::string>;
  EXPECT_EQ(views(transpose(reshape(x, {int64_t{8}, 8}), 0, 1)), (Kinds{"reshape", "Set"}));
  EXPECT_EQ(views(reshape(transpose(x, 0, 1), {int64_t{8}, 8})), (Kinds{"reshape"}));
}

} // namespace nvfuser::test
