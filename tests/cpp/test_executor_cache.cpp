// SPDX-License-Identifier: BSD-3-Clause
// FusionExecutorCache: results, reuse of plans and kernels, views, in-place updates, messages.
#include "executor_for_test.h"

#include <base/error.h>
#include <executor/lru_cache.h>

namespace nvfuser::test {
namespace {

Val* constant(double v) {
  return IrBuilder::create<Val>(v);
}

std::shared_ptr<Fusion> reluOfSum() {
  return defineFusion([](Fusion* f) {
    TensorView* a = addInput(f, makeContigTensor(2));
    TensorView* b = addInput(f, makeContigTensor(2));
    f->addOutput(mul(relu(add(a, b)), constant(2.0)));
  });
}

double twiceRelu(double a, double b) {
  return std::max(a + b, 0.0) * 2.0;
}

TEST(ExecutorCache, AddsAndReusesItsKernel) {
  for (Device device : testDevices()) {
    FusionExecutorCache cache(reluOfSum());
    for (const std::vector<int64_t>& sizes :
         std::vector<std::vector<int64_t>>{{64, 256}, {128, 256}, {64, 256}}) {
      const Tensor a = randomTensor(sizes, device, 1);
      const Tensor b = randomTensor(sizes, device, 2);
      const KernelArgs out = cache.runFusionWithInputs({a, b});
      ASSERT_EQ(out.size(), 1u);
      EXPECT_EQ(out.tensor(0).device(), device);
      expectValues(out.tensor(0), zipped(a, b, twiceRelu));
    }
    EXPECT_EQ(cache.numPlans(), 2);
    EXPECT_LE(cache.numKernels(), 2);
  }
}

TEST(ExecutorCache, WhereACallRuns) {
  const FusionExecutorCache cache(reluOfSum());
  const auto at = [](Device device) {
    ArgView view;
    view.is_tensor = true;
    view.device = device;
    return view;
  };
  const Device second = Device::cuda(1);
  const std::vector<ArgView> on_second{at(second), at(second)};
  EXPECT_EQ(cache.deviceFor(on_second, std::nullopt), second);
  EXPECT_EQ(cache.deviceFor(on_second, second), second);
  EXPECT_THROW(cache.deviceFor(on_second, Device::cuda(0)), UserError);
  const std::vector<ArgView> mixed{at(Device::cuda(0)), at(second)};
  EXPECT_THROW(cache.deviceFor(mixed, std::nullopt), UserError);
  // Without tensors the call says where.
  EXPECT_EQ(cache.deviceFor({}, second), second);
  EXPECT_EQ(cache.deviceFor({}, std::nullopt), defaultDevice());
}

TEST(ExecutorCache, OddEmptyAndTinyShapes) {
  FusionExecutorCache cache(reluOfSum());
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{1, 1}, {3, 5}, {0, 4}, {4, 0}, {127, 129}, {1, 1000}}) {
    const Tensor a = randomTensor(sizes, Device::host(), 1);
    const Tensor b = randomTensor(sizes, Device::host(), 2);
    const KernelArgs out = cache.runFusionWithInputs({a, b});
    EXPECT_EQ(sizesOf(out.tensor(0)), sizes);
    expectValues(out.tensor(0), zipped(a, b, twiceRelu));
  }
}

TEST(ExecutorCache, BroadcastsABias) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(2));
    TensorView* bias = addInput(f, makeContigTensor(1));
    f->addOutput(add(x, broadcast(bias, {true, false})));
  }));
  const Tensor x = randomTensor({33, 72}, Device::host(), 1);
  const Tensor bias = randomTensor({72}, Device::host(), 2);
  const KernelArgs out = cache.runFusionWithInputs({x, bias});
  const int64_t sizes[] = {33, 72};
  expectValues(out.tensor(0), zipped(x, bias.expand(sizes).contiguous(),
                                     [](double a, double b) { return a + b; }));
}

TEST(ExecutorCache, ScalarsAreReadAtEveryCall) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(1));
    Val* s = IrBuilder::create<Val>(DataType::Double);
    f->addInput(s);
    f->addOutput(mul(x, s));
  }));
  const Tensor x = randomTensor({100}, Device::host(), 1);
  for (double s : {2.0, -3.5}) {
    KernelArgs args{x};
    args.push(s);
    const KernelArgs out = cache.runFusionWithInputs(args);
    expectValues(out.tensor(0), mapped(x, [&](double v) { return v * s; }));
  }
  EXPECT_EQ(cache.numPlans(), 1);
}

