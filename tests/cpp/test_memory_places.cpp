// SPDX-License-Identifier: BSD-3-Clause
// Where intermediate tensors lie: never two at one place at the same time, and in the memory of
// results before those are written.
#include "executor_for_test.h"

#include <executor/launch_plan.h>
#include <executor/memory_places.h>
#include <executor/planner.h>

#include <algorithm>
#include <functional>
#include <random>
#include <utility>

namespace nvfuser::test {
namespace {

constexpr size_t kShared = MemoryPlaces::kSharedBlock;

bool overlap(const TensorLifetime& a, size_t a_begin, const TensorLifetime& b, size_t b_begin) {
  return a.first_use <= b.last_use && b.first_use <= a.last_use && a_begin < b_begin + b.bytes &&
         b_begin < a_begin + a.bytes;
}

void expectSound(const std::vector<TensorLifetime>& tensors, const std::vector<FreeMemory>& free) {
  const MemoryPlaces found = placeTensors(tensors, free);
  ASSERT_EQ(found.places.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto [memory, offset] = found.places[i];
    EXPECT_EQ(offset % kPlaceAlignment, 0);
    if (memory == kShared) {
      EXPECT_LE(offset + tensors[i].bytes, found.shared_bytes);
    } else {
      EXPECT_LE(offset + tensors[i].bytes, free[memory].bytes);
      EXPECT_LT(tensors[i].last_use, free[memory].first_use);
    }
    for (size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(memory == found.places[j].memory &&
                   overlap(tensors[i], offset, tensors[j], found.places[j].offset));
    }
  }
}

TEST(MemoryPlaces, RandomTensorsNeverOverlap) {
  std::mt19937 random(7);
  const auto below = [&](size_t end) { return random() % end; };
  for (int round = 0; round < 200; ++round) {
    std::vector<TensorLifetime> tensors(below(30));
    for (TensorLifetime& tensor : tensors) {
      const size_t first = below(12);
      tensor = {below(5000), first, first + below(5)};
    }
    std::vector<FreeMemory> free(below(5));
    for (FreeMemory& memory : free) {
      memory = {below(8000), below(16)};
    }
    expectSound(tensors, free);
  }
}

TEST(MemoryPlaces, LargeTensorsAreNotCutOffBySmallOnes) {
  // By time, the small one would lie behind the first, and the last beyond it.
  const std::vector<TensorLifetime> tensors = {{1024, 0, 1}, {256, 1, 3}, {2048, 2, 3}};
  EXPECT_EQ(placeTensors(tensors, {}).shared_bytes, 2304);
}

TEST(MemoryPlaces, AResultHoldsWhatIsReadBeforeItIsWritten) {
  const std::vector<FreeMemory> free = {{4096, 2}, {1024, 2}};
  const auto memoryOf = [&](const TensorLifetime& tensor) {
    return placeTensors(std::vector{tensor}, free).places[0].memory;
  };
  EXPECT_EQ(memoryOf({1000, 0, 1}), 1); // the smallest that has room
  EXPECT_EQ(memoryOf({2000, 0, 1}), 0);
  EXPECT_EQ(memoryOf({5000, 0, 1}), kShared);
  // The kernel that writes the result reads the tensor.
  EXPECT_EQ(memoryOf({1000, 1, 2}), kShared);
}

// Of one that is written part by part, in each part before that is.
TEST(MemoryPlaces, APartOfAResultHoldsWhatIsReadBeforeItIsWritten) {
  const std::vector<FreeMemory> free = {{4096, 0, {{0, 3000, 0}, {3000, 1096, 2}}}};
  const auto place = [&](const TensorLifetime& tensor) {
    return placeTensors(std::vector{tensor}, free).places[0];
  };
  EXPECT_EQ(place({1000, 0, 1}).memory, 0);
  EXPECT_EQ(place({1000, 0, 1}).offset, 3072); // a multiple of kPlaceAlignment
  EXPECT_EQ(place({1025, 0, 1}).memory, kShared);
  EXPECT_EQ(place({1000, 0, 2}).memory, kShared);
}

// y = x + 1, then z = y * 2 in its place, then two results of z, one of them in the same place.
TEST(MemoryPlaces, APlanNeedsLessThanItsTensors) {
  const Tensor x = randomTensor({64, 64}, Device::host(), 1);
  const KernelArgs args{x};
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* in = addInput(f, makeContigTensor(2));
    TensorView* y = segment_set(add(in, IrBuilder::create<Val>(1.0)));
    TensorView* z = segment_set(mul(y, IrBuilder::create<Val>(2.0)));
    f->addOutput(neg(z));
    f->addOutput(sum(z, {0}));
  }));
  const auto plan = cache.planFor(args.views());
  constexpr int64_t kTensor = 64 * 64 * 4;
  EXPECT_EQ(plan->blocks.size(), 0);
  EXPECT_EQ(plan->workspaces.size(), 2);
  EXPECT_GE(cache.peakBytes(args.views()), kTensor + 64 * 4);
  const KernelArgs out = cache.runFusionWithInputs(args);
  expectValues(out.tensor(0), zipped(x, x, [](double v, double) { return -2 * (v + 1); }), 1e-5);
}

