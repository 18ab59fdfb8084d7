// SPDX-License-Identifier: BSD-3-Clause
// Kernels that take any extent: which of them a definition of symbolic sizes gets, that they are
// used again, and their values.
#include "executor_for_test.h"
#include "schedules_for_test.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nvfuser::test {
namespace {

std::shared_ptr<Fusion> softmax() {
  return defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(2));
    TensorView* e = exp(sub(x, max(x, {1}, /*keepdim=*/true)));
    f->addOutput(div(e, sum(e, {1}, /*keepdim=*/true)));
  });
}

std::vector<double> expectedSoftmax(const Tensor& x) {
  std::vector<double> values = x.toDoubles();
  const auto width = static_cast<size_t>(sizesOf(x)[1]);
  for (size_t row = 0; row < values.size(); row += width) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row);
    const auto end = begin + static_cast<std::ptrdiff_t>(width);
    const double top = *std::max_element(begin, end);
    double total = 0;
    std::for_each(begin, end, [&](double& v) { total += v = std::exp(v - top); });
    std::for_each(begin, end, [&](double& v) { v /= total; });
  }
  return values;
}

int64_t kernelsAfter(FusionExecutorCache& cache, int64_t rows, int64_t width) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
  const Tensor x = randomTensor({rows, width}, Device::host(), static_cast<uint64_t>(width));
  expectValues(cache.runFusionWithInputs({x}).tensor(0), expectedSoftmax(x), 1e-6);
  EXPECT_EQ(cache.numFallbacks(), 0);
  return cache.numKernels();
}

// Kernels of their own for two widths; then one for rows of whole vectors that a block holds, one
// for others, a third for short ones, and two for those of several blocks.
TEST(DynamicExtents, KernelsOfASoftmax) {
  const SchedulesFor gpu(HostSchedules::ForSmallHopper);
  FusionExecutorCache cache(softmax());
  EXPECT_EQ(kernelsAfter(cache, 9, 1000), 1);
  EXPECT_EQ(kernelsAfter(cache, 9, 2000), 2);
  for (const int64_t width : {20, 36, 100, 128, 260, 3000, 4096, 8192}) {
    EXPECT_EQ(kernelsAfter(cache, 9, width), 3);
  }
  for (const int64_t width : {515, 1023, 4097, 5002, 8000 + 1}) {
    EXPECT_EQ(kernelsAfter(cache, 9, width), 4);
  }
  // Without vectors, or with too few of them.
  for (const int64_t width : {1, 2, 4, 7, 12, 16, 33, 66, 509}) {
    EXPECT_EQ(kernelsAfter(cache, 9, width), 5);
  }
  for (const int64_t width : {8196, 16384, 20000, 100000}) {
    EXPECT_EQ(kernelsAfter(cache, 3, width), 6);
  }
  for (const int64_t width : {8197, 12345}) {
    EXPECT_EQ(kernelsAfter(cache, 3, width), 7);
  }
  EXPECT_EQ(kernelsAfter(cache, 3, 50257), 8); // more for each thread
  // The widths that have kernels of their own use them.
  EXPECT_EQ(kernelsAfter(cache, 5, 1000), 8);
}

TEST(DynamicExtents, CanBeTurnedOff) {
  OptionsGuard guard;
  guard.options().disable.set(DisableOption::DynamicExtents);
  FusionExecutorCache cache(softmax());
  int64_t kernels = 0;
  for (const int64_t width : {1000, 2000, 3000, 4000}) {
    EXPECT_EQ(kernelsAfter(cache, 4, width), ++kernels);
  }
}

// Rows of n elements as 4 batches of equal shares: 3 of them are full, and say so. Threads that
// only fill a warp up take no part, in full batches neither.
TEST(DynamicExtents, PaddedThreadsTakeNoPartInFullBatches) {
  using B = IrBuilder;
  constexpr int64_t kBatches = 4;
  const std::shared_ptr<Fusion> fusion = defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(1));
    TensorView* doubled = mul(x, B::create<Val>(2.0));
    f->addOutput(doubled);
    Val* length = doubled->axis(0)->extent();
    Val* threads = f->chooseAtLaunch(B::ceilDivExpr(length, B::index(kBatches)), 256);
    Val* warps = B::mulExpr(B::ceilDivExpr(threads, B::index(32)), B::index(32));
    f->padThreads(threads, f->chooseAtLaunch(warps, 256, /*by_warps=*/true));
    Val* filled = B::mulExpr(threads, B::index(kBatches - 1));
    f->chooseAtLaunch(B::subExpr(length, filled), std::numeric_limits<int64_t>::max());
    doubled->split(0, threads);
    doubled->split(0, kBatches);
    f->assumeExtent(doubled->axis(0)->extent(), 1);
    doubled->axis(1)->parallelize(ParallelType::Unroll);
    doubled->axis(2)->parallelize(ParallelType::TIDx);
  });
  for (const Device device : testDevices()) {
    KernelExecutor executor;
    for (const int64_t length : {16, 97, 130, 385, 1000}) {
      SCOPED_TRACE(length);
      const Tensor x = randomTensor({length}, device, static_cast<uint64_t>(length));
      if (!executor.isCompiled()) {
        executor.compile(fusion.get(), {x});
      }
      const KernelArgs outputs = executor.run({x});
      expectValues(outputs.tensor(0), mapped(x, [](double v) { return 2 * v; }), 1e-6);
    }
    const std::string& text = executor.kernelText();
    EXPECT_NE(text.find("(tx < i"), std::string::npos) << text;
    EXPECT_NE(text.find("< 3) || "), std::string::npos) << text;
    EXPECT_ANY_THROW(executor.run({randomTensor({9}, device, 1)})); // 3 threads fill no 3 batches
  }
}

} // namespace
} // namespace nvfuser::test