TEST(ExecutorCache, CpuScalarTensorNextToOthers) {
  for (Device device : testDevices()) {
    FusionExecutorCache cache(defineFusion([](Fusion* f) {
      TensorView* x = addInput(f, makeContigTensor(1));
      TensorView* s = makeContigTensor(0);
      s->setCpuScalar(true);
      f->addInput(s);
      f->addOutput(mul(x, s));
    }));
    const Tensor x = randomTensor({100}, device, 1);
    for (double value : {3.0, 4.0}) {
      const Tensor s = Tensor::full({}, value, DataType::Float);
      const KernelArgs out = cache.runFusionWithInputs({x, s});
      expectValues(out.tensor(0), mapped(x, [&](double v) { return v * value; }));
    }
  }
}

TEST(ExecutorCache, WithoutTensorInputs) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    Val* n = IrBuilder::create<Val>(DataType::Int);
    f->addInput(n);
    f->addOutput(full({n}, constant(2.5), DataType::Float));
    f->addOutput(iota(n));
  }));
  for (int64_t n : {5, 12}) {
    KernelArgs args;
    args.push(n);
    const KernelArgs out = cache.runFusionWithInputs(args, Device::host());
    expectValues(out.tensor(0), std::vector<double>(n, 2.5));
    EXPECT_EQ(out.tensor(1).toDoubles().back(), static_cast<double>(n - 1));
  }
}

TEST(ExecutorCache, RandomNumbersFollowTheGenerator) {
  struct Generator : RngState {
    PhiloxState state{7, 40};
    PhiloxState advance(Device, uint64_t numbers) override {
      const PhiloxState now = state;
      state.offset += numbers;
      return now;
    }
  } generator;
  FusionExecutorCache stateful(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(1));
    f->addOutput(add(x, rand_like(x)));
    f->addOutput(add(x, rand_like(x)));
  }));
  FusionExecutorCache explicit_state(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(1));
    Val* offset = IrBuilder::create<Val>(DataType::Int);
    f->addInput(offset);
    f->addOutput(add(x, uniform(shape(x), constant(0.0), constant(1.0), DataType::Float,
                                IrBuilder::create<Val>(int64_t(7)), offset)));
  }));
  const Tensor x = Tensor::zeros(std::vector<int64_t>{1000}, DataType::Float);
  const KernelArgs args{x};
  TensorAllocator allocator(args);
  stateful.run(args.views(), allocator, nullptr, &generator);
  EXPECT_EQ(generator.state.offset, 48u);
  const KernelArgs out = allocator.take();
  for (int64_t k : {0, 1}) {
    KernelArgs with_offset{x};
    with_offset.push(int64_t(10 + k));
    const KernelArgs expected = explicit_state.runFusionWithInputs(with_offset);
    expectValues(out.tensor(k), expected.tensor(0).toDoubles(), 0);
  }
  EXPECT_NE(out.tensor(0).toDoubles(), out.tensor(1).toDoubles());
}

// Two kernels, with a tensor between them that the caller never sees.
TEST(ExecutorCache, SegmentSetCutsTheFusion) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(2));
    TensorView* y = segment_set(add(x, constant(1.0)));
    f->addOutput(mul(y, y));
  }));
  const Tensor x = randomTensor({31, 17}, Device::host(), 1);
  const KernelArgs out = cache.runFusionWithInputs({x});
  EXPECT_EQ(cache.numKernels(), 2);
  expectValues(out.tensor(0), mapped(x, [](double v) { return (v + 1.0) * (v + 1.0); }));
  const auto reports = cache.mostRecentSegmentReports();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].kernel_name, "nvfuser_pointwise_f0_c0_r0_g0");
  EXPECT_EQ(reports[1].kernel_name, "nvfuser_pointwise_f0_c0_r0_g1");
  EXPECT_NE(cache.getMostRecentScheduledIr(false).find("%kernel {"), std::string::npos);
  EXPECT_NE(cache.getMostRecentScheduledIr(true).find("loop domain"), std::string::npos);
}

