// SPDX-License-Identifier: BSD-3-Clause
// The host runtime: plain loops, barriers on fibers, and what the adversarial mode finds.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <numeric>
#include <thread>
#include <vector>

#include "host_kernel_for_test.h"

namespace nvfuser {
namespace {

using nvfuser::testing::compileForHost;

struct Tensor1D {
  float* data;
  int size[1];
  int stride[1];
};

Tensor1D view(std::vector<float>& values) {
  return {values.data(), {static_cast<int>(values.size())}, {1}};
}

const AssembleOptions kAdversarial{KernelTarget::Host, false, true};

HostLaunch launch(unsigned blocks, unsigned threads, size_t shared = 0, uint64_t seed = 0) {
  return {{blocks, 1, 1}, {threads, 1, 1}, shared, seed};
}

const char* kScale = R"(
NVF_KERNEL(scale, 128, (Tensor<float, 1, 1> T0, double d1, Tensor<float, 1, 1> T2)) {
  const nvfuser_index_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < T0.logical_size[0]) {
    T2[i] = nvf::relu(T0[i]) * nvf::cast<float>(d1) + 1.0f;
  }
}
)";

void runScale(const NvfHostKernel& kernel, size_t size, uint64_t seed = 0) {
  std::vector<float> in(size), out(size, -1.0f);
  std::iota(in.begin(), in.end(), -5.0f);
  Tensor1D t0 = view(in), t2 = view(out);
  double factor = 2.0;
  void* args[] = {&t0, &factor, &t2};
  ASSERT_EQ(runHostKernel(kernel, launch((size + 127) / 128, 128, 0, seed), args), "");
  for (size_t i = 0; i < size; ++i) {
    ASSERT_EQ(out[i], std::max(in[i], 0.0f) * 2.0f + 1.0f) << i;
  }
}

TEST(HostSimt, PlainLoop) {
  const NvfHostKernel* kernel = compileForHost(kScale, "scale");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->flags, 0u);
  EXPECT_EQ(kernel->parameter_count, 3u);
  for (size_t size : {1, 127, 129, 1 << 20}) {
    runScale(*kernel, size);
  }
  runScale(*kernel, 1000, 7); // random order of threads and blocks
}

TEST(HostSimt, ConcurrentLaunchesAndFork) {
  const NvfHostKernel* kernel = compileForHost(kScale, "scale");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 5; ++j) {
        runScale(*kernel, 200000);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const pid_t child = fork();
  if (child == 0) {
    runScale(*kernel, 1 << 20);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(HostSimt, RejectsLaunchesThatTheKernelCannotTake) {
  const NvfHostKernel* kernel = compileForHost(kScale, "scale");
  EXPECT_NE(runHostKernel(*kernel, launch(1, 256), nullptr).find("compiled for"),
            std::string::npos);
  EXPECT_NE(runHostKernel(*kernel, launch(0, 128), nullptr).find("empty launch"),
            std::string::npos);
}

// Reverses each block's 64 elements through shared memory.
std::string reverseText(bool with_barrier) {
  return std::string(R"(
NVF_KERNEL(reverse, 64, (Tensor<float, 1, 1> T0)) {
  NVF_DYNAMIC_SHARED(smem);
  float* T1 = reinterpret_cast<float*>(smem);
  const int base = blockIdx.x * 64;
  nvf::sharedWrite(T1[threadIdx.x]) = T0[base + threadIdx.x];
)") + (with_barrier ? "  nvf::syncBlock();\n" : "") +
         R"(  T0[base + threadIdx.x] = nvf::sharedRead(T1[63 - threadIdx.x]);
}
)";
}

std::string runReverse(const NvfHostKernel& kernel, std::vector<float>& values, uint64_t seed) {
  Tensor1D t0 = view(values);
  void* args[] = {&t0};
  return runHostKernel(kernel, launch(values.size() / 64, 64, 256, seed), args);
}

TEST(HostSimt, Barrier) {
  for (bool adversarial : {false, true}) {
    const NvfHostKernel* kernel =
        compileForHost(reverseText(true), "reverse", {KernelTarget::Host, false, adversarial});
    EXPECT_TRUE(kernel->flags & kNvfHostUsesBarriers);
    std::vector<float> values(64 * 50), expected(values.size());
    std::iota(values.begin(), values.end(), 0.0f);
    for (size_t i = 0; i < values.size(); ++i) {
      expected[i] = values[i / 64 * 64 + 63 - i % 64];
    }
    EXPECT_EQ(runReverse(*kernel, values, adversarial ? 3 : 0), "");
    EXPECT_EQ(values, expected);
  }
}

TEST(HostSimt, FindsRaceOnSharedMemory) {
  const NvfHostKernel* kernel = compileForHost(reverseText(false), "reverse", kAdversarial);
  std::vector<float> values(64);
  const std::string error = runReverse(*kernel, values, 1);
  EXPECT_NE(error.find("race on byte"), std::string::npos) << error;
}

std::string runSimple(const std::string& body, const AssembleOptions& options = {}) {
  const NvfHostKernel* kernel =
      compileForHost("NVF_KERNEL(simple, 32, (float* out)) {\n" + body + "}\n", "simple", options);
  std::vector<float> out(32);
  float* pointer = out.data();
  void* args[] = {&pointer};
  return runHostKernel(*kernel, launch(2, 32, 128, options.adversarial ? 5 : 0), args);
}

TEST(HostSimt, ReportsBarrierDivergence) {
  const std::string left = runSimple("if (threadIdx.x < 3) return;\nnvf::syncBlock();\n");
  EXPECT_NE(left.find("has finished"), std::string::npos) << left;
  const std::string parted =
      runSimple("if (threadIdx.x < 3) {\n nvf::syncBlock();\n} else {\n nvf::syncBlock();\n}\n");
  EXPECT_NE(parted.find("waits on line"), std::string::npos) << parted;
}

TEST(HostSimt, AdversarialChecks) {
  EXPECT_EQ(runSimple("out[threadIdx.x] = 1.0f;\n", kAdversarial), "");
  const std::string outside =
      runSimple("NVF_DYNAMIC_SHARED(smem);\nnvf::sharedWrite(smem[128]) = 1;\n", kAdversarial);
  EXPECT_NE(outside.find("outside of shared memory"), std::string::npos) << outside;
  const std::string misaligned =
      runSimple("Array<float, 4, 4> a;\na.set(0);\nnvf::storeGlobal<float, 4>(out + 1, &a[0]);\n",
                kAdversarial);
  EXPECT_NE(misaligned.find("misaligned"), std::string::npos) << misaligned;
  const std::string poison = runSimple(
      "NVF_DYNAMIC_SHARED(smem);\n"
      "float x = nvf::sharedRead(reinterpret_cast<float*>(smem)[threadIdx.x]);\n"
      "if (x == x) { nvf::sharedWrite(smem[1000]) = 1; }\n",
      kAdversarial);
  EXPECT_EQ(poison, "");
}

} // namespace
} // namespace nvfuser
