// SPDX-License-Identifier: BSD-3-Clause
// What the loops of inlined tensors run over: kernels with manual and automatic schedules whose
// operands lack dimensions, run and compared with values computed element by element.
#include "executor_for_test.h"

#include <id_model/loop_model.h>
#include <transform/inlining.h>
#include <transform/propagate.h>

namespace nvfuser::test {
namespace {

using Sizes = std::vector<int64_t>;

class LoopModelTest : public testing::Test {
 protected:
  TensorView* input(const Sizes& shape) {
    TensorView* tv = makeContigConcreteTensor(shape);
    fusion_.addInput(tv);
    return tv;
  }
  // Merges all axes of the reference, splits the result, makes all tensors follow and inlines them.
  static void flattenAndInline(TensorView* reference, int64_t factor) {
    reference->flatten();
    reference->split(0, factor);
    transformLike(reference);
    inlineMost();
  }
  KernelArgs run(const KernelArgs& inputs) {
    KernelExecutor executor;
    executor.compile(&fusion_, inputs);
    return executor.run(inputs);
  }

  Fusion fusion_;
  FusionGuard guard_{&fusion_};
};

Tensor rnd(const Sizes& sizes, uint64_t seed) {
  return Tensor::random(sizes, DataType::Float, Device::host(), seed);
}

TEST_F(LoopModelTest, TwoOperandsEachConcretizeAPart) {
  TensorView* a = input({-1, 1});
  TensorView* b = input({1, -1});
  TensorView* out = add(neg(a), neg(b));
  fusion_.addOutput(out);
  flattenAndInline(out, 4);
  const Tensor x = rnd({5, 1}, 1);
  const Tensor y = rnd({1, 7}, 2);
  const std::vector<double> vx = x.toDoubles();
  const std::vector<double> vy = y.toDoubles();
  std::vector<double> expected;
  for (double i : vx) {
    for (double j : vy) {
      expected.push_back(-i - j);
    }
  }
  expectValues(run({x, y}).tensor(0), expected);
}

TEST_F(LoopModelTest, ThreeOperandsEachConcretizeAPart) {
  TensorView* a = input({-1, 1, 1});
  TensorView* b = input({1, -1, 1});
  TensorView* c = input({1, 1, -1});
  TensorView* out = mul(add(neg(a), neg(b)), neg(c));
  fusion_.addOutput(out);
  flattenAndInline(out, 8);
  const Tensor x = rnd({3, 1, 1}, 1);
  const Tensor y = rnd({1, 4, 1}, 2);
  const Tensor z = rnd({1, 1, 5}, 3);
  std::vector<double> expected;
  for (double i : x.toDoubles()) {
    for (double j : y.toDoubles()) {
      for (double k : z.toDoubles()) {
        expected.push_back((-i - j) * -k);
      }
    }
  }
  expectValues(run({x, y, z}).tensor(0), expected);
}

TEST_F(LoopModelTest, AReshapeStandsAboveTheSum) {
  TensorView* a = input({5, 1});
  TensorView* b = input({1, 6});
  TensorView* out = neg(reshape(add(neg(a), neg(b)), {3, 10}));
  fusion_.addOutput(out);
  flattenAndInline(out, 4);
  const Tensor x = rnd({5, 1}, 1);
  const Tensor y = rnd({1, 6}, 2);
  std::vector<double> expected;
  for (double i : x.toDoubles()) {
    for (double j : y.toDoubles()) {
      expected.push_back(i + j);
    }
  }
  expectValues(run({x, y}).tensor(0), expected);
}

TEST_F(LoopModelTest, AProducerWithoutTheOuterDimensionRunsInTheMerge) {
  TensorView* a = input({-1});
  TensorView* b = input({-1, -1});
  TensorView* out = add(broadcast(neg(a), {true, false}), b);
  fusion_.addOutput(out);
  flattenAndInline(out, 4);
  const Tensor x = rnd({6}, 1);
  const Tensor y = rnd({5, 6}, 2);
  const std::vector<double> vx = x.toDoubles();
  const std::vector<double> vy = y.toDoubles();
  std::vector<double> expected;
  for (size_t k = 0; k < vy.size(); ++k) {
    expected.push_back(vy[k] - vx[k % 6]);
  }
  expectValues(run({x, y}).tensor(0), expected);
}

// No tensor has the merge of both dimensions, over which all run.
TEST_F(LoopModelTest, ADomainIsMadeWhereNoTensorHasIt) {
  TensorView* s = input({1, 1});
  TensorView* a = input({-1, 1});
  TensorView* b = input({1, -1});
  TensorView* t = neg(s);
  TensorView* rows = add(t, a);
  TensorView* columns = mul(t, b);
  fusion_.addOutput(rows);
  fusion_.addOutput(columns);
  for (TensorView* tv : {t, rows, columns}) {
    tv->merge(0);
    tv->split(0, 4);
  }
  inlineMost();
  ASSERT_EQ(t->getComputeAtPosition(), 2);
  const Tensor one = rnd({1, 1}, 1);
  const Tensor x = rnd({5, 1}, 2);
  const Tensor y = rnd({1, 7}, 3);
  const double value = one.toDoubles()[0];
  const KernelArgs out = run({one, x, y});
  expectValues(out.tensor(0), mapped(x, [&](double v) { return v - value; }));
  expectValues(out.tensor(1), mapped(y, [&](double v) { return -value * v; }));
}

// The inner part of a promoted axis is split again: by transforms that only the producer has.
TEST_F(LoopModelTest, OwnTransformsAreRepeatedOnWhatIsWider) {
  TensorView* a = input({-1, 1});
  TensorView* b = input({-1, -1});
  TensorView* t = neg(a);
  TensorView* out = add(t, b);
  fusion_.addOutput(out);
  for (TensorView* tv : {t, out}) {
    tv->merge(0);
    tv->split(0, 16);
  }
  t->split(1, 4);
  inlineMost();
  ASSERT_EQ(t->getComputeAtPosition(), 1);
  const Tensor x = rnd({5, 1}, 1);
  const Tensor y = rnd({5, 7}, 2);
  const std::vector<double> vx = x.toDoubles();
  const std::vector<double> vy = y.toDoubles();
  std::vector<double> expected;
  for (size_t k = 0; k < vy.size(); ++k) {
    expected.push_back(vy[k] - vx[k / 7]);
  }
  expectValues(run({x, y}).tensor(0), expected);
}

TEST_F(LoopModelTest, LoopsOfDifferentIterationsAreNotJoined) {
  TensorView* s = input({1});
  TensorView* a = input({-1});
  TensorView* b = input({-1});
  TensorView* t = neg(s);
  TensorView* x = add(t, a);
  TensorView* y = add(t, b);
  fusion_.addOutput(x);
  fusion_.addOutput(y);
  inlineMost();
  EXPECT_EQ(t->getComputeAtPosition(), 0);
}

// The sum of a tensor along its first `count` dimensions.
TensorView* sumOf(TensorView* in, size_t count) {
  TensorDomain::Ids ids;
  for (size_t i = 0; i < in->getLogicalDomain().size(); ++i) {
    ids.push_back(IterDomainBuilder(in->getLogicalDomain()[i]->extent())
                      .iterType(i < count ? IterType::Reduction : IterType::Iteration)
                      .build());
  }
  auto* out = IrBuilder::create<TensorView>(IrBuilder::create<TensorDomain>(ids), in->dtype());
  IrBuilder::create<ReductionOp>(OpType::Add, IrBuilder::create<Val>(0.0), out, in);
  return out;
}

// The rows are iterations of one consumer and are reduced over by the other: one loop for both, in
// which the producer is computed.
TEST_F(LoopModelTest, AReductionSharesItsLoopsWithAPointwiseConsumer) {
  TensorView* x = input({-1, -1});
  TensorView* y = neg(x);
  TensorView* z = sin(y);
  TensorView* s = sumOf(y, 1);
  fusion_.addOutput(z);
  fusion_.addOutput(s);
  for (TensorView* tv : {y, z, s}) {
    tv->split(0, 4);
  }
  y->setComputeAtPosition(2);
  IdModel ids(&fusion_);
  const LoopModel model(&fusion_, ids);
  const TensorLoops& mine = model.loops(y);
  for (const TensorView* consumer : {z, s}) {
    const TensorLoops& theirs = model.loops(consumer);
    EXPECT_EQ(mine.path[0], theirs.path[0]);
    EXPECT_EQ(mine.path[1], theirs.path[1]);
    EXPECT_NE(mine.path[2], theirs.path[2]);
  }
  EXPECT_EQ(mine.shared, 2u);
}

// A broadcast operand of what is reduced runs over the reduced dimensions.
TEST_F(LoopModelTest, AProducerRunsOverWhatIsReduced) {
  TensorView* row = input({1, -1});
  TensorView* x = input({-1, -1});
  TensorView* t = neg(row);
  TensorView* y = add(t, x);
  TensorView* s = sumOf(y, 2);
  fusion_.addOutput(s);
  for (TensorView* tv : {t, y, s}) {
    tv->merge(0);
    tv->split(0, 4);
    tv->setComputeAtPosition(tv == s ? 0 : 2);
  }
  IdModel ids(&fusion_);
  const LoopModel model(&fusion_, ids);
  EXPECT_EQ(model.loops(t).path, model.loops(s).path);
  EXPECT_TRUE(ids.exact().same(model.loops(t).path[0]->domain, s->axis(0)));
}

// --- schedules that the planner used to replace by simpler ones, or to cut

void expectOneTry(const std::shared_ptr<Fusion>& fusion, const KernelArgs& inputs,
                  const std::vector<std::vector<double>>& expected) {
  FusionExecutorCache cache(fusion);
  const KernelArgs out = cache.runFusionWithInputs(inputs);
  EXPECT_EQ(cache.numFallbacks(), 0);
  ASSERT_EQ(out.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    expectValues(out.tensor(i), expected[i]);
  }
}

TEST(LoopModelScheduled, AllBroadcastOutputNextToALargeOne) {
  auto fusion = defineFusion([](Fusion* f) {
    TensorView* s = addInput(f, makeConcreteTensor({1, 1}));
    TensorView* x = addInput(f, makeContigTensor(2));
    TensorView* t = sin(s);
    f->addOutput(add(t, IrBuilder::create<Val>(1.0)));
    f->addOutput(add(t, x));
    f->addOutput(t);
  });
  const Tensor s = rnd({1, 1}, 1);
  const Tensor x = rnd({12, 16}, 2);
  const double t = std::sin(s.toDoubles()[0]);
  expectOneTry(fusion, {s, x}, {{t + 1}, mapped(x, [&](double v) { return v + t; }), {t}});
}

TEST(LoopModelScheduled, AColumnTimesItsRow) {
  auto fusion = defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeConcreteTensor({-1, 1}));
    f->addOutput(neg(x));
    f->addOutput(mul(x, broadcast(squeeze(x, std::vector<int64_t>{1}), {true, false})));
  });
  const Tensor x = rnd({13, 1}, 1);
  const std::vector<double> v = x.toDoubles();
  std::vector<double> product;
  for (double i : v) {
    for (double j : v) {
      product.push_back(i * j);
    }
  }
  expectOneTry(fusion, {x}, {mapped(x, [](double a) { return -a; }), product});
}