// No loop nest has all outputs: several kernels, no refusal.
TEST(ExecutorCache, UnrelatedOutputsAreCut) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(1));
    TensorView* y = addInput(f, makeContigTensor(2));
    f->addOutput(neg(x));
    f->addOutput(neg(y));
    f->addOutput(neg(slice(y, {0, 0}, {2, 3})));
    f->addOutput(neg(pad(y, {1, 2})));
  }));
  const Tensor x = randomTensor({19}, Device::host(), 1);
  const Tensor y = randomTensor({5, 7}, Device::host(), 2);
  const KernelArgs out = cache.runFusionWithInputs({x, y});
  auto minus = [](double v) { return -v; };
  expectValues(out.tensor(0), mapped(x, minus));
  expectValues(out.tensor(1), mapped(y, minus));
  expectValues(out.tensor(2), mapped(y.slice(0, 0, 2).slice(1, 0, 3), minus));
  EXPECT_EQ(sizesOf(out.tensor(3)), (std::vector<int64_t>{5, 10}));
}

TEST(ExecutorCache, StrideOrderOfOutputs) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(3));
    f->addOutput(stride_order(neg(x), {0, 2, 1}));
  }));
  const Tensor x = randomTensor({3, 4, 5}, Device::host(), 1);
  const KernelArgs out = cache.runFusionWithInputs({x});
  EXPECT_EQ(stridesOf(out.tensor(0)), (std::vector<int64_t>{1, 15, 3}));
  expectValues(out.tensor(0), mapped(x, [](double v) { return -v; }));
}

TEST(ExecutorCache, MixedEmptyAndFullOutputs) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(1));
    TensorView* y = addInput(f, makeContigTensor(1));
    f->addOutput(neg(x));
    f->addOutput(neg(y));
    f->addOutput(cat({x, y}, 0));
  }));
  const Tensor x = randomTensor({0}, Device::host(), 1);
  const Tensor y = randomTensor({6}, Device::host(), 2);
  const KernelArgs out = cache.runFusionWithInputs({x, y});
  EXPECT_EQ(sizesOf(out.tensor(0)), (std::vector<int64_t>{0}));
  expectValues(out.tensor(1), mapped(y, [](double v) { return -v; }));
  expectValues(out.tensor(2), y.toDoubles());
}

TEST(ExecutorCache, ReshapeThenPointwise) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(2));
    f->addOutput(neg(reshape(neg(neg(x)), std::vector<int64_t>{4, -1})));
  }));
  for (int64_t n : {6, 10}) {
    const Tensor x = randomTensor({2 * n, 2}, Device::host(), 1);
    const KernelArgs out = cache.runFusionWithInputs({x});
    EXPECT_EQ(sizesOf(out.tensor(0)), (std::vector<int64_t>{4, n}));
    expectValues(out.tensor(0), mapped(x, [](double v) { return -v; }));
  }
}

TEST(ExecutorCache, SliceCatAndPermute) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(2));
    TensorView* left = neg(slice(x, {0, 0}, {4, 2}));
    TensorView* right = slice(x, {0, 2}, {4, 5});
    f->addOutput(cat({left, right}, 1));
    f->addOutput(neg(permute(x, {1, 0})));
  }));
  const Tensor x = randomTensor({4, 5}, Device::host(), 1);
  const KernelArgs out = cache.runFusionWithInputs({x});
  std::vector<double> expected = x.toDoubles();
  for (size_t i = 0; i < 20; ++i) {
    if (i % 5 < 2) {
      expected[i] = -expected[i];
    }
  }
  expectValues(out.tensor(0), expected);
  expectValues(out.tensor(1), mapped(x.transpose(0, 1), [](double v) { return -v; }));
}

TEST(ExecutorCache, NonContiguousInputs) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* a = addInput(f, makeSymbolicTensor(2));
    TensorView* b = addInput(f, makeSymbolicTensor(2));
    f->addOutput(add(a, b));
  }));
  const Tensor a = randomTensor({12, 20}, Device::host(), 1).transpose(0, 1);
  const Tensor b = randomTensor({40, 24}, Device::host(), 2)
                       .slice(0, 0, 40, 2)
                       .slice(1, 3, 24, 2)
                       .slice(1, 0, 10);
  const Tensor b12 =
      randomTensor({40, 24}, Device::host(), 2).slice(0, 0, 40, 2).slice(1, 0, 24, 2);
  const KernelArgs out = cache.runFusionWithInputs({a, b12});
  expectValues(out.tensor(0), zipped(a, b12, [](double x, double y) { return x + y; }));
  (void)b;
}

