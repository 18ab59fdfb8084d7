// SPDX-License-Identifier: BSD-3-Clause
// Compiling and launching kernel texts: NVRTC without a GPU, the host compiler, the module table,
// and CUDA launches where there is a device.
#include <gtest/gtest.h>

#include <base/error.h>
#include <base/options.h>
#include <cuda/nvrtc.h>
#include <cuda/resident_clusters.h>
#include <device/library.h>
#include <host/compiler.h>
#include <runtime/compile.h>
#include <runtime/devices.h>
#include <tensor/tensor.h>

#include <unistd.h>

#include <chrono>
#include <thread>

namespace nvfuser {
namespace {

using Sizes = std::vector<int64_t>;

// c = a * scale + b over one dimension.
constexpr const char* kBody = R"(
NVF_KERNEL(scale_add, 128, (Tensor<float, 1, 1> T0, Tensor<float, 1, 1> T1, double d2, Tensor<float, 1, 1> T3)) {
  nvfuser_index_t i = blockIdx.x * 128 + threadIdx.x;
  if (i < T0.logical_size[0]) {
    T3[i] = T0[i] * (float)d2 + T1[i];
  }
}
)";

std::string kernelText(KernelTarget target, const std::string& remark = "") {
  return assembleKernel(kBody, target, false) + "// " + remark + "\n";
}

// As the kernel text lays it out, with 32-bit indices.
struct TensorArg {
  void* data;
  int32_t size;
  int32_t stride;
};

TensorArg argOf(const Tensor& tensor) {
  return {tensor.data(), int32_t(tensor.size(0)), int32_t(tensor.stride(0))};
}

void runScaleAdd(const CompiledModule& module, Device device) {
  const int64_t n = 1000;
  const Tensor a = Tensor::random(Sizes{n}, DataType::Float, device, 1);
  const Tensor b = Tensor::random(Sizes{n}, DataType::Float, device, 2);
  Tensor c = Tensor::full(Sizes{n}, -7, DataType::Float, device);
  TensorArg arg_a = argOf(a);
  TensorArg arg_b = argOf(b);
  TensorArg arg_c = argOf(c);
  double scale = 0.5;
  void* args[] = {&arg_a, &arg_b, &scale, &arg_c};
  LaunchConfig config;
  config.grid.x = (n + 127) / 128;
  config.block.x = 128;
  module.launch(config, args);
  const auto va = a.toVector<float>();
  const auto vb = b.toVector<float>();
  const auto vc = c.toVector<float>();
  for (size_t i = 0; i < size_t(n); ++i) {
    ASSERT_EQ(vc[i], va[i] * 0.5F + vb[i]) << i; // exact: the product is
  }
}

// Unique per test process, so that no earlier run has left it in the cache.
std::string unique(const std::string& name) {
  return name + std::to_string(getpid()) + "." +
         std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
}

bool cachingIsOff() {
  return isOptionDisabled(DisableOption::NvrtcCaching);
}

class NvrtcTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtcAvailable()) {
      GTEST_SKIP() << nvrtcError();
    }
  }
};

TEST_F(NvrtcTest, CompilesForEveryArchitectureWithoutADevice) {
  for (int arch : {80, 90, 100}) {
    if (!nvrtcSupportsArch(arch)) {
      continue;
    }
    const CompiledBinary binary = compileToCubin(kernelText(KernelTarget::Cuda), "scale_add", arch);
    EXPECT_EQ(binary.bytes.substr(1, 3), "ELF");
    const KernelResources resources = parsePtxasLog(binary.log, "scale_add");
    EXPECT_GT(resources.registers, 0) << binary.log;
    EXPECT_EQ(resources.spill_store_bytes, 0);
  }
  EXPECT_EQ(archName(80), "sm_80");
  EXPECT_EQ(archName(90), "sm_90a");
  EXPECT_EQ(archName(103), "sm_103a");
}

TEST_F(NvrtcTest, UnknownNewerArchitectureGetsPtx) {
  const CompiledBinary binary = compileToCubin(kernelText(KernelTarget::Cuda), "scale_add", 999);
  EXPECT_NE(binary.bytes.find(".entry scale_add"), std::string::npos);
  EXPECT_THROW(compileToCubin("", "k", 20), UserError);
}

