// Planning is linear: four times the operations take about four times as long. The
// kernel is compiled (and kept) by a first call, so that what is timed is all but that; the plan
// that is kept too has no texts, so that it is made again for them.
#include "executor_for_test.h"

#include <chrono>

namespace nvfuser::test {
namespace {

constexpr int kOperations = 100;
constexpr int kTimesLarger = 4;
// Twice what is linear: other programs run beside the test.
constexpr double kMostTimesLonger = 8;

using Define = std::function<void(Fusion*, int operations)>;

double secondsToPlan(const Define& define, int operations) {
  const auto fusion = defineFusion([&](Fusion* f) { define(f, operations); });
  const Tensor x = randomTensor({4, 1000}, Device::host(), 1);
  double best = 1e9;
  for (int repetition = 0; repetition < 4; ++repetition) {
    FusionExecutorCache cache(std::make_shared<Fusion>(*fusion));
    const auto begin = std::chrono::steady_clock::now();
    cache.runFusionWithInputs({x});
    EXPECT_FALSE(cache.getMostRecentCode().empty());
    EXPECT_EQ(cache.numPlanned(), 1);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    best = repetition == 0 ? best : std::min(best, taken.count());
  }
  return best;
}

void expectLinear(const Define& define, int operations = kOperations) {
  const double small = secondsToPlan(define, operations);
  const double large = secondsToPlan(define, kTimesLarger * operations);
  EXPECT_LT(large, kMostTimesLonger * small);
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
      kOperations / 2);
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
      kOperations / 2);
}

TEST(PlanningTime, ChainOfNormalizations) {
  expectLinear(
      [](Fusion* f, int operations) {
        TensorView* tv = input(f);
        for (int i = 0; i < operations / 4; ++i) {
          tv = sub(tv, broadcast(sum(tv, {1}), {false, true}));
        }
        f->addOutput(tv);
      },
      kOperations / 2);
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