TEST(ExecutorCache, ViewsLaunchNothing) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(2));
    f->addOutput(permute(x, {1, 0}));
    f->addOutput(slice(x, {1, 0}, {3, 2}));
    f->addOutput(reshape(x, std::vector<int64_t>{-1}));
    f->addOutput(x);
    f->addOutput(set(x));
  }));
  const Tensor x = randomTensor({4, 6}, Device::host(), 1);
  const KernelArgs out = cache.runFusionWithInputs({x});
  ASSERT_EQ(out.size(), 5u);
  EXPECT_EQ(cache.numKernels(), 0);
  EXPECT_EQ(out.tensor(0).data(), x.data());
  EXPECT_EQ(stridesOf(out.tensor(0)), (std::vector<int64_t>{1, 6}));
  EXPECT_EQ(out.tensor(1).data(), x.data<float>() + 6);
  EXPECT_EQ(sizesOf(out.tensor(1)), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(sizesOf(out.tensor(2)), (std::vector<int64_t>{24}));
  EXPECT_EQ(out.tensor(3).data(), x.data());
  EXPECT_EQ(out.tensor(4).data(), x.data());
}

TEST(ExecutorCache, ReshapeOfStridedInputIsComputed) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeSymbolicTensor(2));
    f->addOutput(reshape(x, std::vector<int64_t>{-1}));
  }));
  const Tensor x = randomTensor({4, 6}, Device::host(), 1).transpose(0, 1);
  const KernelArgs out = cache.runFusionWithInputs({x});
  EXPECT_NE(out.tensor(0).data(), x.data());
  expectValues(out.tensor(0), x.toDoubles());
}

TEST(ExecutorCache, SameOutputTwice) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(1));
    TensorView* y = neg(x);
    f->addOutput(y);
    f->addOutput(y);
  }));
  const Tensor x = randomTensor({10}, Device::host(), 1);
  const KernelArgs out = cache.runFusionWithInputs({x});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out.tensor(0).data(), out.tensor(1).data());
  expectValues(out.tensor(1), mapped(x, [](double v) { return -v; }));
}

// --- in-place updates ---

TEST(ExecutorInPlace, UpdatesItsInput) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(2));
    TensorView* y = add(x, constant(1.0));
    f->addOutput(y, x);
    f->addOutput(mul(x, constant(3.0)));
  }));
  const Tensor x = randomTensor({5, 7}, Device::host(), 1);
  const Tensor old = x.contiguous().to(Device::host());
  Tensor before = Tensor::empty({5, 7}, DataType::Float);
  before.copyFrom(x);
  const KernelArgs out = cache.runFusionWithInputs({x});
  ASSERT_EQ(out.size(), 1u);
  expectValues(x, mapped(before, [](double v) { return v + 1.0; }));
  expectValues(out.tensor(0), mapped(before, [](double v) { return v * 3.0; }));
}

TEST(ExecutorInPlace, WritesStridedInputs) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeSymbolicTensor(2));
    f->addOutput(mul(x, constant(2.0)), x);
  }));
  const Tensor base = randomTensor({6, 8}, Device::host(), 1);
  Tensor before = Tensor::empty({6, 8}, DataType::Float);
  before.copyFrom(base);
  const Tensor x = base.transpose(0, 1).slice(0, 1, 8, 2);
  EXPECT_EQ(cache.runFusionWithInputs({x}).size(), 0u);
  expectValues(x,
               mapped(before.transpose(0, 1).slice(0, 1, 8, 2), [](double v) { return v * 2.0; }));
  expectValues(base.transpose(0, 1).slice(0, 0, 8, 2),
               before.transpose(0, 1).slice(0, 0, 8, 2).toDoubles());
}

// The new value depends on other elements of the old one.
TEST(ExecutorInPlace, TransposedUpdateGoesThroughACopy) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(2));
    f->addOutput(add(permute(x, {1, 0}), x), x);
  }));
  const Tensor x = randomTensor({65, 65}, Device::host(), 1);
  Tensor before = Tensor::empty({65, 65}, DataType::Float);
  before.copyFrom(x);
  cache.runFusionWithInputs({x});
  expectValues(x, zipped(before, before.transpose(0, 1), [](double a, double b) { return a + b; }));
}