// The copies of a tensor that is padded in several ways share only a part of their loops.
TEST(LoopModelScheduled, AReshapeThatIsJoinedWithItself) {
  auto fusion = defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigConcreteTensor({1, -1}));
    TensorView* y = reshape(x, {1, 16, 2});
    f->addOutput(neg(cat({y, y, y}, 2)));
  });
  const Tensor x = rnd({1, 32}, 1);
  const std::vector<double> v = x.toDoubles();
  std::vector<double> expected;
  for (size_t i = 0; i < 16; ++i) {
    for (size_t j = 0; j < 6; ++j) {
      expected.push_back(-v[2 * i + j % 2]);
    }
  }
  expectOneTry(fusion, {x}, {expected});
}

TEST(LoopModelScheduled, ABroadcastOperandOfWhatIsCut) {
  auto fusion = defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeConcreteTensor({-1, 1}));
    TensorView* y = addInput(f, makeContigTensor(2));
    TensorView* z = mul(sin(x), y);
    f->addOutput(neg(pad(z, std::vector<int64_t>{-2, 0})));
  });
  const Tensor x = rnd({4, 1}, 1);
  const Tensor y = rnd({4, 5}, 2);
  const std::vector<double> vx = x.toDoubles();
  const std::vector<double> vy = y.toDoubles();
  std::vector<double> expected;
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 2; j < 5; ++j) {
      expected.push_back(-std::sin(vx[i]) * vy[5 * i + j]);
    }
  }
  expectOneTry(fusion, {x, y}, {expected});
}

