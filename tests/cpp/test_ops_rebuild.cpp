// SPDX-License-Identifier: BSD-3-Clause
// Concretization: decisions, the concrete fusion, and which shapes share one.
#include <ops_for_test.h>

#include <definition/extent_constraints.h>
#include <definition/rebuild.h>

namespace nvfuser {
namespace {

using testing_utils::domainText;
using testing_utils::hasText;
using testing_utils::OpsTest;
using testing_utils::userError;
using Ints = std::vector<int64_t>;
using Vals = std::vector<Val*>;
using Tvs = std::vector<TensorView*>;

class RebuildTest : public OpsTest {
 protected:
  // Sizes of the inputs, in order. `asks_elements`: which expressions have elements is decided too.
  Concretization decisions(const std::vector<Ints>& sizes, bool asks_elements = false,
                           SizesSeen* seen = nullptr) {
    ScalarEvaluator evaluator;
    size_t next = 0;
    for (const Val* v : fusion_.inputs()) {
      if (!v->isTensor()) {
        evaluator.bind(v, sizes.at(next++).at(0));
        continue;
      }
      const auto& ids = v->as<TensorView>()->getLogicalDomain();
      for (size_t d = 0; d < ids.size(); ++d) {
        if (!ids[d]->getMaybeExpandedExtent()->isConst()) {
          evaluator.bind(ids[d]->getMaybeExpandedExtent(), sizes.at(next).at(d));
        }
      }
      ++next;
    }
    Concretization out = concretizationInfo(fusion_, evaluator, SizesOfOne::MayBeBroadcasts, seen);
    if (asks_elements) {
      out.elements = elementsOf(fusion_, evaluator);
    }
    return out;
  }

  // Domain of the first output after concretization.
  std::string concreteOutput(const std::vector<Ints>& sizes) {
    EXPECT_TRUE(needsConcretization(fusion_));
    concrete_ = std::make_unique<Fusion>();
    concretize(fusion_, decisions(sizes), concrete_.get(), &mapping_);
    EXPECT_TRUE(symbolicDomains(*concrete_).empty());
    EXPECT_TRUE(std::none_of(concrete_->exprs().begin(), concrete_->exprs().end(), isOpenReshape));
    EXPECT_EQ(concrete_->inputs().size(), fusion_.inputs().size());
    return domainText(concrete_->outputs().at(0)->as<TensorView>());
  }

  std::vector<std::string> concreteOps() {
    std::vector<std::string> out;
    for (const Expr* e : concrete_->exprs()) {
      out.push_back(e->opName());
    }
    return out;
  }