TEST(ExecutorInPlace, OthersReadTheOldValue) {
  // out2 reads x through a broadcast while x is overwritten.
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(1));
    TensorView* y = addInput(f, makeContigTensor(2));
    f->addOutput(add(x, constant(1.0)), x);
    f->addOutput(add(broadcast(x, {true, false}), y));
  }));
  const Tensor x = randomTensor({40}, Device::host(), 1);
  const Tensor y = randomTensor({30, 40}, Device::host(), 2);
  Tensor before = Tensor::empty({40}, DataType::Float);
  before.copyFrom(x);
  const KernelArgs out = cache.runFusionWithInputs({x, y});
  const int64_t sizes[] = {30, 40};
  expectValues(x, mapped(before, [](double v) { return v + 1.0; }));
  expectValues(out.tensor(0), zipped(before.expand(sizes).contiguous(), y,
                                     [](double a, double b) { return a + b; }));
}

TEST(ExecutorInPlace, Swap) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* a = addInput(f, makeContigTensor(1));
    TensorView* b = addInput(f, makeContigTensor(1));
    f->addOutput(set(b), a);
    f->addOutput(set(a), b);
  }));
  const Tensor a = randomTensor({100}, Device::host(), 1);
  const Tensor b = randomTensor({100}, Device::host(), 2);
  const std::vector<double> old_a = a.toDoubles();
  const std::vector<double> old_b = b.toDoubles();
  cache.runFusionWithInputs({a, b});
  expectValues(a, old_b);
  expectValues(b, old_a);
}

TEST(ExecutorInPlace, ViewOfTheOldValueIsCopied) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(2));
    f->addOutput(add(x, constant(1.0)), x);
    f->addOutput(permute(x, {1, 0}));
  }));
  const Tensor x = randomTensor({4, 6}, Device::host(), 1);
  const std::vector<double> old = x.transpose(0, 1).toDoubles();
  const KernelArgs out = cache.runFusionWithInputs({x});
  EXPECT_NE(out.tensor(0).data(), x.data());
  expectValues(out.tensor(0), old);
}

// The caller passes the updated memory a second time, as another input.
TEST(ExecutorInPlace, OverlappingArguments) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeSymbolicTensor(2));
    TensorView* y = addInput(f, makeSymbolicTensor(2));
    f->addOutput(add(x, y), x);
  }));
  for (const bool overlap : {false, true, false}) {
    const Tensor x = randomTensor({65, 65}, Device::host(), 1);
    const Tensor other = randomTensor({65, 65}, Device::host(), 1);
    const std::vector<double> expected =
        zipped(other, other.transpose(0, 1), [](double a, double b) { return a + b; });
    cache.runFusionWithInputs({x, (overlap ? x : other).transpose(0, 1)});
    expectValues(x, expected);
  }
}

TEST(ExecutorInPlace, PinnedSequenceOfOutputs) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(1));
    TensorView* y = add(x, constant(1.0));
    f->addOutput(y);
    f->addOutput(y, x);
    f->addOutput(y);
    f->addOutput(x);
  }));
  const Tensor x = randomTensor({8}, Device::host(), 1);
  const KernelArgs out = cache.runFusionWithInputs({x});
  ASSERT_EQ(out.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(out.tensor(i).data(), x.data());
  }
}

// --- messages ---

std::string messageOf(FusionExecutorCache& cache, const KernelArgs& args) {
  try {
    cache.runFusionWithInputs(args);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

TEST(ExecutorErrors, NameTheInput) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(2));
    Val* s = IrBuilder::create<Val>(DataType::Double);
    f->addInput(s);
    TensorView* y = addInput(f, makeContigTensor(2));
    f->addOutput(add(mul(x, s), y));
  }));
  const Tensor x = randomTensor({3, 4}, Device::host());
  const Tensor half = randomTensor({3, 4}, Device::host(), 0, DataType::Half);
  const Tensor row = randomTensor({4}, Device::host());
  const ScalarValue two = int64_t(2);
  auto contains = [&](const KernelArgs& args, const std::string& text) {
    const std::string message = messageOf(cache, args);
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  contains({two, two, x}, "to be an at::Tensor but got scalar 2");
  contains({x, x, x}, "Expected input 1, d");
  contains({x, row, x}, "to be a scalar but got float tensor of rank 1");
  contains({half, two, x},
           "to be bound to a tensor of dtype float, but got a tensor of dtype __half");
  contains({row, two, x}, "to be bound to a tensor of rank 2, but got a tensor of rank 1");
  contains({x, ScalarValue(std::complex<double>(2, 1)), x},
           "Scalar value (2,1) is not compatible with the expected data type: double.");
  contains({x, two}, "Expected 3 inputs, but got 2");
  contains({x.transpose(0, 1), two, x.transpose(0, 1)}, "to be contiguous in dimension");
  contains({x, two, randomTensor({3, 5}, Device::host())}, "Sizes do not agree");
  // The fusion stays usable.
  EXPECT_EQ(cache.runFusionWithInputs({x, two, x}).size(), 1u);
}

