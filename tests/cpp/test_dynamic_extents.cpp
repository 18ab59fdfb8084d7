// Kernels that take any extent: which of them a definition of symbolic sizes gets, that they are
// used again, and their values.
#include "executor_for_test.h"

#include <base/options.h>

#include <algorithm>
#include <cmath>

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

} // namespace
} // namespace nvfuser::test