  std::unique_ptr<Fusion> concrete_;
  std::unordered_map<const Val*, Val*> mapping_;
};

using Names = std::vector<std::string>;

TEST_F(RebuildTest, PointwiseNeedsNone) {
  fusion_.addOutput(neg(input({-1, 4})));
  EXPECT_FALSE(needsConcretization(fusion_));
}

TEST_F(RebuildTest, FlattenIsOneMergeForEveryShape) {
  auto* a = input({-1, -1});
  fusion_.addOutput(neg(reshape(a, Ints{-1})));
  EXPECT_EQ(concreteOutput({{3, 5}}), "[i ( i0 * i1 )]");
  EXPECT_EQ(concreteOps(), (Names{"reshape", "neg"}));
  auto* view = concrete_->exprs()[0]->output(0)->as<TensorView>();
  ASSERT_TRUE(view->hasRoot());
  EXPECT_TRUE(view->getLogicalDomain()[0]->definition()->isA<Merge>());
  EXPECT_TRUE(view->getLogicalDomain()[0]->isRfactorProduct());
  EXPECT_EQ(decisions({{3, 5}}), decisions({{7, 11}}));
  EXPECT_EQ(decisions({{3, 5}}).hash(), decisions({{7, 11}}).hash());
  // A leading size of 1 makes no difference: it is merged as well.
  EXPECT_EQ(decisions({{3, 5}}), decisions({{1, 5}}));
  // One element and none are other cases.
  EXPECT_NE(decisions({{3, 5}}), decisions({{1, 1}}));
  EXPECT_NE(decisions({{3, 5}}), decisions({{0, 5}}));
}

TEST_F(RebuildTest, OneElementBecomesABroadcast) {
  fusion_.addOutput(reshape(input({-1, -1}), Ints{-1}));
  EXPECT_EQ(concreteOutput({{1, 1}}), "[b 1]");
  EXPECT_EQ(concreteOps(), (Names{"squeeze", "broadcast"}));
}

TEST_F(RebuildTest, NoElementsAreFilled) {
  fusion_.addOutput(reshape(input({-1, 4}), Ints{2, -1}));
  concreteOutput({{0, 4}});
  EXPECT_EQ(concreteOps(), (Names{"full"}));
}

// A kernel of them would have loops without iterations around elements.
TEST_F(RebuildTest, WhatIsAccumulatedOfNothingIsWhatAccumulatingStartsFrom) {
  auto* a = input({-1, 4});
  auto* b = input({-1}, DataType::Int);
  auto* values = input({-1});
  auto* largest = max(neg(a), {0});
  fusion_.addOutput(largest);
  fusion_.addOutput(sum(a, {1}));
  fusion_.addOutput(scatter(largest, b, values, 0));
  fusion_.addOutput(Welford(a, {0}).avg);
  EXPECT_TRUE(decisions({{3, 4}, {2}, {2}}, true).elements.empty());
  const Concretization none = decisions({{0, 4}, {0}, {0}}, true);
  using enum Elements;
  EXPECT_EQ(none.elements, (std::vector{None, MadeOfNone, None, MadeOfNone, MadeOfNone}));
  concrete_ = std::make_unique<Fusion>();
  concretize(fusion_, none, concrete_.get());
  EXPECT_EQ(concreteOps(), (Names{"full", "full", "Set", "full"}));
  const auto& outputs = concrete_->outputs();
  EXPECT_EQ(outputs[0]->definition()->input(0)->toInlineString(), "float(-inf)");
  EXPECT_EQ(domainText(outputs[0]->as<TensorView>()), "[i 4]");
  EXPECT_EQ(outputs[2]->definition()->input(0), outputs[0]);
  EXPECT_EQ(outputs[3]->definition()->input(0)->toInlineString(), "float(0)");
}

TEST_F(RebuildTest, SplitsAreByTheSizesOfTheResult) {
  fusion_.addOutput(reshape(input({-1, 12}), Ints{4, 3, 2}));
  EXPECT_EQ(concreteOutput({{2, 12}}), "[i 4, i 3, i 2]");
  auto* view = concrete_->outputs()[0]->as<TensorView>();
  EXPECT_EQ(view->getRootDomain().size(), 2);
  EXPECT_TRUE(view->getLogicalDomain()[2]->definition()->as<Split>()->isDivisible());
}

TEST_F(RebuildTest, ConstantSizesAreAViewAtOnce) {
  fusion_.addOutput(reshape(input({2, 12}), Ints{4, 3, 2}));
  EXPECT_FALSE(needsConcretization(fusion_));
  EXPECT_EQ(fusion_.outputs()[0]->as<TensorView>()->getRootDomain().size(), 2);
  // Replayed next to an open one.
  fusion_.addOutput(reshape(input({-1, 12}), Ints{4, 3, 2}));
  EXPECT_EQ(concreteOutput({{}, {2, 12}}), "[i 4, i 3, i 2]");
}

TEST_F(RebuildTest, EqualDimensionsStayUntouched) {
  auto* a = input({-1, 6, -1});
  fusion_.addOutput(
      reshape(a, Vals{IrBuilder::index(-1), IrBuilder::index(2), IrBuilder::index(3), size(a, 2)}));
  EXPECT_EQ(concreteOutput({{5, 6, 7}}), "[i i0, i 2, i 3, i i2]");
  auto* view = concrete_->outputs()[0]->as<TensorView>();
  EXPECT_EQ(view->getRootDomain()[0], view->getLogicalDomain()[0]);
  EXPECT_EQ(view->getRootDomain()[2], view->getLogicalDomain()[3]);
  EXPECT_EQ(decisions({{5, 6, 7}}), decisions({{4, 6, 9}}));
}

TEST_F(RebuildTest, BroadcastsAreSqueezedAndInserted) {
  fusion_.addOutput(reshape(input({1, 6, 1}), Ints{3, 1, 2}));
  EXPECT_EQ(concreteOutput({{1, 6, 1}}), "[i 3, b 1, i 2]");
  EXPECT_EQ(concreteOps(), (Names{"squeeze", "reshape", "broadcast"}));
}

TEST_F(RebuildTest, SameShapeIsACopy) {
  fusion_.addOutput(reshape(input({4, 6}), Ints{4, 6}));
  EXPECT_EQ(concreteOutput({{4, 6}}), "[i 4, i 6]");
  EXPECT_EQ(concreteOps(), (Names{"Set"}));
}

TEST_F(RebuildTest, ExpandedBroadcastsTakePart) {
  fusion_.addOutput(reshape(expand(input({1, 3}), shapeVals({4, -1})), Ints{12}));
  EXPECT_EQ(concreteOutput({{1, 3}}), "[i 12]");
  EXPECT_EQ(concreteOps(), (Names{"expand", "Set", "reshape"}));
}

TEST_F(RebuildTest, ElementCountsMustAgree) {
  fusion_.addOutput(reshape(input({-1, 4}), Ints{3, 4}));
  EXPECT_TRUE(hasText(userError([&] { decisions({{2, 4}}); }),
                      "Total element counts across view operation must match"));
}

TEST_F(RebuildTest, SymbolicDimensionsAreDecided) {
  auto* a = input({-1});
  auto* b = input({-1});
  fusion_.addOutput(add(slice(a, Ints{0}, Ints{3}), b));
  EXPECT_EQ(concreteOutput({{8}, {3}}).substr(0, 2), "[i");
  EXPECT_TRUE(
      concrete_->exprs()[0]->output(0)->as<TensorView>()->getLogicalDomain()[0]->isIteration());
  concreteOutput({{1}, {3}});
  EXPECT_TRUE(
      concrete_->exprs()[0]->output(0)->as<TensorView>()->getLogicalDomain()[0]->isBroadcast());
  EXPECT_EQ(concrete_->outputs()[0]->as<TensorView>()->getLogicalDomain()[0]->extent()->toString(),
            "i1");
  EXPECT_EQ(decisions({{8}, {3}}), decisions({{5}, {3}}));
  EXPECT_NE(decisions({{8}, {3}}), decisions({{1}, {3}}));
}

TEST_F(RebuildTest, ASliceOfAllIsACopy) {
  auto* a = input({-1});
  fusion_.addOutput(exp(slice(a, Ints{0}, Ints{3})));
  concreteOutput({{8}});
  EXPECT_EQ(concreteOps(), (Names{"slice", "exp"}));
  concreteOutput({{3}});
  EXPECT_EQ(concreteOps(), (Names{"Set", "exp"}));
  EXPECT_NE(decisions({{8}}), decisions({{3}}));
}

TEST_F(RebuildTest, ReplaysEveryKindOfOp) {
  auto* a = input({-1, -1});
  Val* n = scalarInput(DataType::Int);
  auto* r = reshape(a, Vals{IrBuilder::index(-1), n});
  auto* p = permute(r, {1, 0});
  auto* padded = pad(p, Ints{1, 1});
  auto* joined = cat(Tvs{padded, padded}, 0);
  auto* ordered = stride_order(joined, {0, 1});
  auto* random = rand_like(ordered);
  auto* counted = iota(size(ordered, 1));
  auto* filled = full(Vals{size(ordered, 0), size(ordered, 1)}, constant(2.0), DataType::Float);
  auto* wide =
      expand(broadcast(counted, {true, false}), Vals{size(ordered, 0), IrBuilder::index(-1)});
  auto* sum = add(add(add(ordered, random), wide), filled);
  fusion_.addOutput(segment_set(triu(sum)));
  concreteOutput({{4, 6}, {3}});
  const Names ops = concreteOps();
  const auto has = [&](const char* name) {
    return std::find(ops.begin(), ops.end(), name) != ops.end();
  };
  for (const char* name : {"reshape", "Set", "pad", "cat", "uniform", "iota", "full", "expand",
                           "broadcast", "where", "SegmenterSet"}) {
    EXPECT_TRUE(has(name)) << name;
  }
  EXPECT_EQ(concrete_->numStatefulRng(), 1);
  auto* new_ordered = mapping_.at(ordered)->as<TensorView>();
  EXPECT_TRUE(new_ordered->domain()->hasAllocation());
  EXPECT_EQ(mapping_.at(n), concrete_->inputs()[1]);
  for (const TensorView* tv : concrete_->allTvs()) {
    for (const IterDomain* id : tv->getLogicalDomain()) {
      EXPECT_FALSE(id->isSymbolicType()) << tv->toString();
    }
  }
}

TEST_F(RebuildTest, KeepsOutputsAndAliases) {
  auto* a = input({-1});
  auto* r = reshape(a, Ints{-1, 2});
  auto* back = reshape(r, Vals{size(a, 0)});
  r->setSourceLocation("model.py:3");
  fusion_.addOutput(r);
  fusion_.addOutput(back, a);
  fusion_.addOutput(a);
  concreteOutput({{8}});
  ASSERT_EQ(concrete_->outputs().size(), 3);
  EXPECT_EQ(concrete_->outputAliases()[0].input, nullptr);
  EXPECT_EQ(concrete_->outputAliases()[1].input, concrete_->inputs()[0]);
  EXPECT_TRUE(concrete_->outputAliases()[1].hidden);
  EXPECT_EQ(concrete_->outputs()[2], concrete_->inputs()[0]);
  EXPECT_EQ(concrete_->outputs()[0]->as<TensorView>()->sourceLocation(), "model.py:3");
}

TEST_F(RebuildTest, SqueezeOfWhatIsNotOneIsAnErrorOnceShapesAreKnown) {
  auto* s = slice(input({-1, 4}), Ints{0, 0}, Ints{1, 4});
  fusion_.addOutput(squeeze(reshape(s, Vals{size(s, 0), IrBuilder::index(4)}), Ints{0}));
  EXPECT_EQ(concreteOutput({{5, 4}}), "[i 4]");
  EXPECT_TRUE(hasText(userError([&] {
                        Fusion to;
                        concretize(fusion_, decisions({{0, 4}}), &to);
                      }),
                      "squeeze"));
}

TEST_F(RebuildTest, ListsExtentsThatMustAgree) {
  auto* a = input({-1, 4});
  auto* b = input({-1, 1});
  fusion_.addOutput(add(a, b));
  const auto constraints = extentConstraints(fusion_);
  ASSERT_EQ(constraints.size(), 1);
  EXPECT_EQ(constraints[0].producer, b);
  EXPECT_EQ(constraints[0].dim, 0);
  EXPECT_EQ(constraints[0].consumer_extent, size(a, 0));
}

// Each as it is until a call has another size; then one for all that are as large as the first.
TEST_F(RebuildTest, SizesAreConstantsUntilTheyVary) {
  auto* x = input({-1, -1});
  auto* y = input({-1, -1});
  fusion_.addOutput(add(slice(x, Ints{0, 0}, Ints{4, 4}), slice(y, Ints{0, 0}, Ints{4, 4})));
  SizesSeen seen(fusion_);
  const auto decide = [&](const std::vector<Ints>& sizes) {
    return decisions(sizes, false, &seen).input_sizes;
  };
  using All = std::vector<InputSize>;
  const All first = {{8, 0}, {16, 1}, {8, 2}, {16, 3}};
  EXPECT_EQ(decide({{8, 16}, {8, 16}}), first);
  EXPECT_EQ(decide({{8, 16}, {8, 16}}), first);
  constexpr int64_t kOpen = InputSize::kOpen;
  EXPECT_EQ(decide({{9, 16}, {9, 16}}), (All{{kOpen, 0}, {16, 1}, {kOpen, 0}, {16, 3}}));
  EXPECT_EQ(decide({{8, 16}, {9, 16}}), (All{{kOpen, 0}, {16, 1}, {kOpen, 2}, {16, 3}}));
  // One that may be a broadcast, or has no element, is no constant.
  EXPECT_EQ(decide({{8, 1}, {8, 16}}), (All{{kOpen, 0}, {kOpen, 1}, {kOpen, 0}, {16, 3}}));

  concrete_ = std::make_unique<Fusion>();
  SizesSeen fresh(fusion_);
  concretize(fusion_, decisions({{8, 16}, {8, 16}}, false, &fresh), concrete_.get());
  EXPECT_EQ(domainText(concrete_->inputs().at(1)->as<TensorView>()), "[i 8, i 16]");
}

TEST_F(RebuildTest, EqualSizesAreOne) {
  auto* x = input({-1, -1});
  auto* y = input({-1, -1});
  fusion_.addOutput(add(x, x));
  fusion_.addOutput(add(y, y));
  SizesSeen seen(fusion_);
  concrete_ = std::make_unique<Fusion>();
  const Concretization alike = decisions({{8, 16}, {8, 15}}, false, &seen);
  concretize(fusion_, alike, concrete_.get());
  const auto sizes = [&](size_t i) {
    return concrete_->inputs().at(i)->as<TensorView>()->getLogicalDomain();
  };
  EXPECT_EQ(sizes(0)[0]->extent(), sizes(1)[0]->extent());
  EXPECT_NE(sizes(0)[1]->extent(), sizes(1)[1]->extent());
  EXPECT_FALSE(sizes(0)[0]->extent()->isConst());
  EXPECT_TRUE(decisions({{8, 16}, {7, 15}}, false, &seen).leavesAsIs());
  EXPECT_FALSE(alike.leavesAsIs());
}

} // namespace
} // namespace nvfuser
