// SPDX-License-Identifier: BSD-3-Clause
// Planning is linear: from 25 to 400 operations or norms it takes no longer than in proportion to
// n^1.2, and what is given to the compiler grows no faster either, in kernels of bounded size. The
// kernels are compiled (and kept) by a first call, so that what is timed is all but that; the plan
// that is kept too has no texts, so that it is made again for them. Time is CPU time of this
// thread, the least of several repetitions: other programs beside the test only ever make one
// longer.
#include "executor_for_test.h"

#include <base/options.h>

#include <cmath>
#include <ctime>

namespace nvfuser::test {
namespace {

constexpr int kFew = 25;
constexpr int kSome = 100;
constexpr int kMany = 400;
// Growth that is allowed: operations to this power.
constexpr double kExponent = 1.2;
constexpr int kFewestRepetitions = 3;
constexpr int kMostRepetitions = 20;
// A kernel of the most operations that there may be, of the longest kind. For the host itself,
// loops over threads stand around statements.
size_t mostText() {
  return currentOptions().host_schedules == HostSchedules::ForHost ? 50000 : 40000;
}

using Define = std::function<void(Fusion*, int count)>;

double threadSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Planned {
  Planned(const Define& define, int count)
      : count(count), fusion(defineFusion([&](Fusion* f) { define(f, count); })) {
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

  // Whether one of so many times fewer operations took at least the share of the time that it may.
  bool growsSlowlyFrom(const Planned& fewer) const {
    return seconds < allowed(fewer) * fewer.seconds;
  }

  double allowed(const Planned& fewer) const {
    return std::pow(static_cast<double>(count) / fewer.count, kExponent);
  }

  const int count;
  const Tensor x = randomTensor({4, 1000}, Device::host(), 1);
  std::shared_ptr<Fusion> fusion;
  size_t text = 0;
  size_t longest = 0;
  double seconds = HUGE_VAL;
};

// `times` as many operations: where the usual numbers lie on both sides of what one kernel holds.
void expectLinear(const Define& define, int times = 1) {
  Planned few(define, times * kFew);
  Planned some(define, times * kSome);
  Planned many(define, times * kMany);
  EXPECT_LT(static_cast<double>(many.text), many.allowed(few) * static_cast<double>(few.text));
  EXPECT_LT(many.longest, mostText());
  for (int i = 0; i < kMostRepetitions; ++i) {
    few.repeat();
    some.repeat();
    many.repeat();
    if (i + 1 >= kFewestRepetitions && many.growsSlowlyFrom(few) && many.growsSlowlyFrom(some)) {
      return;
    }
  }
  EXPECT_LT(many.seconds, many.allowed(few) * few.seconds);
  EXPECT_LT(many.seconds, many.allowed(some) * some.seconds);
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

// A kernel holds some 130 of these.
TEST(PlanningTime, Tree) {
  expectLinear(
      [](Fusion* f, int operations) {
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
      },
      /*times=*/2);
}

// Each size contains the one before several times, and the loops of each tensor are made by all
// slices after it in the kernel: long chains are cut.
TEST(PlanningTime, ChainOfSlices) {
  expectLinear([](Fusion* f, int operations) {
    TensorView* tv = input(f);
    for (int i = 0; i < operations / 2; ++i) {
      tv = neg(slice(tv, std::vector<int64_t>{0, 1}, std::vector<int64_t>{4, 999 - i}));
    }
    f->addOutput(tv);
  });
}

// Equal sizes that are computed apart are compared operation by operation, each once.
TEST(PlanningTime, TwoChainsOfSlices) {
  expectLinear([](Fusion* f, int operations) {
    TensorView* ends[] = {input(f), nullptr};
    ends[1] = ends[0];
    for (TensorView*& tv : ends) {
      for (int i = 0; i < operations / 4; ++i) {
        tv = neg(slice(tv, std::vector<int64_t>{0, 1}, std::vector<int64_t>{4, 999 - i}));
      }
    }
    f->addOutput(add(ends[0], ends[1]));
  });
}

// Each dimension is made of the ones before twice: of the parts of what was merged.
TEST(PlanningTime, ChainOfReshapes) {
  expectLinear([](Fusion* f, int operations) {
    TensorView* tv = input(f);
    for (int i = 0; i < operations / 2; ++i) {
      tv = neg(
          reshape(tv, i % 2 == 0 ? std::vector<int64_t>{500, 8} : std::vector<int64_t>{4, 1000}));
    }
    f->addOutput(tv);
  });
}

TensorView* ofRows(TensorView* tv) {
  return broadcast(tv, {false, true});
}

TEST(PlanningTime, ChainOfPads) {
  expectLinear([](Fusion* f, int operations) {
    TensorView* tv = input(f);
    for (int i = 0; i < operations / 2; ++i) {
      tv = neg(pad(tv, std::vector<Val*>{f->oneVal(), f->zeroVal()}));
    }
    f->addOutput(tv);
  });
}

TEST(PlanningTime, StackOfCenterings) {
  expectLinear([](Fusion* f, int norms) {
    TensorView* tv = input(f);
    for (int i = 0; i < norms; ++i) {
      tv = sub(tv, ofRows(sum(tv, {1})));
    }
    f->addOutput(tv);
  });
}

TEST(PlanningTime, StackOfLayerNorms) {
  expectLinear([](Fusion* f, int norms) {
    TensorView* tv = input(f);
    for (int i = 0; i < norms; ++i) {
      const VarMeanResult stats = variance_mean(tv, {1}, 0, true);
      tv = add(tv, mul(sub(tv, stats.mean), rsqrt(stats.var)));
    }
    f->addOutput(tv);
  });
}

TEST(PlanningTime, StackOfSoftmaxes) {
  expectLinear([](Fusion* f, int norms) {
    TensorView* tv = input(f);
    for (int i = 0; i < norms; ++i) {
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
  expectLinear([](Fusion* f, int layers) {
    TensorView* tv = input(f);
    for (int i = 0; i < layers; ++i) {
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
