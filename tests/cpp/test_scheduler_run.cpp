// SPDX-License-Identifier: BSD-3-Clause
// Automatically scheduled pointwise kernels, run and compared with values computed element by
// element.
#include "executor_for_test.h"

#include <scheduler/pointwise_params.h>
#include <scheduler/registry.h>

#include <cmath>

namespace nvfuser::test {
namespace {

using Index = std::vector<int64_t>;
using Sizes = std::vector<int64_t>;

// Element access by index, whatever the strides.
class Values {
 public:
  explicit Values(const Tensor& t)
      : sizes_(sizesOf(t)), values_(t.to(Device::host()).contiguous().toDoubles()) {}
  double operator()(const Index& i) const {
    int64_t at = 0;
    for (size_t d = 0; d < sizes_.size(); ++d) {
      at = at * sizes_[d] + i[d];
    }
    return values_.at(static_cast<size_t>(at));
  }

 private:
  Sizes sizes_;
  std::vector<double> values_;
};

void expectElements(const Tensor& actual, const Sizes& sizes,
                    const std::function<double(const Index&)>& f, double tolerance = 1e-5) {
  ASSERT_EQ(sizesOf(actual), sizes);
  const Values values(actual);
  Index i(sizes.size(), 0);
  int64_t n = 1;
  for (int64_t s : sizes) {
    n *= s;
  }
  for (int64_t k = 0; k < n; ++k) {
    int64_t rest = k;
    for (size_t d = sizes.size(); d-- > 0;) {
      i[d] = rest % sizes[d];
      rest /= sizes[d];
    }
    const double expected = f(i);
    ASSERT_NEAR(values(i), expected, tolerance * (1 + std::abs(expected))) << "at element " << k;
  }
}

// Runs the definition and expects it to be one kernel.
KernelArgs runAsOne(const std::function<void(Fusion*)>& define, const KernelArgs& args) {
  FusionExecutorCache cache(defineFusion(define));
  KernelArgs out = cache.runFusionWithInputs(args);
  EXPECT_EQ(cache.mostRecentSegmentReports().size(), 1u);
  return out;
}

Tensor rnd(const Sizes& sizes, uint64_t seed, DataType dtype = DataType::Float,
           Device device = Device::host()) {
  return Tensor::random(sizes, dtype, device, seed);
}

TEST(SchedulerRun, BiasOverRows) {
  for (Device device : testDevices()) {
    for (const Sizes& s :
         std::vector<Sizes>{{33, 72}, {200, 1024}, {1000, 64}, {5, 7}, {1, 256}, {256, 1}}) {
      const Tensor x = rnd(s, 1, DataType::Float, device);
      const Tensor bias = rnd({s[1]}, 2, DataType::Float, device);
      const KernelArgs out = runAsOne(
          [](Fusion* f) {
            TensorView* x = addInput(f, makeContigTensor(2));
            TensorView* bias = addInput(f, makeContigTensor(1));
            f->addOutput(tanh(add(x, broadcast(bias, {true, false}))));
          },
          {x, bias});
      const Values vx(x);
      const Values vb(bias);
      expectElements(out.tensor(0), s,
                     [&](const Index& i) { return std::tanh(vx(i) + vb({i[1]})); });
    }
  }
}

TEST(SchedulerRun, RowAndColumnScalars) {
  for (const Sizes& s : std::vector<Sizes>{{33, 72}, {200, 1024}, {1000, 64}}) {
    const Tensor x = rnd(s, 1);
    const Tensor row = rnd({s[0]}, 2);
    const Tensor col = rnd({s[1]}, 3);
    const KernelArgs out = runAsOne(
        [](Fusion* f) {
          TensorView* x = addInput(f, makeContigTensor(2));
          TensorView* row = addInput(f, makeContigTensor(1));
          TensorView* col = addInput(f, makeContigTensor(1));
          f->addOutput(mul(add(x, broadcast(row, {false, true})), broadcast(col, {true, false})));
        },
        {x, row, col});
    const Values vx(x);
    const Values vr(row);
    const Values vc(col);
    expectElements(out.tensor(0), s,
                   [&](const Index& i) { return (vx(i) + vr({i[0]})) * vc({i[1]}); });
  }
}

TEST(SchedulerRun, OuterSumOfOneVector) {
  const Tensor x = rnd({200}, 1);
  const KernelArgs out = runAsOne(
      [](Fusion* f) {
        TensorView* x = addInput(f, makeContigTensor(1));
        TensorView* y = sin(x);
        f->addOutput(add(broadcast(y, {true, false}), broadcast(y, {false, true})));
      },
      {x});
  const Values v(x);
  expectElements(out.tensor(0), {200, 200},
                 [&](const Index& i) { return std::sin(v({i[1]})) + std::sin(v({i[0]})); });
}

TEST(SchedulerRun, ThreeOperandsEachLackSomething) {
  const Tensor a = rnd({6, 1, 40}, 1);
  const Tensor b = rnd({1, 9, 40}, 2);
  const Tensor c = rnd({6, 9, 1}, 3);
  const KernelArgs out = runAsOne(
      [](Fusion* f) {
        TensorView* a = addInput(f, makeConcreteTensor({-1, 1, -1}));
        TensorView* b = addInput(f, makeConcreteTensor({1, -1, -1}));
        TensorView* c = addInput(f, makeConcreteTensor({-1, -1, 1}));
        f->addOutput(mul(add(a, b), c));
      },
      {a, b, c});
  const Values va(a);
  const Values vb(b);
  const Values vc(c);
  expectElements(out.tensor(0), {6, 9, 40}, [&](const Index& i) {
    return (va({i[0], 0, i[2]}) + vb({0, i[1], i[2]})) * vc({i[0], i[1], 0});
  });
}

TEST(SchedulerRun, GatedHalves) {
  for (int64_t half : {64, 48, 5}) {
    const Tensor x = rnd({30, 2 * half}, 1);
    const KernelArgs out = runAsOne(
        [&](Fusion* f) {
          TensorView* x = addInput(f, makeContigConcreteTensor({-1, 2 * half}));
          TensorView* y = sin(x);
          TensorView* a = slice(y, shapeVals({0, 0}), {size(x, 0), IrBuilder::index(half)});
          TensorView* b = slice(y, shapeVals({0, half}), {size(x, 0), IrBuilder::index(2 * half)});
          f->addOutput(mul(a, neg(b)));
        },
        {x});
    const Values v(x);
    expectElements(out.tensor(0), {30, half}, [&](const Index& i) {
      return -std::sin(v(i)) * std::sin(v({i[0], i[1] + half}));
    });
  }
}

TEST(SchedulerRun, RotaryEmbedding) {
  const int64_t d = 32;
  const Tensor x = rnd({3, 10, d}, 1);
  const Tensor cosine = rnd({10, d}, 2);
  const Tensor sine = rnd({10, d}, 3);
  const KernelArgs out = runAsOne(
      [&](Fusion* f) {
        TensorView* x = addInput(f, makeContigConcreteTensor({3, 10, d}));
        TensorView* c = addInput(f, makeContigConcreteTensor({10, d}));
        TensorView* s = addInput(f, makeContigConcreteTensor({10, d}));
        TensorView* left = slice(x, Sizes{0, 0, 0}, Sizes{3, 10, d / 2});
        TensorView* right = slice(x, Sizes{0, 0, d / 2}, Sizes{3, 10, d});
        TensorView* rotated = cat(std::vector<TensorView*>{neg(right), left}, 2);
        f->addOutput(add(mul(x, broadcast(c, {true, false, false})),
                         mul(rotated, broadcast(s, {true, false, false}))));
      },
      {x, cosine, sine});
  const Values v(x);
  const Values vc(cosine);
  const Values vs(sine);
  expectElements(out.tensor(0), {3, 10, d}, [&](const Index& i) {
    const double r = i[2] < d / 2 ? -v({i[0], i[1], i[2] + d / 2}) : v({i[0], i[1], i[2] - d / 2});
    return v(i) * vc({i[1], i[2]}) + r * vs({i[1], i[2]});
  });
}

TEST(SchedulerRun, PadAndCat) {
  const Tensor x = rnd({12, 20}, 1);
  const Tensor y = rnd({12, 13}, 2);
  const KernelArgs out = runAsOne(
      [](Fusion* f) {
        TensorView* x = addInput(f, makeContigTensor(2));
        TensorView* y = addInput(f, makeContigTensor(2));
        TensorView* joined = cat(std::vector<TensorView*>{sin(x), y}, 1);
        f->addOutput(neg(pad(joined, Sizes{2, 3, 1, 0})));
      },
      {x, y});
  const Values vx(x);
  const Values vy(y);
  expectElements(out.tensor(0), {13, 38}, [&](const Index& i) {
    const int64_t r = i[0] - 1;
    const int64_t c = i[1] - 2;
    if (r < 0 || c < 0 || c >= 33) {
      return 0.0;
    }
    return c < 20 ? -std::sin(vx({r, c})) : -vy({r, c - 20});
  });
}

TEST(SchedulerRun, TransposedOperand) {
  const Tensor a = rnd({40, 24}, 1);
  const Tensor b = rnd({24, 40}, 2);
  const KernelArgs out = runAsOne(
      [](Fusion* f) {
        TensorView* a = addInput(f, makeContigTensor(2));
        TensorView* b = addInput(f, makeContigTensor(2));
        f->addOutput(add(permute(a, {1, 0}), b));
      },
      {a, b});
  const Values va(a);
  const Values vb(b);
  expectElements(out.tensor(0), {24, 40}, [&](const Index& i) { return va({i[1], i[0]}) + vb(i); });
}

TEST(SchedulerRun, ReshapeBetweenBroadcasts) {
  const Tensor x = rnd({6, 20}, 1);
  const Tensor b = rnd({10}, 2);
  const KernelArgs out = runAsOne(
      [](Fusion* f) {
        TensorView* x = addInput(f, makeContigTensor(2));
        TensorView* b = addInput(f, makeContigTensor(1));
        TensorView* y = reshape(sin(x), Sizes{12, 10});
        f->addOutput(mul(y, broadcast(b, {true, false})));
      },
      {x, b});
  const Values vx(x);
  const Values vb(b);
  expectElements(out.tensor(0), {12, 10}, [&](const Index& i) {
    const int64_t k = i[0] * 10 + i[1];
    return std::sin(vx({k / 20, k % 20})) * vb({i[1]});
  });
}

TEST(SchedulerRun, IntermediatesAreOutputsToo) {
  const Tensor x = rnd({64, 256}, 1);
  const Tensor b = rnd({256}, 2);
  const KernelArgs out = runAsOne(
      [](Fusion* f) {
        TensorView* x = addInput(f, makeContigTensor(2));
        TensorView* b = addInput(f, makeContigTensor(1));
        TensorView* c = sin(b);
        TensorView* y = add(x, broadcast(c, {true, false}));
        f->addOutput(c);
        f->addOutput(y);
        f->addOutput(neg(y));
      },
      {x, b});
  const Values vx(x);
  const Values vb(b);
  expectElements(out.tensor(0), {256}, [&](const Index& i) { return std::sin(vb(i)); });
  expectElements(out.tensor(1), {64, 256},
                 [&](const Index& i) { return vx(i) + std::sin(vb({i[1]})); });
  expectElements(out.tensor(2), {64, 256},
                 [&](const Index& i) { return -vx(i) - std::sin(vb({i[1]})); });
}

TEST(SchedulerRun, StridedAndExpandedInputs) {
  const Tensor base = rnd({32, 48}, 1);
  const Tensor one = rnd({32, 1}, 2);
  const int64_t wide[] = {32, 40};
  const Tensor part = base.slice(1, 4, 44);
  const Tensor expanded = one.expand(wide);
  const KernelArgs out = runAsOne(
      [](Fusion* f) {
        TensorView* a = addInput(f, TensorViewBuilder().ndims(2).contiguity({false, true}).build());
        TensorView* b = addInput(f, makeSymbolicTensor(2));
        f->addOutput(mul(a, b));
      },
      {part, expanded});
  const Values va(base);
  const Values vb(one);
  expectElements(out.tensor(0), {32, 40},
                 [&](const Index& i) { return va({i[0], i[1] + 4}) * vb({i[0], 0}); });
}

TEST(SchedulerRun, MixedDtypesAndTails) {
  for (int64_t n : {1, 2, 7, 8, 129, 1000, 4096, 40000, 65536 + 8}) {
    const Tensor x = rnd({n}, 1, DataType::BFloat16);
    const Tensor y = rnd({n}, 2);
    const KernelArgs out = runAsOne(
        [](Fusion* f) {
          TensorView* x = addInput(f, makeContigTensor(1, DataType::BFloat16));
          TensorView* y = addInput(f, makeContigTensor(1));
          TensorView* z = mul(x, y);
          f->addOutput(z);
          f->addOutput(castOp(DataType::BFloat16, z));
          f->addOutput(gt(z, IrBuilder::create<Val>(0.0)));
        },
        {x, y});
    const Values vx(x);
    const Values vy(y);
    expectElements(out.tensor(0), {n}, [&](const Index& i) { return vx(i) * vy(i); });
    expectElements(out.tensor(1), {n}, [&](const Index& i) { return vx(i) * vy(i); }, 1e-2);
    expectElements(out.tensor(2), {n},
                   [&](const Index& i) { return vx(i) * vy(i) > 0 ? 1.0 : 0.0; });
  }
}

TEST(SchedulerRun, RankZeroAndOnes) {
  const Tensor s = rnd({}, 1);
  const KernelArgs out =
      runAsOne([](Fusion* f) { f->addOutput(sin(addInput(f, makeContigTensor(0)))); }, {s});
  expectElements(out.tensor(0), {}, [&](const Index& i) { return std::sin(Values(s)(i)); });
  const Tensor t = rnd({1, 1, 1}, 1);
  const KernelArgs ones =
      runAsOne([](Fusion* f) { f->addOutput(sin(addInput(f, makeContigTensor(3)))); }, {t});
  expectElements(ones.tensor(0), {1, 1, 1}, [&](const Index& i) { return std::sin(Values(t)(i)); });
}

TEST(SchedulerRun, EveryEditOfTheParametersGivesTheSameValues) {
  const Tensor x = rnd({37, 96}, 1);
  const Tensor b = rnd({96}, 2);
  for (int64_t break_point : {0, 1}) {
    for (int64_t vector : {1, 2, 4}) {
      for (int64_t inner : {1, 3}) {
        for (int64_t outer : {1, 2}) {
          Fusion fusion;
          FusionGuard guard(&fusion);
          TensorView* tx = addInput(&fusion, makeContigTensor(2));
          TensorView* tb = addInput(&fusion, makeContigTensor(1));
          fusion.addOutput(add(tx, broadcast(tb, {true, false})));
          PointwiseParams p;
          p.break_point = break_point;
          p.vectorization_factor = vector;
          p.unroll_factor_inner = inner;
          p.unroll_factor_outer = outer;
          p.flip_grid_binding = outer == 2;
          p.split_block = inner == 3;
          p.split_grid_y_dim = vector == 2;
          p.lparams.bindUnsafe(32, ParallelType::TIDx);
          p.lparams.bindUnsafe(2, ParallelType::TIDy);
          scheduleWith(&fusion, SchedulerType::PointWise, p);
          KernelExecutor executor;
          executor.compile(&fusion, {x, b});
          const KernelArgs out = executor.run({x, b});
          const Values vx(x);
          const Values vb(b);
          expectElements(out.tensor(0), {37, 96},
                         [&](const Index& i) { return vx(i) + vb({i[1]}); });
        }
      }
    }
  }
}

// The first reshape keeps the symbolic size of its input; the second one only knows constants.
TEST(SchedulerRun, ReshapeOfAConstantReshapeOfASymbolicInput) {
  const Tensor x = rnd({5, 7}, 1);
  const KernelArgs out = runAsOne(
      [](Fusion* f) {
        TensorView* x = addInput(f, makeContigConcreteTensor({5, -1}));
        TensorView* y = reshape(x, {5, 7});
        f->addOutput(sin(reshape(add(y, y), {7, 5})));
      },
      {x});
  const Values v(x);
  expectElements(out.tensor(0), {7, 5}, [&](const Index& i) {
    const int64_t k = 5 * i[0] + i[1];
    return std::sin(2 * v({k / 7, k % 7}));
  });
}

} // namespace
} // namespace nvfuser::test