TEST(ExecutorErrors, NegativeExtentAtRunTime) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(1));
    f->addOutput(neg(pad(x, {-3, -2})));
  }));
  const std::string message = messageOf(cache, {randomTensor({4}, Device::host())});
  EXPECT_NE(message.find("Invalid resized domain extent"), std::string::npos) << message;
  EXPECT_EQ(sizesOf(cache.runFusionWithInputs({randomTensor({6}, Device::host())}).tensor(0)),
            std::vector<int64_t>{1});
}

// --- shapes of ones (found by random graphs) ---

TEST(ExecutorShapes, TriangleOfOnes) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigConcreteTensor({-1, 1, 1, 1}));
    f->addOutput(triu(x, 0));
  }));
  const Tensor x = randomTensor({5, 1, 1, 1}, Device::host(), 1);
  expectValues(cache.runFusionWithInputs({x}).tensor(0), x.toDoubles());
}

TEST(ExecutorShapes, OnesAndTheirBroadcasts) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigConcreteTensor({1}));
    TensorView* d = sub(x, broadcast(x, {false, true}));
    f->addOutput(sub(x, constant(-3.0)));
    f->addOutput(d);
    f->addOutput(mul(x, d));
  }));
  const Tensor x = randomTensor({1}, Device::host(), 1);
  const KernelArgs out = cache.runFusionWithInputs({x});
  expectValues(out.tensor(0), mapped(x, [](double v) { return v + 3.0; }));
  expectValues(out.tensor(1), {0.0});
  expectValues(out.tensor(2), {0.0});
}

TEST(ExecutorShapes, SliceBroadcastReshapeCat) {
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigConcreteTensor({4, 5}));
    TensorView* head = slice(x, {0, 0}, {2, 5});
    TensorView* r =
        reshape(broadcast(head, {false, true, false}), std::vector<int64_t>{1, 5, 2, 1});
    TensorView* product = mul(r, head);
    f->addOutput(cat({product, product, product}, 1));
  }));
  const Tensor x = randomTensor({4, 5}, Device::host(), 1);
  const std::vector<double> head = x.slice(0, 0, 2).toDoubles();
  std::vector<double> expected;
  for (int copy = 0; copy < 3; ++copy) {
    for (int i = 0; i < 5; ++i) {
      for (int j = 0; j < 2; ++j) {
        for (int k = 0; k < 5; ++k) {
          expected.push_back(head[i * 2 + j] * head[j * 5 + k]);
        }
      }
    }
  }
  expectValues(cache.runFusionWithInputs({x}).tensor(0), expected);
}

// --- LRU cache ---

TEST(ExecutorLru, CountsAndEvicts) {
  LRUCache lru(2);
  auto define = [](double c) {
    return defineFusion([c](Fusion* f) {
      TensorView* x = addInput(f, makeContigTensor(1));
      f->addOutput(add(x, constant(c)));
    });
  };
  EXPECT_NE(lru.stats().find("The fusion cache is empty.\n"), std::string::npos);
  auto first = lru.cacheCompile(define(1));
  EXPECT_EQ(lru.cacheCompile(define(1)), first);
  lru.cacheCompile(define(2));
  lru.cacheCompile(define(3));
  EXPECT_EQ(lru.numFusions(), 2);
  EXPECT_NE(lru.cacheCompile(define(1)), first);
  const std::string stats = lru.stats();
  EXPECT_NE(stats.find("Cache Lookups: 5\nCache Hits: 1\nHit Rate: 20%\n"), std::string::npos)
      << stats;
}

} // namespace
} // namespace nvfuser::test
