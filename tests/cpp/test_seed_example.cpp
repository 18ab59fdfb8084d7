// SPDX-License-Identifier: BSD-3-Clause
// The example of a manual schedule that users start from, step by step and through KernelExecutor.
#include "executor_for_test.h"

#include <codegen/codegen.h>
#include <fusion.h>
#include <ir/builder.h>
#include <lower/lower.h>
#include <ops/all_ops.h>
#include <scheduler/utils.h>

namespace nvfuser::test {
namespace {

void defineAndSchedule(Fusion& fusion) {
  FusionGuard fg(&fusion);

  int nDims = 2;
  TensorView* tv0 = makeContigTensor(nDims);
  TensorView* tv1 = makeContigTensor(nDims);
  fusion.addInput(tv0);
  fusion.addInput(tv1);

  TensorView* tv2 = add(tv1, IrBuilder::create<Val>(2.0));
  TensorView* tv3 = add(tv0, tv2);
  fusion.addOutput(tv3);

  tv3->merge(0);
  tv3->split(0, 128);
  tv3->split(0, 4);

  TensorView* tv_inputs[] = {tv0, tv1};
  for (auto tv_input : tv_inputs) {
    tv_input->computeAt(tv3, -1, ComputeAtMode::MostInlined);
  }
  inlineMost();

  tv3->axis(0)->parallelize(ParallelType::BIDx);
  tv3->axis(1)->parallelize(ParallelType::Unroll);
  tv3->axis(2)->parallelize(ParallelType::TIDx);
  scheduler_utils::parallelizeAllLike(tv3);
}

TEST(SeedExample, StagesCanBeCalledOneByOne) {
  Fusion fusion;
  defineAndSchedule(fusion);
  GpuLower lower(&fusion);
  lower.run();
  const std::string text = codegen::generateCudaKernel(lower.kernel());
  EXPECT_NE(text.find("CUDAGeneratedKernel"), std::string::npos);
}

TEST(SeedExample, RunsOnEveryDevice) {
  for (Device device : testDevices()) {
    Fusion fusion;
    defineAndSchedule(fusion);
    const Tensor t0 = randomTensor({37, 129}, device, 1);
    const Tensor t1 = randomTensor({37, 129}, device, 2);
    KernelExecutor executor;
    executor.compile(&fusion, {t0, t1});
    const KernelArgs outputs = executor.run({t0, t1});
    ASSERT_EQ(outputs.size(), 1u);
    expectValues(outputs.tensor(0),
                 zipped(t0, t1, [](double a, double b) { return a + (b + 2.0); }));
  }
}

TEST(SeedExample, OneKernelServesEveryShape) {
  Fusion fusion;
  defineAndSchedule(fusion);
  KernelExecutor executor;
  const Tensor small = randomTensor({2, 3}, Device::host());
  executor.compile(&fusion, {small, small});
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{1, 1}, {512, 1}, {7, 1031}, {0, 5}}) {
    const Tensor t0 = randomTensor(sizes, Device::host(), 3);
    const Tensor t1 = randomTensor(sizes, Device::host(), 4);
    const KernelArgs outputs = executor.run({t0, t1});
    EXPECT_EQ(sizesOf(outputs.tensor(0)), sizes);
    expectValues(outputs.tensor(0),
                 zipped(t0, t1, [](double a, double b) { return a + (b + 2.0); }));
  }
}

} // namespace
} // namespace nvfuser::test
