// SPDX-License-Identifier: BSD-3-Clause
// Several threads with one definition: each kernel is compiled once, values are right. To be run
// with ThreadSanitizer too.
#include "executor_for_test.h"

#include <base/error.h>
#include <executor/kernel_limits.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <latch>
#include <set>
#include <thread>

namespace nvfuser::test {
namespace {

// Two kernels: a sum over the rows, and what is done with it.
std::shared_ptr<Fusion> sumThenAdd() {
  return defineFusion([](Fusion* f) {
    TensorView* x = addInput(f, makeContigTensor(2));
    TensorView* y = addInput(f, makeContigTensor(1));
    f->addOutput(add(segment_set(sum(x, {1})), y));
  });
}

std::vector<double> expectedSums(const Tensor& x, const Tensor& y) {
  const std::vector<double> values = x.to(Device::host()).toDoubles();
  std::vector<double> out = y.to(Device::host()).toDoubles();
  const size_t columns = values.size() / out.size();
  for (size_t i = 0; i < values.size(); ++i) {
    out[i / columns] += values[i];
  }
  return out;
}

void inThreads(int count, const std::function<void(int)>& work) {
  std::latch together(count);
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      together.arrive_and_wait();
      work(t);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(PlanThreads, TheSameShapeIsPlannedAndCompiledOnce) {
  FusionExecutorCache cache(sumThenAdd());
  const Tensor x = randomTensor({6, 40}, Device::host(), 1);
  const Tensor y = randomTensor({6}, Device::host(), 2);
  inThreads(8, [&](int) {
    expectValues(cache.runFusionWithInputs({x, y}).tensor(0), expectedSums(x, y), 1e-4);
  });
  EXPECT_EQ(cache.numPlans(), 1);
  EXPECT_EQ(cache.numKernels(), 2);
}

TEST(PlanThreads, ShapesThatShareAKernelCompileItOnce) {
  FusionExecutorCache cache(sumThenAdd());
  std::atomic<int64_t> calls = 0;
  inThreads(8, [&](int t) {
    for (int64_t i = 0; i < 4; ++i) {
      // Every thread has shapes of its own, and half of them have the width of the neighbour's.
      const int64_t rows = 3 + 8 * i + t;
      const int64_t columns = 32 * (1 + (t + i) % 3);
      const Tensor x = randomTensor({rows, columns}, Device::host(), static_cast<uint64_t>(rows));
      const Tensor y = randomTensor({rows}, Device::host(), 2);
      expectValues(cache.runFusionWithInputs({x, y}).tensor(0), expectedSums(x, y), 1e-4);
      ++calls;
    }
  });
  EXPECT_EQ(cache.numPlans(), calls);
  // As many as one thread compiles, whichever widths come first and get kernels of their own. Of
  // several that are planned at once, all may be such first ones.
  std::array<int64_t, 3> widths{32, 64, 96};
  std::set<int64_t> counts;
  do {
    FusionExecutorCache alone(sumThenAdd());
    for (int64_t rows = 3; rows < 35; ++rows) {
      const int64_t columns = widths.at(rows % 3);
      alone.runFusionWithInputs({randomTensor({rows, columns}, Device::host(), 1),
                                 randomTensor({rows}, Device::host(), 2)});
    }
    counts.insert(alone.numKernels());
  } while (std::ranges::next_permutation(widths).found);
  EXPECT_GE(cache.numKernels(), *counts.begin());
  EXPECT_LE(cache.numKernels(), *counts.rbegin() + static_cast<int64_t>(widths.size()) - 1);
}

TEST(PlanThreads, ReportsAndSettingsBetweenCalls) {
  FusionExecutorCache cache(sumThenAdd());
  inThreads(4, [&](int t) {
    for (int64_t i = 1; i <= 4; ++i) {
      const Tensor x = randomTensor({i, 32 * i}, Device::host(), 1);
      const Tensor y = randomTensor({i}, Device::host(), 2);
      const KernelArgs args{x, y};
      if (t == 0) {
        EXPECT_EQ(cache.segmentReports(args).size(), 2u);
      } else if (t == 1) {
        cache.setParams({});
      } else if (t == 2) {
        (void)cache.isCompiled(args);
      }
      expectValues(cache.runFusionWithInputs(args).tensor(0), expectedSums(x, y), 1e-4);
    }
  });
}

// Sets the limits of kept kernels and plans back.
class LimitsGuard {
 public:
  explicit LimitsGuard(const KernelLimits::Limits& limits) {
    KernelLimits::instance().setLimits(limits);
  }
  ~LimitsGuard() {
    KernelLimits::instance().setLimits(before_);
  }
  LimitsGuard(const LimitsGuard&) = delete;
  LimitsGuard& operator=(const LimitsGuard&) = delete;

 private:
  KernelLimits::Limits before_ = KernelLimits::instance().limits();
};

TEST(PlanThreads, PlansOfManyWidthsAreMadeStoredAndGivenUp) {
  const LimitsGuard limits({3, size_t{1} << 30, 10});
  FusionExecutorCache cache(sumThenAdd());
  inThreads(4, [&](int t) {
    for (int64_t i = 0; i < 24; ++i) {
      const int64_t rows = 2 + i % 3;
      const int64_t columns = 16 + 4 * i + t;
      const Tensor x = randomTensor({rows, columns}, Device::host(), 1);
      const Tensor y = randomTensor({rows}, Device::host(), 2);
      expectValues(cache.runFusionWithInputs({x, y}).tensor(0), expectedSums(x, y), 1e-4);
      EXPECT_LE(cache.numPlans(), 10);
    }
  });
}

TEST(PlanThreads, AnErrorReachesEveryThreadThatWaits) {
  FusionExecutorCache cache(sumThenAdd());
  std::atomic<int> errors = 0;
  inThreads(8, [&](int) {
    try {
      cache.runFusionWithInputs(
          {randomTensor({6, 40}, Device::host(), 1), randomTensor({7}, Device::host(), 2)});
    } catch (const UserError&) {
      ++errors;
    }
  });
  EXPECT_EQ(errors, 8);
  EXPECT_EQ(cache.numPlans(), 0);
}

} // namespace
} // namespace nvfuser::test