TEST_F(NvrtcTest, PtxAndInstructionsCanBeSeen) {
  const std::string text = kernelText(KernelTarget::Cuda);
  const std::string ptx = compileToPtx(text, "scale_add", 90);
  EXPECT_NE(ptx.find(".entry scale_add"), std::string::npos);
  const std::string sass = disassemble(compileToCubin(text, "scale_add", 90).bytes);
  EXPECT_TRUE(sass.find("EXIT") != std::string::npos || sass.find("neither") == 0) << sass;
}

TEST_F(NvrtcTest, OptionsReachTheCompiler) {
  auto has = [](const std::string& flag, const CompileParams& params = {}) {
    for (const std::string& f : nvrtcFlags(90, params)) {
      if (f == flag) {
        return true;
      }
    }
    return false;
  };
  EXPECT_TRUE(has("--gpu-architecture=sm_90a"));
  EXPECT_TRUE(has("--fmad=true"));
  EXPECT_FALSE(has("--use_fast_math"));
  CompileParams params;
  params.maxrregcount = 64;
  EXPECT_TRUE(has("-DNVF_MOST_REGISTERS=64", params));
  const OptionsGuard guard({"fast_math", "kernel_lineinfo"}, {"fma", "compile_to_sass"});
  EXPECT_TRUE(has("--gpu-architecture=compute_90a"));
  EXPECT_TRUE(has("--fmad=false"));
  EXPECT_TRUE(has("--use_fast_math"));
  EXPECT_TRUE(has("--generate-line-info"));
}

TEST_F(NvrtcTest, RefusedTextIsReportedWithItsLines) {
  try {
    compileToCubin("int x;\nextern \"C\" __global__ void k() { y = 1; }\n", "k", 80);
    FAIL();
  } catch (const InternalError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("identifier \"y\" is undefined"), std::string::npos) << message;
    EXPECT_NE(message.find("2  extern \"C\" __global__ void k()"), std::string::npos) << message;
  }
}

TEST(Nvrtc, ReadsPtxasStatistics) {
  const std::string log =
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'a' for 'sm_90a'\n"
      "ptxas info    : Function properties for a\n"
      "ptxas         .     16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size, 4096 "
      "bytes smem\n"
      "ptxas info    : Compiling entry function 'ab' for 'sm_90a'\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 16 registers, used 0 barriers\n";
  const KernelResources a = parsePtxasLog(log, "a");
  EXPECT_EQ(a.registers, 255);
  EXPECT_EQ(a.stack_bytes, 16);
  EXPECT_EQ(a.spill_store_bytes, 24);
  EXPECT_EQ(a.spill_load_bytes, 32);
  EXPECT_EQ(a.static_shared_bytes, 4096);
  EXPECT_EQ(parsePtxasLog(log, "ab").registers, 16);
  EXPECT_EQ(parsePtxasLog(log, "none").registers, 0);
}

class HostCompileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!hostCompilerAvailable()) {
      GTEST_SKIP() << "no host compiler";
    }
  }
  static CompileRequest request(const std::string& remark) {
    return {kernelText(KernelTarget::Host, remark), "scale_add", Device::host(), {}};
  }
};

TEST_F(HostCompileTest, CompilesOnceAndLaunches) {
  const CompileRequest text = request(unique("once"));
  std::shared_ptr<CompiledModule> module = compile(text);
  EXPECT_FALSE(module->fromCache());
  runScaleAdd(*module, Device::host());
  // Alive: the same module. Gone: from disk.
  EXPECT_EQ(compile(text), module);
  module.reset();
  module = compile(text);
  EXPECT_EQ(module->fromCache(), !cachingIsOff());
  runScaleAdd(*module, Device::host());
}

TEST_F(HostCompileTest, WorksWithoutTheDiskCache) {
  const OptionsGuard guard({}, {"nvrtc_caching"});
  const CompileRequest text = request(unique("uncached"));
  runScaleAdd(*compile(text), Device::host());
  const auto module = compile(text);
  EXPECT_FALSE(module->fromCache());
  runScaleAdd(*module, Device::host());
}

