// SPDX-License-Identifier: BSD-3-Clause
// Scans over the threads of a block in the device library: every number of threads and elements,
// several lines per block, tiles with a carry; what the adversarial mode says to a workspace in
// use; and that they compile for the GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <cuda/nvrtc.h>
#include <device/library.h>

#include "host_kernel_for_test.h"

namespace nvfuser {
namespace {

using nvfuser::testing::compileForHost;

struct ScanCase {
  int threads;
  int lines;
  int elements;
};

const std::vector<ScanCase> kCases = {{1, 3, 4},  {2, 16, 1}, {8, 4, 8},   {32, 1, 4},
                                      {32, 4, 2}, {64, 2, 3}, {128, 1, 8}, {96, 2, 1}};

constexpr int kTiles = 3;

// Lines of kTiles tiles, one after the other in memory.
std::string scanKernel(const ScanCase& c, const std::string& op, const std::string& type,
                       bool with_barrier) {
  const std::string n = std::to_string(c.elements);
  const std::string threads = std::to_string(c.threads);
  return "NVF_KERNEL(scan, 256, (const " + type + "* in, " + type +
         "* out)) {\n"
         "  NVF_DYNAMIC_SHARED(smem);\n"
         "  " +
         type + " carry = nvf::cast<" + type +
         ">(2.0f);\n"
         "  for (int tile = 0; tile < " +
         std::to_string(kTiles) +
         "; ++tile) {\n"
         "    const int first = ((static_cast<int>(threadIdx.y) * " +
         std::to_string(kTiles) + " + tile) * " + threads + " + static_cast<int>(threadIdx.x)) * " +
         n +
         ";\n"
         "    Array<" +
         type + ", " + n +
         "> T1;\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < " +
         n +
         "; ++i) {\n"
         "      T1[i] = in[first + i];\n"
         "    }\n"
         "    nvf::blockScan<" +
         op + ", " + threads + ", " + n +
         ">(smem, &T1[0], carry);\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < " +
         n +
         "; ++i) {\n"
         "      out[first + i] = T1[i];\n"
         "    }\n" +
         (with_barrier ? "    nvf::syncBlock();\n" : "") +
         "  }\n"
         "}\n";
}

std::string run(const NvfHostKernel& kernel, const ScanCase& c, std::vector<float>& in,
                std::vector<float>& out, uint64_t seed) {
  float* from = in.data();
  float* to = out.data();
  void* args[] = {&from, &to};
  const HostLaunch launch = {
      {1, 1, 1}, {static_cast<unsigned>(c.threads), static_cast<unsigned>(c.lines), 1}, 256, seed};
  return runHostKernel(kernel, launch, args);
}

TEST(DeviceScan, SumsOfAllElementsBefore) {
  for (const ScanCase& c : kCases) {
    SCOPED_TRACE(std::to_string(c.threads) + " x " + std::to_string(c.elements));
    const int line = kTiles * c.threads * c.elements;
    std::vector<float> in(static_cast<size_t>(line * c.lines));
    for (size_t i = 0; i < in.size(); ++i) {
      in[i] = static_cast<float>(i * 7 % 13);
    }
    const NvfHostKernel* kernel = compileForHost(scanKernel(c, "nvf::SumOp", "float", true), "scan",
                                                 {KernelTarget::Host, false, true});
    for (uint64_t seed : {0, 1, 2}) {
      std::vector<float> out(in.size());
      ASSERT_EQ(run(*kernel, c, in, out, seed), "");
      float expected = 0;
      for (size_t i = 0; i < in.size(); ++i) {
        expected = (i % static_cast<size_t>(line) == 0 ? 2 : expected) + in[i];
        ASSERT_EQ(out[i], expected) << i;
      }
    }
  }
}

TEST(DeviceScan, NanGoesOn) {
  const ScanCase c{64, 1, 2};
  std::vector<float> in(static_cast<size_t>(kTiles * c.threads * c.elements), 1.0f);
  std::vector<float> out(in.size());
  in[201] = std::nanf("");
  const NvfHostKernel* kernel = compileForHost(scanKernel(c, "nvf::MinOp", "float", true), "scan");
  ASSERT_EQ(run(*kernel, c, in, out, 0), "");
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_EQ(std::isnan(out[i]), i >= 201) << i;
  }
}

TEST(DeviceScan, AWorkspaceThatIsStillInUseIsFound) {
  const ScanCase c{64, 2, 2};
  std::vector<float> in(static_cast<size_t>(kTiles * c.threads * c.elements * c.lines), 1.0f);
  std::vector<float> out(in.size());
  const NvfHostKernel* kernel = compileForHost(scanKernel(c, "nvf::SumOp", "float", false), "scan",
                                               {KernelTarget::Host, false, true});
  EXPECT_NE(run(*kernel, c, in, out, 3).find("race"), std::string::npos);
}

TEST(DeviceScan, CompilesForTheGpu) {
  if (!nvrtcAvailable()) {
    GTEST_SKIP() << nvrtcError();
  }
  for (int arch : {80, 90, 100}) {
    for (const ScanCase& c : kCases) {
      const std::string text =
          assembleKernel(scanKernel(c, "nvf::SumOp", "float", true), KernelTarget::Cuda, false);
      const CompiledBinary binary = compileToCubin(text, "scan", arch);
      EXPECT_EQ(parsePtxasLog(binary.log, "scan").stack_bytes, 0)
          << c.threads << " x " << c.elements;
    }
    for (const char* type :
         {"double", "int64_t", "nvf::complex<float>", "nvf::complex<double>", "__half", "bool"}) {
      const std::string text = assembleKernel(scanKernel(kCases.back(), "nvf::SumOp", type, true),
                                              KernelTarget::Cuda, false);
      compileToCubin(text, "scan", arch);
    }
  }
}

} // namespace
} // namespace nvfuser
