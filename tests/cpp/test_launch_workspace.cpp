// SPDX-License-Identifier: BSD-3-Clause
// The memory that a kernel gets besides its arguments: counters are zero at every launch, whatever
// happened before, and launches do not disturb each other. On the GPU too where there is one.
#include <cuda/device_info.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include <base/error.h>
#include <device/library.h>
#include <runtime/kernel_executor.h>
#include <runtime/launch_workspace.h>
#include <tensor/tensor.h>

namespace nvfuser {
namespace {

// Sums `in` over all blocks: out[thread] = sum over blocks of in[block * 64 + thread].
const char* kSumBlocks = R"(
NVF_KERNEL(sumBlocks, 64, (const float* in, float* out, char* work, unsigned* semaphores)) {
  float T1[1];
  T1[0] = in[blockIdx.x * 64 + threadIdx.x];
  if (nvf::gridReduce<true, false, false, false, false, false, 64, 1, 1>(
          work, semaphores + 1, nullptr, nvf::ReduceTerm<nvf::SumOp, float, 1>{&T1[0]})) {
    out[threadIdx.x] = T1[0] + semaphores[0];
  }
}
)";

// Leaves a counter dirty and fails.
const char* kFailing = R"(
NVF_KERNEL(failing, 64, (const float* in, float* out, char* work, unsigned* semaphores)) {
  semaphores[1] = 7;
  if (threadIdx.x < 3) {
    return;
  }
  nvf::syncBlock();
}
)";

constexpr unsigned kBlocks = 20;

PreparedLaunch prepare(const char* text, const std::string& symbol, Device device,
                       uint64_t workspace_bytes) {
  CompileRequest request;
  const auto target = device.isCuda() ? KernelTarget::Cuda : KernelTarget::Host;
  request.text = assembleKernel(text, target, false);
  request.symbol = symbol;
  request.device = device;
  using Patch = PreparedLaunch::Patch;
  PreparedLaunch launch;
  launch.module = compile(request);
  launch.bytes.resize(32);
  launch.offsets = {0, 8, 16, 24};
  launch.patches = {{Patch::Kind::Pointer, DataType::Null, 0, 0},
                    {Patch::Kind::Pointer, DataType::Null, 8, 1}};
  launch.workspace_uses = {{16, false, 0}, {24, true, 0}};
  launch.workspace_bytes = workspace_bytes;
  launch.semaphore_count = 2;
  launch.config.grid = {kBlocks, 1, 1};
  launch.config.block = {64, 1, 1};
  return launch;
}

void runSumBlocks(const PreparedLaunch& prepared, Device device, float scale) {
  std::vector<float> numbers(kBlocks * 64);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(i % 64) * scale;
  }
  const std::vector<int64_t> sizes = {kBlocks * 64};
  const Tensor in = Tensor::fromVector(numbers, sizes, device);
  const Tensor out = Tensor::empty({64}, DataType::Float, device);
  std::vector<ArgView> values(2);
  values[0].data = in.data();
  values[1].data = out.data();
  launch(prepared, values, {}, nullptr);
  const std::vector<float> sums = out.to(Device::host()).toVector<float>();
  for (size_t i = 0; i < 64; ++i) {
    ASSERT_EQ(sums[i], static_cast<float>(i) * scale * kBlocks) << i;
  }
}

TEST(LaunchWorkspace, GridReductionsOfSeveralThreads) {
  std::vector<Device> devices = {Device::host()};
  if (cudaAvailable()) {
    devices.push_back(Device::cuda(0));
  }
  for (const Device device : devices) {
    const PreparedLaunch small = prepare(kSumBlocks, "sumBlocks", device, kBlocks * 64 * 4);
    PreparedLaunch large = small;
    large.workspace_bytes = 1 << 20;
    large.semaphore_count = 5000;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 10; ++i) {
          runSumBlocks(i == 5 ? large : small, device, static_cast<float>(t + 1));
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
}

TEST(LaunchWorkspace, AFailedLaunchLeavesNoDirtyCounters) {
  const Device host = Device::host();
  const PreparedLaunch failing = prepare(kFailing, "failing", host, 64);
  const PreparedLaunch good = prepare(kSumBlocks, "sumBlocks", host, kBlocks * 64 * 4);
  runSumBlocks(good, host, 1);
  for (int i = 0; i < 3; ++i) {
    const std::vector<ArgView> values(2);
    EXPECT_THROW(launch(failing, values, {}, nullptr), UserError);
    runSumBlocks(good, host, 2);
  }
}

TEST(LaunchWorkspace, GrowsAndStaysAligned) {
  for (const size_t bytes : {1, 100000, 10, 3000000}) {
    LaunchWorkspace workspace(Device::host(), nullptr, bytes, bytes / 100);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(workspace.memory()) % 256, 0u);
    std::memset(workspace.memory(), 1, bytes);
    for (size_t i = 0; i < bytes / 100; ++i) {
      ASSERT_EQ(workspace.semaphores()[i], 0u);
      workspace.semaphores()[i] = 9; // never said to be launched: dirty
    }
  }
}

} // namespace
} // namespace nvfuser