TEST_F(HostCompileTest, OptionsArePartOfTheKey) {
  const CompileRequest text = request(unique("options"));
  const auto plain = compile(text);
  const OptionsGuard guard({}, {"fma"});
  const auto without_fma = compile(text);
  EXPECT_NE(plain, without_fma);
  EXPECT_FALSE(without_fma->fromCache());
}

TEST_F(HostCompileTest, ManyThreadsAskForOneKernel) {
  const CompileRequest text = request(unique("threads"));
  std::vector<std::shared_ptr<CompiledModule>> modules(6);
  std::vector<std::thread> threads;
  for (auto& module : modules) {
    threads.emplace_back([&] { module = compile(text); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const auto& module : modules) {
    EXPECT_EQ(module, modules.front());
  }
}

TEST_F(HostCompileTest, CompileAllKeepsTheOrder) {
  std::vector<CompileRequest> requests;
  for (int i = 0; i < 4; ++i) {
    const std::string name = "k" + std::to_string(i);
    const std::string body = "NVF_KERNEL(" + name +
                             ", 1, (Tensor<float, 1, 1> T0)) { T0[0] = " + std::to_string(i) +
                             "; }\n";
    requests.push_back({assembleKernel(body, KernelTarget::Host, false), name, Device::host(), {}});
  }
  const auto modules = compileAll(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(modules[i]->symbol(), requests[i].symbol);
    const Tensor t = Tensor::zeros(Sizes{1}, DataType::Float);
    TensorArg arg = argOf(t);
    void* args[] = {&arg};
    modules[i]->launch({}, args);
    EXPECT_EQ(t.item<float>(), float(i));
  }
  requests[2].text = "syntax error";
  EXPECT_THROW(compileAll(requests), InternalError);
}

TEST_F(HostCompileTest, ARefusedTextLeavesTheOthers) {
  CompileRequest bad = request("refused");
  bad.text = "syntax error";
  const std::vector<CompileOutcome> outcomes = compileEach({bad, request("accepted")});
  EXPECT_EQ(outcomes[0].module, nullptr);
  EXPECT_THROW(std::rethrow_exception(outcomes[0].error), InternalError);
  EXPECT_NE(outcomes[1].module, nullptr);
}

TEST_F(HostCompileTest, RefusedTextIsReportedWithItsLines) {
  try {
    compileToSharedObject("int x;\nvoid k() { y = 1; }\n", "k");
    FAIL();
  } catch (const InternalError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("was not declared"), std::string::npos) << message;
    EXPECT_NE(message.find("\n2  void k() { y = 1; }"), std::string::npos) << message;
  }
}

TEST_F(HostCompileTest, OccupancyFollowsTheDescription) {
  const auto module = compile(request("occupancy"));
  EXPECT_EQ(module->maxActiveBlocksPerSm(128, 0), 16);
  EXPECT_EQ(module->maxActiveBlocksPerSm(128, 100 << 10), 2);
  EXPECT_EQ(module->maxActiveBlocksPerSm(2048, 0), 0);
}

TEST(Device, HostIsASmallHopper) {
  const DeviceInfo& info = deviceInfo(Device::host());
  EXPECT_EQ(info.arch, 90);
  EXPECT_EQ(info.sm_count, 4);
  EXPECT_EQ(info.shared_per_block_optin, 232448U);
  EXPECT_EQ(Device::cuda(1).toString(), "cuda:1");
}

TEST(Device, HostAsAnH200) {
  OptionsGuard guard;
  guard.options().host_schedules = HostSchedules::ForH200;
  const DeviceInfo& info = deviceInfo(Device::host());
  EXPECT_EQ(info.sm_count, 132);
  EXPECT_EQ(info.l2_bytes, 62914560U);
  // A GPC has 16 or 18 SMs: some are left over.
  EXPECT_EQ(residentClusters(info), (std::array<int64_t, 5>{132, 66, 30, 15, 7}));
}

TEST(Device, MissingCudaIsAUserError) {
  if (cudaAvailable()) {
    GTEST_SKIP() << "there is a CUDA device";
  }
  EXPECT_EQ(cudaDeviceCount(), 0);
  EXPECT_THROW(deviceInfo(Device::cuda(0)), UserError);
  EXPECT_THROW(Tensor::empty({1}, DataType::Float, Device::cuda(0)), UserError);
}

class CudaLaunchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cudaAvailable() || !nvrtcAvailable()) {
      GTEST_SKIP() << "no CUDA device or no NVRTC";
    }
  }
  static CompileRequest request(const std::string& remark) {
    return {kernelText(KernelTarget::Cuda, remark), "scale_add", Device::cuda(0), {}};
  }
};