// Of two neighbours one has a dimension of one element that no axis contains.
TEST(LoopModelScheduled, ASqueezedDimensionNeedsNoCommonLoop) {
  auto fusion = defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeConcreteTensor({1, 1}));
    TensorView* a = set(x);
    TensorView* b = minimum(x, x);
    TensorView* c = maximum(a, b);
    TensorView* d = squeeze(minimum(b, a), std::vector<int64_t>{0});
    f->addOutput(c);
    f->addOutput(mul(broadcast(d, {true, false}), c));
  });
  const Tensor x = rnd({1, 1}, 1);
  const double v = x.toDoubles()[0];
  expectOneTry(fusion, {x}, {{v}, {v * v}});
}

// Two tensors that read one input along the same axis, but have no other connection.
TEST(LoopModelScheduled, AxesThatOnlyAnInputConnects) {
  auto fusion = defineFusion([](Fusion* f) {
    TensorView* s = addInput(f, makeConcreteTensor({1}));
    TensorView* x = addInput(f, makeContigTensor(1));
    TensorView* t = sin(s);
    f->addOutput(add(t, x));
    f->addOutput(mul(neg(t), x));
  });
  const Tensor s = rnd({1}, 1);
  const Tensor x = rnd({200}, 2);
  const double t = std::sin(s.toDoubles()[0]);
  expectOneTry(
      fusion, {s, x},
      {mapped(x, [&](double v) { return v + t; }), mapped(x, [&](double v) { return -t * v; })});
}

} // namespace
} // namespace nvfuser::test
