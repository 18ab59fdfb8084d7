// SPDX-License-Identifier: BSD-3-Clause
// What is an input seen with other dimensions is a view of it; what is returned with other
// dimensions than it is computed with is made with those.
#include "preseg_for_test.h"

namespace nvfuser::test {

class ViewsAtEnds : public PresegTest {
 protected:
  void take(const std::unordered_set<const TensorView*>& kept = {}) {
    makeOutputsBeforeViews(&fusion_, kept, views_);
    takeViewsOfInputs(&fusion_, kept, views_);
  }
  void expectUnchanged(const std::unordered_set<const TensorView*>& kept = {}) {
    const std::string before = text();
    take(kept);
    EXPECT_EQ(text(), before);
    EXPECT_TRUE(views_.inputs.empty());
    EXPECT_TRUE(views_.outputs.empty());
  }

  // Between the rows of its second dimension.
  TensorView* inputWithGaps() {
    TensorView* x = TensorViewBuilder()
                        .shape({4, 3, 5})
                        .dtype(DataType::Float)
                        .contiguity({true, false, true})
                        .build();
    fusion_.addInput(x);
    return x;
  }

  static TensorView* rows(TensorView* tv, int64_t start, int64_t stop) {
    std::vector<int64_t> starts(tv->getLogicalDomain().size(), 0);
    std::vector<int64_t> stops;
    for (const IterDomain* id : tv->getLogicalDomain()) {
      stops.push_back(id->extent()->intValue());
    }
    starts.front() = start;
    stops.front() = stop;
    return slice(tv, starts, stops);
  }

