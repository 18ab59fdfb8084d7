// SPDX-License-Identifier: BSD-3-Clause
// Kernels that start before the previous one is through, and blocks in reverse.
#include "executor_for_test.h"
#include "schedules_for_test.h"

#include <executor/kernel_orders.h>
#include <host/device_info.h>
#include <transform/propagate.h>

namespace nvfuser::test {
namespace {

class KernelOrderTest : public ::testing::Test {
 protected:
  std::string textFor(const KernelOrder& order) {
    TensorView* x = makeContigConcreteTensor({5, 300});
    fusion_.addInput(x);
    TensorView* y = add(x, IrBuilder::create<Val>(1.0));
    fusion_.addOutput(y);
    y->split(1, 128);
    y->axis(0)->parallelize(ParallelType::BIDy);
    y->axis(1)->parallelize(ParallelType::BIDx);
    y->axis(2)->parallelize(ParallelType::TIDx);
    executor_.lower(&fusion_, Device::host(), DataType::Int, {}, {}, SchedulerType::None, order);
    return executor_.kernelText();
  }

  SchedulesFor gpu_{HostSchedules::ForSmallHopper};
  Fusion fusion_;
  FusionGuard guard_{&fusion_};
  KernelExecutor executor_;
};

TEST_F(KernelOrderTest, NothingIsSaidOfAKernelAlone) {
  const std::string text = textFor({});
  EXPECT_EQ(text.find("Kernel()"), std::string::npos) << text;
  EXPECT_EQ(text.find("gridDim"), std::string::npos) << text;
  EXPECT_FALSE(executor_.isProgrammaticDependentLaunchEnabled());
}

TEST_F(KernelOrderTest, TheNextOneIsLetStartOnceThisOneHasWaited) {
  const std::string text = textFor({.waits_for_previous = true, .lets_next_start = true});
  const size_t lets = text.find("  nvf::letNextKernelStart();\n");
  const size_t waits = text.find("  nvf::waitForPreviousKernel();\n");
  ASSERT_NE(lets, std::string::npos) << text;
  ASSERT_NE(waits, std::string::npos) << text;
  EXPECT_LT(waits, lets);
  // Nothing is read before.
  EXPECT_LT(lets, text.find("T0[")) << text;
  EXPECT_TRUE(executor_.isProgrammaticDependentLaunchEnabled());
}

TEST_F(KernelOrderTest, TheFirstOneLetsTheNextStartAtOnce) {
  const std::string text = textFor({.lets_next_start = true});
  const size_t lets = text.find("  nvf::letNextKernelStart();\n");
  ASSERT_NE(lets, std::string::npos) << text;
  EXPECT_LT(lets, text.find("T0[")) << text;
}

TEST_F(KernelOrderTest, WhatNobodyWritesIsReadBeforeTheWait) {
  textFor({});
  TensorView* staged = fusion_.inputs()[0]->as<TensorView>()->cacheAfter();
  TensorView* y = fusion_.outputs()[0]->as<TensorView>();
  ASSERT_NE(staged, nullptr);
  transformLike(y);
  scheduler_utils::parallelizeAllLike(y);
  KernelExecutor executor;
  executor.lower(&fusion_, Device::host(), DataType::Int, {}, {}, SchedulerType::None,
                 {.waits_for_previous = true, .early_inputs = 1});
  const std::string& text = executor.kernelText();
  const size_t waits = text.find("  nvf::waitForPreviousKernel();\n");
  ASSERT_NE(waits, std::string::npos) << text;
  EXPECT_GT(waits, text.find("T0[")) << text;
  EXPECT_LT(waits, text.find("T1[")) << text;
}

TEST_F(KernelOrderTest, BlocksInReverseDoTheSame) {
  const std::string text = textFor({.reverses_blocks = true});
  EXPECT_NE(text.find("bx = gridDim.x - 1 - blockIdx.x;"), std::string::npos) << text;
  EXPECT_NE(text.find("by = gridDim.y - 1 - blockIdx.y;"), std::string::npos) << text;
  EXPECT_NE(text.find("tx = threadIdx.x;"), std::string::npos) << text;
  executor_.setModule(compile(executor_.compileRequest()));
  const Tensor x = randomTensor({5, 300}, Device::host());
  std::vector<double> expected = x.toDoubles();
  for (double& value : expected) {
    value += 1;
  }
  expectValues(executor_.run({x}).tensor(0), expected, 1e-6);
}

// x + 1, and twice that, in kernels of their own.
class OrdersOfACallTest : public ::testing::Test {
 protected:
  OrdersOfACallTest() {
    Fusion& fusion = concrete_.fusion;
    FusionGuard guard(&fusion);
    TensorView* x = addInput(&fusion, makeContigTensor(1));
    TensorView* first = add(x, IrBuilder::create<Val>(1.0));
    TensorView* second = mul(x, first);
    fusion.addOutput(second);
    addSegment({x}, {first});
    addSegment({x, first}, {second});
    hopper_.device = Device::cuda(1);
    hopper_.arch = 90;
  }

  void addSegment(std::vector<Val*> inputs, std::vector<Val*> outputs) {
    auto state = std::make_unique<SegmentState>();
    state->segment.inputs = std::move(inputs);
    state->segment.outputs = std::move(outputs);
    state->segment.scheduler = SchedulerType::PointWise;
    concrete_.segments.push_back(std::move(state));
  }

  ConcreteFusion concrete_;
  DeviceInfo hopper_;
};

TEST_F(OrdersOfACallTest, TheSecondStartsEarlyAndReadsWhatNoKernelWrites) {
  const std::vector<KernelOrder> expected{
      {.lets_next_start = true},
      {.waits_for_previous = true, .early_inputs = 1, .reverses_blocks = true}};
  EXPECT_EQ(kernelOrders(concrete_, hopper_), expected);
}

TEST_F(OrdersOfACallTest, NothingIsReadEarlyWhereMemoryOverlaps) {
  concrete_.overlap = true;
  EXPECT_EQ(kernelOrders(concrete_, hopper_).at(1).early_inputs, 0U);
}

TEST_F(OrdersOfACallTest, OlderDevicesAndTheHostRunOneAfterTheOther) {
  DeviceInfo ampere = hopper_;
  ampere.arch = 80;
  EXPECT_EQ(kernelOrders(concrete_, ampere), std::vector<KernelOrder>(2));
  EXPECT_EQ(kernelOrders(concrete_, hostDeviceInfo()), std::vector<KernelOrder>(2));
}

TEST_F(OrdersOfACallTest, AnOptionOfItsOwnTurnsItOff) {
  {
    const OptionsGuard options({}, {"launch_graph"});
    EXPECT_NE(kernelOrders(concrete_, hopper_), std::vector<KernelOrder>(2));
  }
  const OptionsGuard options({}, {"programmatic_dependent_launch"});
  EXPECT_EQ(kernelOrders(concrete_, hopper_), std::vector<KernelOrder>(2));
}

} // namespace
} // namespace nvfuser::test
