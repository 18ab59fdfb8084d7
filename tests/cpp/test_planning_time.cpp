// Planning is linear: four times the operations take about four times as long, and what is given to
// the compiler grows no faster either, in kernels of bounded size. The kernels are compiled (and
// kept) by a first call, so that what is timed is all but that; the plan that is kept too has no
// texts, so that it is made again for them. Time is CPU time of this thread, the least of several
// repetitions.
#include "executor_for_test.h"

#include <cmath>
#include <ctime>

namespace nvfuser::test {
namespace {

constexpr int kOperations = 100;
constexpr int kTimesLarger = 4;
// Growth that is allowed: operations to this power.
constexpr double kExponent = 1.2;
// Of chains of slices and reshapes, which grow by n^1.3 (docs/measurements/kernel_size.md).
constexpr double kExponentOfTransforms = 1.5;
// Other programs run beside the test and only ever make a repetition longer.
constexpr int kFewestRepetitions = 3;
constexpr int kMostRepetitions = 20;
// A kernel of the most operations that there may be, of the longest kind.
constexpr size_t kMostText = 40000;

using Define = std::function<void(Fusion*, int operations)>;

double threadSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Planned {
  explicit Planned(const Define& define, int operations)
      : fusion(defineFusion([&](Fusion* f) { define(f, operations); })) {
    FusionExecutorCache cache(std::make_shared<Fusion>(*fusion));
    cache.runFusionWithInputs({x});
    const std::string code = cache.getMostRecentCode();
    text = code.size();
    for (size_t begin = 0; begin != std::string::npos;) {
      const size_t next = code.find("NVF_KERNEL(", begin + 1);
      longest = std::max(longest, std::min(next, text) - begin);
      begin = next;
    }
  }

  void repeat() {
    FusionExecutorCache cache(std::make_shared<Fusion>(*fusion));
    const double begin = threadSeconds();
    cache.runFusionWithInputs({x});
    EXPECT_FALSE(cache.getMostRecentCode().empty());
    EXPECT_EQ(cache.numPlanned(), 1);
    seconds = std::min(seconds, threadSeconds() - begin);
  }

  const Tensor x = randomTensor({4, 1000}, Device::host(), 1);
  std::shared_ptr<Fusion> fusion;
  size_t text = 0;
  size_t longest = 0;
  double seconds = HUGE_VAL;
};

void expectLinear(const Define& define, double exponent = kExponent) {
  Planned small(define, kOperations);
  Planned large(define, kTimesLarger * kOperations);
  const double most = std::pow(kTimesLarger, exponent);
  EXPECT_LT(static_cast<double>(large.text), most * static_cast<double>(small.text));
  EXPECT_LT(large.longest, kMostText);
  for (int i = 0; i < kMostRepetitions; ++i) {
    small.repeat();
    large.repeat();
    if (i + 1 >= kFewestRepetitions && large.seconds < most * small.seconds) {
      return;
    }
  }
  EXPECT_LT(large.seconds, most * small.seconds);
}

TensorView* input(Fusion* f) {
  return addInput(f, makeContigTensor(2));
}

TEST(PlanningTime, Chain) {
  expectLinear([](Fusion* f, int operations) {
    TensorView* tv = input(f);
    for (int i = 0; i < operations; ++i) {
      tv = neg(tv);
    }
    f->addOutput(tv);
  });
}

TEST(PlanningTime, Tree) {
  expectLinear([](Fusion* f, int operations) {
    TensorView* x = input(f);
    std::vector<TensorView*> level;
    for (int i = 0; i < operations / 2; ++i) {
      level.push_back(mul(x, IrBuilder::create<Val>(1.0 / (i + 1))));
    }
    while (level.size() > 1) {
      std::vector<TensorView*> next;
      for (size_t i = 0; i + 1 < level.size(); i += 2) {
        next.push_back(add(level[i], level[i + 1]));
      }
      if (level.size() % 2 != 0) {
        next.push_back(level.back());
      }
      level = std::move(next);
    }
    f->addOutput(level.front());
  });
}

// Each size contains the one before several times, and the loops of each tensor are made by all
// slices after it in the kernel: long chains are cut.
TEST(PlanningTime, ChainOfSlices) {
  expectLinear(
      [](Fusion* f, int operations) {
        TensorView* tv = input(f);
        for (int i = 0; i < operations / 2; ++i) {
          tv = neg(slice(tv, std::vector<int64_t>{0, 1}, std::vector<int64_t>{4, 999 - i}));
        }
        f->addOutput(tv);
      },
      kExponentOfTransforms);
}

// Each dimension is made of the ones before twice: of the parts of what was merged.
TEST(PlanningTime, ChainOfReshapes) {
  expectLinear(
      [](Fusion* f, int operations) {
        TensorView* tv = input(f);
        for (int i = 0; i < operations / 2; ++i) {
          tv = neg(reshape(
              tv, i % 2 == 0 ? std::vector<int64_t>{500, 8} : std::vector<int64_t>{4, 1000}));
        }
        f->addOutput(tv);
      },
      kExponentOfTransforms);
}

TensorView* ofRows(TensorView* tv) {
  return broadcast(tv, {false, true});
}

TEST(PlanningTime, StackOfCenterings) {
  expectLinear([](Fusion* f, int operations) {
    TensorView* tv = input(f);
    for (int i = 0; i < operations / 4; ++i) {
      tv = sub(tv, ofRows(sum(tv, {1})));
    }
    f->addOutput(tv);
  });
}

TEST(PlanningTime, StackOfLayerNorms) {
  expectLinear([](Fusion* f, int operations) {
    TensorView* tv = input(f);
    for (int i = 0; i < operations / 4; ++i) {
      const VarMeanResult stats = variance_mean(tv, {1}, 0, true);
      tv = add(tv, mul(sub(tv, stats.mean), rsqrt(stats.var)));
    }
    f->addOutput(tv);
  });
}

TEST(PlanningTime, StackOfSoftmaxes) {
  expectLinear([](Fusion* f, int operations) {
    TensorView* tv = input(f);
    for (int i = 0; i < operations / 4; ++i) {
      TensorView* e = exp(sub(tv, ofRows(max(tv, {1}))));
      tv = add(tv, div(e, ofRows(sum(e, {1}))));
    }
    f->addOutput(tv);
  });
}

// Of one tensor, by one kernel until there are too many.
TEST(PlanningTime, SumsOfRows) {
  expectLinear([](Fusion* f, int operations) {
    TensorView* x = input(f);
    TensorView* total = nullptr;
    for (int i = 0; i < operations / 2; ++i) {
      TensorView* part = sum(mul(x, IrBuilder::create<Val>(1.0 / (i + 1))), {1});
      total = total == nullptr ? part : add(total, part);
    }
    f->addOutput(total);
  });
}

TEST(PlanningTime, SumsOfColumns) {
  expectLinear([](Fusion* f, int operations) {
    TensorView* x = input(f);
    for (int i = 0; i < operations / 2; ++i) {
      f->addOutput(sum(mul(x, IrBuilder::create<Val>(1.0 / (i + 1))), {0}));
    }
  });
}

// Kernels between boundaries, all alike.
TEST(PlanningTime, LayersBetweenBoundaries) {
  expectLinear([](Fusion* f, int operations) {
    TensorView* tv = input(f);
    for (int i = 0; i < operations / 5; ++i) {
      tv = relu(add(segment_set(tv), IrBuilder::create<Val>(0.5)));
    }
    f->addOutput(tv);
  });
}

TEST(PlanningTime, ManyOutputs) {
  expectLinear([](Fusion* f, int operations) {
    TensorView* tv = input(f);
    for (int i = 0; i < operations / 2; ++i) {
      tv = neg(tv);
      f->addOutput(exp(tv));
    }
  });
}

} // namespace
} // namespace nvfuser::test
