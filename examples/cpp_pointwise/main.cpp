// SPDX-License-Identifier: BSD-3-Clause
// A pointwise fusion scheduled by hand through the C++ API: t3 = t0 + (t1 + 2.0) in one kernel.
//
// Usage: cpp_pointwise [cpu|cuda]. Prints the definition and the kernel, runs it, checks the
// result.

#include <fusion.h>
#include <ir/builder.h>
#include <ops/all_ops.h>
#include <scheduler/utils.h>

#include <codegen/codegen.h>
#include <lower/lower.h>
#include <runtime/kernel_executor.h>

#include <cstring>
#include <exception>
#include <iostream>

namespace {

// Defines and schedules the fusion.
void definePointwise(nvfuser::Fusion& fusion) {
  nvfuser::FusionGuard fg(&fusion);

  int nDims = 2;
  nvfuser::TensorView* tv0 = nvfuser::makeContigTensor(nDims); // float32, symbolic extents
  nvfuser::TensorView* tv1 = nvfuser::makeContigTensor(nDims);
  fusion.addInput(tv0);
  fusion.addInput(tv1);

  nvfuser::TensorView* tv2 = nvfuser::add(tv1, nvfuser::IrBuilder::create<nvfuser::Val>(2.0));
  nvfuser::TensorView* tv3 = nvfuser::add(tv0, tv2);
  fusion.addOutput(tv3);

  tv3->merge(0);      // [I0, I1]  -> [I0*I1]
  tv3->split(0, 128); //           -> [ceilDiv(I0*I1, 128), 128]
  tv3->split(0, 4);   //           -> [ceilDiv(ceilDiv(I0*I1, 128), 4), 4, 128]

  nvfuser::TensorView* tv_inputs[] = {tv0, tv1};
  for (auto tv_input : tv_inputs) {
    tv_input->computeAt(tv3, -1, nvfuser::ComputeAtMode::MostInlined);
  }
  nvfuser::inlineMost();

  tv3->axis(0)->parallelize(nvfuser::ParallelType::BIDx);
  tv3->axis(1)->parallelize(nvfuser::ParallelType::Unroll);
  tv3->axis(2)->parallelize(nvfuser::ParallelType::TIDx);
  nvfuser::scheduler_utils::parallelizeAllLike(tv3);
}

// Lowers and prints stage by stage, as the executor does inside.
void printStages(nvfuser::Fusion& fusion) {
  fusion.print();
  nvfuser::GpuLower lower(&fusion);
  lower.run();
  std::cout << nvfuser::codegen::generateCudaKernel(lower.kernel()) << "\n";
}

bool runAndCheck(nvfuser::Fusion& fusion, nvfuser::Device device) {
  // Odd sizes: the last block is not full.
  const int64_t sizes[] = {37, 53};
  auto t0 = nvfuser::Tensor::random(sizes, nvfuser::DataType::Float, device, /*seed=*/1);
  auto t1 = nvfuser::Tensor::random(sizes, nvfuser::DataType::Float, device, /*seed=*/2);

  nvfuser::KernelExecutor executor;
  executor.compile(&fusion, {t0, t1});
  nvfuser::KernelArgs outputs = executor.run({t0, t1});

  const auto a = t0.toVector<float>();
  const auto b = t1.toVector<float>();
  const auto result = outputs.tensor(0).toVector<float>();
  int64_t wrong = 0;
  for (size_t i = 0; i < result.size(); ++i) {
    wrong += result[i] != a[i] + (b[i] + 2.0F) ? 1 : 0;
  }
  std::cout << "on " << device.toString() << ": " << result.size() << " elements, " << wrong
            << " wrong\n";
  return wrong == 0 && result.size() == a.size();
}

} // namespace

int main(int argc, char** argv) {
  const bool cuda = argc > 1 ? std::strcmp(argv[1], "cuda") == 0 : nvfuser::cudaAvailable();
  try {
    nvfuser::Fusion fusion;
    definePointwise(fusion);
    printStages(fusion);
    const auto device = cuda ? nvfuser::Device::cuda() : nvfuser::Device::host();
    return runAndCheck(fusion, device) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
