// SPDX-License-Identifier: BSD-3-Clause
// While a definition is rewritten, what a library made is an input of it, and what a library reads
// an output.
#include "preseg_for_test.h"

#include <preseg_passes/cats_in_parts.h>
#include <preseg_passes/library_boundaries.h>

namespace nvfuser::test {

class LibraryBoundaries : public PresegTest {
 protected:
  void cut(const std::unordered_set<const TensorView*>& kept = {}) {
    boundaries_ = cutAtLibraries(&fusion_, kept);
  }
  void join() {
    std::vector<TensorView*> outputs;
    for (Val* v : fusion_.outputs()) {
      if (fusion_.isReturned(v)) {
        outputs.push_back(views_.madeFor(v->as<TensorView>()));
      }
    }
    joinAtLibraries(&fusion_, boundaries_, outputs, parts_, views_);
  }

  std::vector<LibraryBoundary> boundaries_;
  std::vector<OutputPart> parts_;
  MovedViews views_;
};

TEST_F(LibraryBoundaries, WhatALibraryMakesIsAnInputAndWhatItReadsAnOutput) {
  TensorView* x = input({4, 8});
  TensorView* w = input({8, 6});
  TensorView* v = input({6, 3});
  fusion_.addOutput(exp(matmul(relu(matmul(x, w)), v)));
  const std::string before = text();
  cut();
  EXPECT_EQ(boundaries_.size(), 3);
  EXPECT_EQ(text(), R"(t0 float32[i4, i3] = exp(x5)
t1 float32[i4, i6] = matmul(x0, x1)
t2 float32[i4, i6] = relu(x3)
t3 float32[i4, i3] = matmul(x4, x2)
outputs: t0 t1 t2 t3
)");
  join();
  EXPECT_EQ(text(), before);
}

TEST_F(LibraryBoundaries, AViewOfAResultIsAViewOfMemory) {
  TensorView* x = input({4, 8});
  TensorView* w = input({8, 6});
  TensorView* heads = reshape(matmul(x, w), std::vector<int64_t>{4, 2, 3});
  fusion_.addOutput(exp(heads));
  cut();
  takeViewsOfInputs(&fusion_, {}, views_);
  join();
  EXPECT_TRUE(views_.inputs.empty());
  EXPECT_EQ(text(), R"(t0 float32[i4, i6] = matmul(x0, x1)
t1 float32[i4, i2, i3] = memory_view(t0)
t2 float32[i4, i2, i3] = exp(t1)
outputs: t2
)");
}

TEST_F(LibraryBoundaries, APartOfAResultIsOne) {
  TensorView* x = input({4, 8});
  TensorView* w = input({8, 6});
  TensorView* product = matmul(x, w);
  TensorView* half = slice(product, std::vector<int64_t>{0, 3}, std::vector<int64_t>{4, 6});
  fusion_.addOutput(sum(half, {1}));
  cut();
  moveViewsToEnds(&fusion_, {}, views_);
  join();
  EXPECT_EQ(text(), R"(t0 float32[i4, i6] = matmul(x0, x1)
t1 float32[i4, i3] = memory_view(t0, 0, 3)
t2 float32[i4, r3] = reduce add(t1)
outputs: t2
)");
}

TEST_F(LibraryBoundaries, AnOperandMayBeMadeWithOtherDimensions) {
  TensorView* x = input({4, 6, 5});
  TensorView* w = input({15, 7});
  TensorView* rows = reshape(x, std::vector<int64_t>{4, 2, 15});
  TensorView* scaled = mul(rows, broadcast(sum(rows, {2}), {false, false, true}));
  fusion_.addOutput(matmul(reshape(scaled, std::vector<int64_t>{8, 15}), w));
  cut();
  moveViewsToEnds(&fusion_, {}, views_);
  join();
  EXPECT_EQ(text(), R"(t0 float32[i4, i2, r3, r5] = reduce add(x2)
t1 float32[i4, i2, b, b] = broadcast(t0)
t2 float32[i4, i2, i3, i5] = mul(x2, t1)
t3 float32[i4, i2, i15] = memory_view(t2)
t4 float32[i8, i15] of [i4, i2, i15] = reshape(t3)
t5 float32[i8, i7] = matmul(t4, x1)
outputs: t5
)");
}

TEST_F(LibraryBoundaries, WhatIsKeptIsNotCut) {
  TensorView* x = input({4, 8});
  TensorView* w = input({8, 6});
  TensorView* product = matmul(x, w);
  fusion_.addOutput(product);
  fusion_.addOutput(exp(product));
  const std::string before = text();
  cut({product});
  EXPECT_TRUE(boundaries_.empty());
  EXPECT_EQ(text(), before);
}

TEST_F(LibraryBoundaries, ViewsThatALibraryAloneReadsStayWithIt) {
  TensorView* x = input({4, 8});
  TensorView* w = input({8, 6});
  TensorView* product = transpose(matmul(x, w), 0, 1);
  fusion_.addOutput(matmul(product, x));
  cut();
  EXPECT_TRUE(boundaries_.empty());
}

TEST_F(LibraryBoundaries, WhatIsWrittenInPartsIsReadAsAWhole) {
  TensorView* x = input({4, 8});
  TensorView* w = input({16, 6});
  fusion_.addOutput(matmul(cat({div(x, sum(x, {1}, /*keep_dim=*/true)), neg(x)}, 1), w));
  cut();
  writeCatsInParts(&fusion_, 1, {}, parts_);
  join();
  EXPECT_EQ(text(), R"(t0 float32[i4, r8] = reduce add(x0)
t1 float32[i4, b] = broadcast(t0)
t2 float32[i4, i8] = div(x0, t1)
t3 float32[i4, i8] = Set(t2)
t4 float32[i4, i8] = neg(x0)
t5 float32[i4, i8] = Set(t4)
t6 float32[i4, i16] = memory_join(t3, t5)
t7 float32[i4, i6] = matmul(t6, x1)
outputs: t7
)");
}

} // namespace nvfuser::test
