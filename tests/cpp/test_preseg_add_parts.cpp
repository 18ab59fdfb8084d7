// SPDX-License-Identifier: BSD-3-Clause
// Sums of parts beside zeros are the parts side by side.
#include "preseg_for_test.h"

#include <preseg_passes/canonical_form.h>

#include <algorithm>

namespace nvfuser::test {

class AddParts : public PresegTest {
 protected:
  static TensorView* zerosOf(const std::vector<int64_t>& sizes, DataType dtype = DataType::Float) {
    std::vector<Val*> shape;
    for (const int64_t n : sizes) {
      shape.push_back(IrBuilder::index(n));
    }
    return zeros(shape, dtype);
  }

  // Whether something else than the zero that is added to a part is added.
  bool hasSums() {
    return std::ranges::any_of(fusion_.exprs(), [](const Expr* e) {
      const auto* op = tryAs<ElementwiseOp>(e);
      return op != nullptr && op->op() == OpType::Add && op->in(1)->isTensor();
    });
  }
};

TEST_F(AddParts, TwoHalves) {
  TensorView* a = input({8, 16});
  TensorView* b = input({8, 16});
  fusion_.addOutput(add(cat({zerosOf({8, 16}), a}, 1), cat({b, zerosOf({8, 16})}, 1)));
  addParts(&fusion_);
  EXPECT_EQ(text(), R"(t0 float32[i8, i16] = add(x1, double(0))
t1 float32[i8, i32] of [i8, i16] = pad(t0, float(0))
t2 float32[i8, i16] = add(x0, double(0))
t3 float32[i8, i32] of [i8, i16] = pad(t2, float(0))
t4 float32[i8, i32] = cat(t1, t3)
t5 float32[i8, i32] = Set(t4)
outputs: t5
)");
}

// The gradients of three slices: a zero of one lies beside all that the others have there.
TEST_F(AddParts, PartsOfDifferentSizes) {
  TensorView* first = cat({input({8, 16}), zerosOf({8, 40})}, 1);
  TensorView* second = cat({zerosOf({8, 16}), input({8, 8}), zerosOf({8, 32})}, 1);
  TensorView* third = cat({zerosOf({8, 32}), input({8, 24})}, 1);
  fusion_.addOutput(add(add(first, second), third));
  addParts(&fusion_);
  EXPECT_FALSE(hasSums());
}

// The quarters of an image, with its rows and columns in other places.
TEST_F(AddParts, OneInsideTheOther) {
  const auto part = [&](bool row, bool column) {
    TensorView* x = input({4, 8, 16}, DataType::BFloat16);
    TensorView* zero = zerosOf({4, 8, 16}, DataType::BFloat16);
    TensorView* columns = cat(column ? std::vector{zero, x} : std::vector{x, zero}, 1);
    TensorView* wide =
        broadcast(reshape(columns, {4, 2, 8, 16}), {true, false, false, false, false});
    wide = squeeze(wide, std::vector<bool>{true, false, false, false, false});
    wide = permute(wide, {0, 2, 1, 3});
    TensorView* rest = zerosOf({4, 8, 2, 16}, DataType::BFloat16);
    return castOp(DataType::Float, cat(row ? std::vector{rest, wide} : std::vector{wide, rest}, 0));
  };
  TensorView* sum = part(false, false);
  for (const auto& [row, column] : {std::pair{true, false}, {false, true}, {true, true}}) {
    sum = castOp(DataType::Float, castOp(DataType::BFloat16, add(sum, part(row, column))));
  }
  fusion_.addOutput(sum);
  addParts(&fusion_);
  EXPECT_FALSE(hasSums());
}

TEST_F(AddParts, SingleElements) {
  fusion_.addOutput(
      add(cat({zerosOf({8, 1}), input({8, 1})}, 1), cat({input({8, 1}), zerosOf({8, 1})}, 1)));
  addParts(&fusion_);
  EXPECT_FALSE(hasSums());
}

// All of its elements would be computed for each.
TEST_F(AddParts, AStackOfStacksStays) {
  const auto part = [&](int row) {
    TensorView* columns = cat({input({8, 1}), zerosOf({8, 1})}, 1);
    TensorView* wide = broadcast(columns, {false, true, false});
    TensorView* rest = zerosOf({8, 1, 2});
    return cat(row == 1 ? std::vector{rest, wide} : std::vector{wide, rest}, 1);
  };
  fusion_.addOutput(add(part(0), part(1)));
  addParts(&fusion_);
  EXPECT_TRUE(hasSums());
}

// Unless they are all of one tensor.
TEST_F(AddParts, AStackOfStacksOfOneTensor) {
  TensorView* x = input({8, 16}, DataType::BFloat16);
  const DataType dtype = x->dtype();
  TensorView* sum = nullptr;
  for (const int64_t row : {0, 1}) {
    for (const int64_t column : {0, 1}) {
      const int64_t first = 4 * ((2 * column) + row);
      const std::vector<bool> middle = {false, true, false};
      TensorView* part = broadcast(slice(x, {0, first}, {8, first + 4}), middle);
      TensorView* zero = zerosOf({8, 1, 4}, dtype);
      TensorView* columns = cat(column == 0 ? std::vector{part, zero} : std::vector{zero, part}, 1);
      TensorView* wide = broadcast(columns, {false, true, false, false});
      TensorView* rest = zerosOf({8, 1, 2, 4}, dtype);
      TensorView* rows = cat(row == 0 ? std::vector{wide, rest} : std::vector{rest, wide}, 1);
      sum = sum == nullptr ? rows : castOp(dtype, add(sum, rows));
    }
  }
  fusion_.addOutput(sum);
  addParts(&fusion_);
  EXPECT_FALSE(hasSums());
}

TEST_F(AddParts, ValuesThatMeetAreAdded) {
  TensorView* zero = zerosOf({8, 16});
  fusion_.addOutput(add(cat({zero, input({8, 16})}, 1), cat({input({8, 8}), zerosOf({8, 24})}, 1)));
  fusion_.addOutput(add(cat({zero, input({8, 16})}, 1), cat({zero, input({8, 16})}, 1)));
  fusion_.addOutput(add(cat({zero, input({8, 16})}, 1), input({8, 32})));
  addParts(&fusion_);
  EXPECT_EQ(std::ranges::count_if(fusion_.exprs(),
                                  [](const Expr* e) { return e->kind() == ExprKind::CatOp; }),
            4);
}

} // namespace nvfuser::test