  MovedViews views_;
};

TEST_F(ViewsAtEnds, ALookupsTableIsWhereItLies) {
  TensorView* x = input({4, 3, 5});
  TensorView* index = input({7}, DataType::Int);
  fusion_.addOutput(neg(index_select(reshape(x, std::vector<int64_t>{4, 15}), index, 1)));
  fusion_.addOutput(exp(x));
  take();
  EXPECT_EQ(text(), R"(t0 float32[i4, i7] = index_select(x2, x1)
t1 float32[i4, i7] = neg(t0)
t2 float32[i4, i3, i5] = exp(x0)
outputs: t1 t2
)");
  ASSERT_EQ(views_.inputs.size(), 1u);
  EXPECT_EQ(views_.inputs.front().source, x);
}

TEST_F(ViewsAtEnds, TokensThatAreFlattenedAndUnflattened) {
  TensorView* x = input({4, 3, 5});
  TensorView* y = exp(reshape(x, std::vector<int64_t>{12, 5}));
  fusion_.addOutput(reshape(y, std::vector<int64_t>{4, 3, 5}));
  take();
  EXPECT_EQ(text(), R"(t0 float32[i12, i5] = exp(x1)
outputs: t0
)");
  ASSERT_EQ(views_.inputs.size(), 1u);
  ASSERT_EQ(views_.outputs.size(), 1u);
  EXPECT_EQ(views_.outputs.front().made, fusion_.outputs().front());
}

TEST_F(ViewsAtEnds, DimensionsOfSizeOneComeAndGo) {
  TensorView* x = input({1, 3, 5});
  TensorView* y = exp(squeeze(x, std::vector<int64_t>{0}));
  fusion_.addOutput(broadcast(y, {false, true, false}));
  take();
  EXPECT_EQ(text(), R"(t0 float32[i3, i5] = exp(x1)
outputs: t0
)");
}

TEST_F(ViewsAtEnds, AViewMayBeViewedAgain) {
  TensorView* x = input({1, 12, 5});
  TensorView* y = reshape(squeeze(x, std::vector<int64_t>{0}), std::vector<int64_t>{4, 3, 5});
  fusion_.addOutput(exp(y));
  take();
  EXPECT_EQ(text(), R"(t0 float32[i4, i3, i5] = exp(x2)
outputs: t0
)");
  ASSERT_EQ(views_.inputs.size(), 2u);
  EXPECT_EQ(views_.inputs.back().source, views_.inputs.front().view);
}

TEST_F(ViewsAtEnds, WhatIsReturnedInTwoShapesIsMadeOnce) {
  TensorView* x = input({12, 5});
  TensorView* y = exp(x);
  fusion_.addOutput(y);
  fusion_.addOutput(reshape(y, std::vector<int64_t>{4, 3, 5}));
  take();
  EXPECT_EQ(text(), R"(t0 float32[i12, i5] = exp(x0)
outputs: t0
)");
  ASSERT_EQ(views_.outputs.size(), 1u);
  EXPECT_EQ(views_.outputs.front().made, y);
}

// Others compute it again rather than to read it.
TEST_F(ViewsAtEnds, WhatIsCheapIsMadeForTheCallerAlone) {
  TensorView* x = input({12, 5});
  TensorView* y = exp(x);
  fusion_.addOutput(sum(y, {0, 1}));
  fusion_.addOutput(reshape(y, std::vector<int64_t>{4, 3, 5}));
  fusion_.addOutput(broadcast(y, {true, false, false}));
  take();
  EXPECT_EQ(text(), R"(t0 float32[i12, i5] = exp(x0)
t1 float32[r12, r5] = reduce add(t0)
t2 float32[i12, i5] = Set(t0)
outputs: t1 t2
)");
}

TEST_F(ViewsAtEnds, PartsThatAreAllOfATensorLieInIt) {
  TensorView* x = input({4, 3, 5});
  TensorView* y = exp(x);
  fusion_.addOutput(squeeze(rows(y, 1, 2), std::vector<int64_t>{0}));
  fusion_.addOutput(rows(y, 2, 4));
  fusion_.addOutput(rows(y, 0, 1));
  take();
  EXPECT_EQ(text(), R"(t0 float32[i4, i3, i5] = exp(x0)
outputs: t0
)");
  ASSERT_EQ(views_.outputs.size(), 4u); // one is squeezed after it is taken
  std::vector<int64_t> offsets;
  for (const OutputView& view : views_.outputs) {
    EXPECT_EQ(view.made, y);
    offsets.push_back(view.offset->intValue());
  }
  EXPECT_EQ(offsets, (std::vector<int64_t>{15, 15, 30, 0}));
}

TEST_F(ViewsAtEnds, APartOfAResultLiesInIt) {
  TensorView* y = exp(input({4, 3}));
  fusion_.addOutput(y);
  fusion_.addOutput(rows(y, 1, 3));
  take();
  EXPECT_EQ(text(), R"(t0 float32[i4, i3] = exp(x0)
outputs: t0
)");
  ASSERT_EQ(views_.outputs.size(), 1u);
  EXPECT_EQ(views_.outputs.front().offset->intValue(), 3);
}

TEST_F(ViewsAtEnds, PartsOfPartsLieInTheWhole) {
  TensorView* y = exp(input({4, 3}));
  TensorView* end = rows(y, 2, 4);
  fusion_.addOutput(rows(y, 0, 2));
  fusion_.addOutput(rows(end, 0, 1));
  fusion_.addOutput(rows(end, 1, 2));
  take();
  EXPECT_EQ(text(), R"(t0 float32[i4, i3] = exp(x0)
outputs: t0
)");
  EXPECT_EQ(views_.madeFor(fusion_.outputs().front()->as<TensorView>()), y);
}

TEST_F(ViewsAtEnds, SomePartsOrPartsInPiecesStay) {
  TensorView* y = exp(input({4, 3}));
  fusion_.addOutput(rows(y, 0, 1));
  fusion_.addOutput(rows(y, 2, 4));
  TensorView* z = neg(input({4, 3}));
  const auto column = [&](int64_t start, int64_t stop) {
    return slice(z, std::vector<int64_t>{0, start}, std::vector<int64_t>{4, stop});
  };
  fusion_.addOutput(column(0, 1));
  fusion_.addOutput(column(1, 3));
  expectUnchanged();
}

// As thirds of a dimension of any size, of which the first is not returned.
TEST_F(ViewsAtEnds, PartsAtPositionsThatAreComputedStay) {
  TensorView* y = exp(input({-1, 3}));
  Val* size = y->getLogicalDomain()[0]->extent();
  const auto third = [&](int64_t i) {
    return IrBuilder::mulExpr(IrBuilder::divExpr(size, IrBuilder::index(3)), IrBuilder::index(i));
  };
  const auto part = [&](Val* start, Val* stop) {
    return slice(y, {start, IrBuilder::index(0)}, {stop, IrBuilder::index(3)});
  };
  fusion_.addOutput(part(third(1), third(2)));
  fusion_.addOutput(part(third(2), size));
  expectUnchanged();
}

TEST_F(ViewsAtEnds, GapsBetweenWhatIsMergedStay) {
  TensorView* x = inputWithGaps();
  TensorView* rows = reshape(x, std::vector<int64_t>{12, 5});
  fusion_.addOutput(exp(rows));
  take();
  EXPECT_EQ(text(), R"(t0 float32[i12, i5] = exp(x1)
outputs: t0
)");
  EXPECT_EQ(views_.inputs.front().view->getContiguity(), (TensorDomain::Contiguity{false, true}));
}

TEST_F(ViewsAtEnds, WhatCanNotBeMergedIsCopied) {
  TensorView* x = inputWithGaps();
  fusion_.addOutput(exp(reshape(x, std::vector<int64_t>{4, 15})));
  expectUnchanged();
}

TEST_F(ViewsAtEnds, WhatIsWrittenOrReadOtherwiseStays) {
  TensorView* x = input({4, 3, 5});
  TensorView* y = input({4, 3, 5});
  fusion_.addOutput(exp(reshape(x, std::vector<int64_t>{4, 15})));
  fusion_.addOutput(exp(reshape(y, std::vector<int64_t>{4, 15})));
  fusion_.addOutput(exp(y));
  expectUnchanged({x});
}

} // namespace nvfuser::test
