// SPDX-License-Identifier: BSD-3-Clause
// Loading and launching kernels through the driver.
#include <cuda/module.h>

#include <base/error.h>
#include <base/options.h>
#include <cuda/device_info.h>
#include <cuda/nvrtc.h>
#include <cuda/repeated_launch.h>

#include <algorithm>
#include <cstring>

namespace nvfuser {

namespace {

// What a kernel may use without asking (CUDA C++ programming guide, "Shared Memory").
constexpr uint32_t kSharedWithoutOptIn = 48 << 10;
constexpr uint64_t kPortableClusterSize = 8;

// CUjit_option
constexpr int kJitErrorLogBuffer = 5;
constexpr int kJitErrorLogBytes = 6;

std::string dimString(const Dim3& dim) {
  return detail::streamToString("(", dim.x, ", ", dim.y, ", ", dim.z, ")");
}

} // namespace

CudaModule::CudaModule(const CompiledBinary& binary, const std::string& symbol, int device) {
  symbol_ = symbol;
  device_ = Device::cuda(device);
  const cuda::Driver& f = cuda::driver();
  const cuda::ContextGuard guard(device);
  const cuda::RelaxedCapture relaxed;
  std::string log(4096, '\0');
  int options[] = {kJitErrorLogBuffer, kJitErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  // PTX has to end with a zero, which std::string sees to.
  const cuda::Result result =
      f.cuModuleLoadDataEx(&module_, binary.bytes.c_str(), 2, options, values);
  if (result != 0) {
    log.resize(std::strlen(log.c_str()));
    const std::string what =
        "Cannot load kernel " + symbol + " on " + device_.toString() + " " + log;
    cuda::throwDriverError(result, what.c_str());
  }
  try {
    cuda::check(f.cuModuleGetFunction(&function_, module_, symbol.c_str()),
                ("Cannot find kernel " + symbol + " in its module").c_str());
    resources_ = parsePtxasLog(binary.log, symbol);
    cuda::check(f.cuFuncGetAttribute(&resources_.registers, cuda::kFunctionRegisters, function_),
                "Cannot read the attributes of a kernel");
    f.cuFuncGetAttribute(&resources_.static_shared_bytes, cuda::kFunctionSharedBytes, function_);
  } catch (...) {
    f.cuModuleUnload(module_);
    throw;
  }
  const auto static_shared = static_cast<uint32_t>(resources_.static_shared_bytes);
  allowed_dynamic_shared_ = kSharedWithoutOptIn - std::min(kSharedWithoutOptIn, static_shared);
}

CudaModule::~CudaModule() {
  // Nothing to do about an error, and at the end of the process the driver may be gone already.
  try {
    const cuda::ContextGuard guard(device_.index);
    const cuda::RelaxedCapture relaxed;
    cuda::driver().cuModuleUnload(module_);
  } catch (const std::exception&) { // NOLINT(bugprone-empty-catch)
  }
}

void CudaModule::allowDynamicShared(uint32_t bytes) const {
  if (bytes <= allowed_dynamic_shared_.load(std::memory_order_relaxed)) {
    return;
  }
  const size_t limit = cudaDeviceInfo(device_.index).shared_per_block_optin;
  const auto static_bytes = static_cast<size_t>(resources_.static_shared_bytes);
  NVF_CHECK(bytes + static_bytes <= limit, "Kernel ", symbol_, " needs ", bytes + static_bytes,
            " bytes of shared memory per block; ", device_, " offers ", limit);
  cuda::check(cuda::driver().cuFuncSetAttribute(function_, cuda::kFunctionMaxDynamicShared,
                                                static_cast<int>(bytes)),
              "Cannot get more shared memory for a kernel");
  allowed_dynamic_shared_.store(bytes, std::memory_order_relaxed);
}

void CudaModule::divideSharedMemory(int percent) const {
  if (percent == shared_percent_.load(std::memory_order_relaxed)) {
    return;
  }
  // A hint: the kernel runs without it as well.
  cuda::driver().cuFuncSetAttribute(function_, cuda::kFunctionSharedPercent, percent);
  shared_percent_.store(percent, std::memory_order_relaxed);
}

void CudaModule::launch(const LaunchConfig& config, void** args) const {
  const cuda::Driver& f = cuda::driver();
  const cuda::ContextGuard guard(device_.index);
  allowDynamicShared(config.dynamic_shared_bytes);
  divideSharedMemory(config.shared_percent);
  cuda::LaunchAttribute attributes[3];
  uint32_t count = 0;
  if (const uint64_t cluster = config.cluster.count(); cluster > 1) {
    if (cluster > kPortableClusterSize && !allowed_large_cluster_.load(std::memory_order_relaxed)) {
      cuda::check(f.cuFuncSetAttribute(function_, cuda::kFunctionNonPortableCluster, 1),
                  "Cannot use clusters of more than 8 blocks");
      allowed_large_cluster_.store(true, std::memory_order_relaxed);
    }
    cuda::LaunchAttribute& attribute = attributes[count++];
    attribute = {};
    attribute.id = cuda::LaunchAttribute::kClusterDimension;
    attribute.value.cluster = {config.cluster.x, config.cluster.y, config.cluster.z};
  }
  // Older drivers cannot capture such launches.
  if (config.programmatic_dependent_launch && !cuda::isCaptured(config.stream)) {
    cuda::LaunchAttribute& attribute = attributes[count++];
    attribute = {};
    attribute.id = cuda::LaunchAttribute::kProgrammaticStreamSerialization;
    attribute.value.flag = 1;
  }
  if (config.cooperative) {
    cuda::LaunchAttribute& attribute = attributes[count++];
    attribute = {};
    attribute.id = cuda::LaunchAttribute::kCooperative;
    attribute.value.flag = 1;
  }
  if (count == 0) [[likely]] {
    const cuda::Result result =
        f.cuLaunchKernel(function_, config.grid.x, config.grid.y, config.grid.z, config.block.x,
                         config.block.y, config.block.z, config.dynamic_shared_bytes,
                         static_cast<cuda::Stream>(config.stream), args, nullptr);
    if (result != 0) [[unlikely]] {
      throwLaunchError(result, config);
    }
    return;
  }
  const cuda::LaunchConfigNative native = {{config.grid.x, config.grid.y, config.grid.z},
                                           {config.block.x, config.block.y, config.block.z},
                                           config.dynamic_shared_bytes,
                                           static_cast<cuda::Stream>(config.stream),
                                           attributes,
                                           count};
  const cuda::Result result = f.cuLaunchKernelEx(&native, function_, args, nullptr);
  if (result != 0) [[unlikely]] {
    throwLaunchError(result, config);
  }
}

std::shared_ptr<RepeatedLaunch> CudaModule::repeat(const LaunchConfig& config) const {
  return isOptionDisabled(DisableOption::LaunchGraph)
             ? nullptr
             : std::make_shared<CudaRepeatedLaunch>(function_, device_.index, config);
}

void CudaModule::throwLaunchError(cuda::Result result, const LaunchConfig& config) const {
  const std::string what = detail::streamToString(
      "Cannot launch kernel ", symbol_, " on ", device_, " with grid ", dimString(config.grid),
      ", block ", dimString(config.block), ", cluster ", dimString(config.cluster), ", ",
      config.dynamic_shared_bytes, " bytes of dynamic shared memory (it uses ",
      resources_.registers, " registers per thread and ", resources_.static_shared_bytes,
      " bytes of static shared memory)");
  cuda::throwDriverError(result, what.c_str());
}

int CudaModule::maxActiveBlocksPerSm(int threads, size_t dynamic_shared_bytes) const {
  const cuda::ContextGuard guard(device_.index);
  allowDynamicShared(static_cast<uint32_t>(dynamic_shared_bytes));
  int blocks = 0;
  cuda::check(cuda::driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(
                  &blocks, function_, threads, dynamic_shared_bytes),
              "Cannot compute the occupancy of a kernel");
  return blocks;
}

} // namespace nvfuser
