// Kernels that start before the previous one is through, and blocks in reverse.
#include "executor_for_test.h"

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

TEST_F(KernelOrderTest, TheNextOneIsLetStartBeforeThisOneWaits) {
  const std::string text = textFor({.waits_for_previous = true, .lets_next_start = true});
  const size_t lets = text.find("  nvf::letNextKernelStart();\n");
  const size_t waits = text.find("  nvf::waitForPreviousKernel();\n");
  ASSERT_NE(lets, std::string::npos) << text;
  ASSERT_NE(waits, std::string::npos) << text;
  EXPECT_LT(lets, waits);
  // Nothing is read before.
  EXPECT_LT(waits, text.find("T0[")) << text;
  EXPECT_TRUE(executor_.isProgrammaticDependentLaunchEnabled());
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

} // namespace
} // namespace nvfuser::test