TEST_F(CudaLaunchTest, CompilesCachesAndLaunches) {
  const CompileRequest text = request(unique("cuda"));
  auto module = compile(text);
  EXPECT_FALSE(module->fromCache());
  EXPECT_GT(module->resources().registers, 0);
  runScaleAdd(*module, Device::cuda(0));
  module.reset();
  module = compile(text);
  EXPECT_EQ(module->fromCache(), !cachingIsOff());
  EXPECT_GT(module->resources().registers, 0);
  runScaleAdd(*module, Device::cuda(0));
  EXPECT_GT(module->maxActiveBlocksPerSm(128, 0), 0);
}

TEST_F(CudaLaunchTest, PtxWorksToo) {
  const OptionsGuard guard({}, {"compile_to_sass"});
  runScaleAdd(*compile(request(unique("ptx"))), Device::cuda(0));
}

TEST_F(CudaLaunchTest, LargeSharedMemoryIsOptedIn) {
  const char* body = R"(
NVF_KERNEL(fill_shared, 128, (Tensor<float, 1, 1> T0)) {
  NVF_DYNAMIC_SHARED(smem);
  float* s = (float*)smem;
  for (int i = threadIdx.x; i < 50000; i += 128) {
    s[i] = i;
  }
  nvf::syncBlock();
  T0[threadIdx.x] = s[49999 - threadIdx.x];
}
)";
  const auto module = compile(
      {assembleKernel(body, KernelTarget::Cuda, false), "fill_shared", Device::cuda(0), {}});
  const Tensor t = Tensor::zeros(Sizes{128}, DataType::Float, Device::cuda(0));
  TensorArg arg = argOf(t);
  void* args[] = {&arg};
  LaunchConfig config;
  config.block.x = 128;
  config.dynamic_shared_bytes = 200000;
  module->launch(config, args);
  EXPECT_EQ(t.toVector<float>()[5], 49994.F);
  config.dynamic_shared_bytes = 300000;
  EXPECT_THROW(module->launch(config, args), UserError);
}

TEST_F(CudaLaunchTest, ImpossibleLaunchNamesTheKernel) {
  const auto module = compile(request("impossible"));
  LaunchConfig config;
  config.block.x = 4096;
  double scale = 0;
  TensorArg arg = {};
  void* args[] = {&arg, &arg, &scale, &arg};
  try {
    module->launch(config, args);
    FAIL();
  } catch (const UserError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("scale_add"), std::string::npos);
    EXPECT_NE(message.find("(4096, 1, 1)"), std::string::npos) << message;
  }
}

TEST_F(CudaLaunchTest, LaunchIsCheap) {
  const auto module = compile(request("cheap"));
  const Tensor t = Tensor::zeros(Sizes{128}, DataType::Float, Device::cuda(0));
  TensorArg arg = argOf(t);
  double scale = 1;
  void* args[] = {&arg, &arg, &scale, &arg};
  LaunchConfig config;
  config.block.x = 128;
  double best = 1e9;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i) {
      module->launch(config, args);
    }
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count() / 100);
    t.toVector<float>(); // waits
  }
  RecordProperty("microseconds", std::to_string(best));
  std::cout << "launch: " << best << " us\n";
  EXPECT_LT(best, 10); // 3 on a quiet machine
}

} // namespace
} // namespace nvfuser