// A large tensor is given back before the last results are allocated, into none of which it fits.
TEST(MemoryPlaces, LargeTensorsComeAndGo) {
  const Tensor x = randomTensor({2048, 1024}, Device::host(), 1);
  const KernelArgs args{x};
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* in = addInput(f, makeContigTensor(2));
    TensorView* y = segment_set(add(in, IrBuilder::create<Val>(1.0)));
    TensorView* h = segment_set(castOp(DataType::Half, y));
    f->addOutput(h);
    f->addOutput(castOp(DataType::Half, neg(h)));
    f->addOutput(castOp(DataType::Half, abs(h)));
  }));
  const auto plan = cache.planFor(args.views());
  constexpr int64_t kResult = 2048 * 1024 * 2;
  ASSERT_EQ(plan->blocks.size(), 1);
  EXPECT_EQ(plan->blocks[0].bytes, 2 * kResult);
  EXPECT_LT(plan->blocks[0].last_step + 1, plan->steps.size());
  EXPECT_GT(plan->results[1].first_step, plan->blocks[0].last_step);
  EXPECT_EQ(cache.peakBytes(args.views()), 3 * kResult);
  const KernelArgs out = cache.runFusionWithInputs(args);
  expectValues(out.tensor(1), zipped(x, x, [](double v, double) { return -(v + 1); }), 1e-2);
}

// A call that finds no memory has not changed its arguments: after the first step that writes to
// one nothing is allocated.
TEST(MemoryPlaces, ArgumentsAreWrittenWhenAllMemoryIsThere) {
  const Tensor x = randomTensor({2048, 1024}, Device::host(), 1);
  const Tensor statistics = randomTensor({1024}, Device::host(), 2);
  const KernelArgs args{x, statistics};
  FusionExecutorCache cache(defineFusion([](Fusion* f) {
    TensorView* in = addInput(f, makeContigTensor(2));
    TensorView* running = addInput(f, makeContigTensor(1));
    TensorView* sums = sum(in, {0});
    f->addOutput(add(running, sums), running);
    TensorView* y = segment_set(sub(in, broadcast(segment_set(sums), {true, false})));
    TensorView* h = segment_set(castOp(DataType::Half, y));
    f->addOutput(h);
    f->addOutput(castOp(DataType::Half, neg(h)));
    f->addOutput(castOp(DataType::Half, abs(h)));
  }));
  const auto plan = cache.planFor(args.views());
  const auto write = std::ranges::find_if(plan->steps, [&](const LaunchPlan::Step& step) {
    return std::ranges::any_of(step.outputs, [&](uint32_t v) { return v < plan->num_args; });
  });
  const auto first_write = static_cast<uint32_t>(write - plan->steps.begin());
  ASSERT_LT(first_write + 1, plan->steps.size());
  for (const LaunchPlan::MemoryEvent& event : plan->events_before) {
    EXPECT_LE(event.step, first_write);
  }
  const KernelArgs out = cache.runFusionWithInputs(args);
}

// What is read again later, read in another order, or of another size is not written over.
TEST(MemoryPlaces, OnlyWhatIsReadForTheLastTimeIsWrittenOver) {
  const Tensor x = randomTensor({64, 64}, Device::host(), 1);
  const KernelArgs args{x};
  const auto overwritten = [&](const std::function<void(Fusion*, TensorView*)>& define) {
    FusionExecutorCache cache(defineFusion([&](Fusion* f) {
      TensorView* in = addInput(f, makeContigTensor(2));
      define(f, segment_set(add(in, IrBuilder::create<Val>(1.0))));
    }));
    const auto plan = cache.planFor(args.views());
    size_t count = 0;
    for (const LaunchPlan::Step& step : plan->steps) {
      for (const LaunchPlan::Overwrite& each : step.overwrites) {
        count += each.input == plan->steps[0].outputs[0];
      }
    }
    return std::pair(count, plan->workspaces.size());
  };
  using Found = std::pair<size_t, size_t>;
  EXPECT_EQ(overwritten([&](Fusion* f, TensorView* y) { f->addOutput(segment_set(mul(y, y))); }),
            Found(1, 1));
  EXPECT_EQ(
      overwritten([&](Fusion* f, TensorView* y) { f->addOutput(add(y, transpose(y, 0, 1))); }),
      Found(0, 1));
  EXPECT_EQ(overwritten([&](Fusion* f, TensorView* y) { f->addOutput(castOp(DataType::Half, y)); }),
            Found(0, 1));
}

} // namespace
} // namespace nvfuser::test
