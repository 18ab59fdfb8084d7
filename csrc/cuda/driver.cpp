// SPDX-License-Identifier: BSD-3-Clause
// Opening libcuda and keeping the primary contexts.
#include <cuda/driver.h>

#include <base/error.h>

#include <dlfcn.h>

#include <array>
#include <atomic>

namespace nvfuser::cuda {

namespace {

struct LoadedDriver {
  Driver functions = {};
  std::string error; // empty: usable
  int version = 0;
};

constexpr int kMinimumVersion = 12000;
constexpr int kMaxDevices = 256;

// Once all functions that are needed are there.
void initialize(LoadedDriver& loaded) {
  const Driver& f = loaded.functions;
  const Result result = f.cuInit(0);
  if (result != 0) {
    const char* name = nullptr;
    f.cuGetErrorName(result, &name);
    loaded.error = detail::streamToString("the CUDA driver cannot be initialized (",
                                          name != nullptr ? name : "unknown error", ")");
    return;
  }
  f.cuDriverGetVersion(&loaded.version);
  if (loaded.version < kMinimumVersion) {
    loaded.error = detail::streamToString("the CUDA driver is too old: it supports CUDA ",
                                          loaded.version / 1000, ".", loaded.version % 1000 / 10,
                                          ", 12.0 or newer is needed");
  }
}

// Returns the names of those that are needed and lacking.
std::string findFunctions(void* library, Driver& f) {
  std::string missing;
  auto get = [&](auto& function, const char* name, bool required = true) {
    void* symbol = dlsym(library, name);
    if (symbol == nullptr && required) {
      missing += missing.empty() ? "" : ", ";
      missing += name;
    }
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  get(f.cuInit, "cuInit");
  get(f.cuDriverGetVersion, "cuDriverGetVersion");
  get(f.cuGetErrorName, "cuGetErrorName");
  get(f.cuGetErrorString, "cuGetErrorString");
  get(f.cuDeviceGetCount, "cuDeviceGetCount");
  get(f.cuDeviceGet, "cuDeviceGet");
  get(f.cuDeviceGetName, "cuDeviceGetName");
  get(f.cuDeviceGetAttribute, "cuDeviceGetAttribute");
  get(f.cuDeviceTotalMem, "cuDeviceTotalMem_v2");
  get(f.cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool");
  get(f.cuMemPoolSetAttribute, "cuMemPoolSetAttribute");
  get(f.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  get(f.cuCtxGetCurrent, "cuCtxGetCurrent");
  get(f.cuCtxSetCurrent, "cuCtxSetCurrent");
  get(f.cuCtxSynchronize, "cuCtxSynchronize");
  get(f.cuModuleLoadData, "cuModuleLoadData");
  get(f.cuModuleLoadDataEx, "cuModuleLoadDataEx");
  get(f.cuModuleUnload, "cuModuleUnload");
  get(f.cuModuleGetFunction, "cuModuleGetFunction");
  get(f.cuModuleGetGlobal, "cuModuleGetGlobal_v2");
  get(f.cuFuncGetAttribute, "cuFuncGetAttribute");
  get(f.cuFuncSetAttribute, "cuFuncSetAttribute");
  get(f.cuLaunchKernel, "cuLaunchKernel");
  get(f.cuLaunchKernelEx, "cuLaunchKernelEx");
  get(f.cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  get(f.cuOccupancyMaxActiveClusters, "cuOccupancyMaxActiveClusters", false);
  get(f.cuMemAlloc, "cuMemAlloc_v2");
  get(f.cuMemFree, "cuMemFree_v2");
  get(f.cuMemAllocAsync, "cuMemAllocAsync");
  get(f.cuMemFreeAsync, "cuMemFreeAsync");
  get(f.cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
  get(f.cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
  get(f.cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2");
  get(f.cuMemsetD8Async, "cuMemsetD8Async");
  get(f.cuMemsetD32Async, "cuMemsetD32Async");
  get(f.cuPointerGetAttribute, "cuPointerGetAttribute");
  get(f.cuStreamCreate, "cuStreamCreate");
  get(f.cuStreamDestroy, "cuStreamDestroy_v2");
  get(f.cuStreamSynchronize, "cuStreamSynchronize");
  get(f.cuStreamWaitEvent, "cuStreamWaitEvent");
  get(f.cuStreamIsCapturing, "cuStreamIsCapturing");
  get(f.cuStreamQuery, "cuStreamQuery");
  get(f.cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode");
  get(f.cuEventCreate, "cuEventCreate");
  get(f.cuEventDestroy, "cuEventDestroy_v2");
  get(f.cuEventRecord, "cuEventRecord");
  get(f.cuEventSynchronize, "cuEventSynchronize");
  get(f.cuEventElapsedTime, "cuEventElapsedTime");
  get(f.cuGraphCreate, "cuGraphCreate", false);
  get(f.cuGraphDestroy, "cuGraphDestroy", false);
  get(f.cuGraphAddKernelNode, "cuGraphAddKernelNode_v2", false);
  get(f.cuGraphKernelNodeSetAttribute, "cuGraphKernelNodeSetAttribute", false);
  get(f.cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", false);
  get(f.cuGraphExecDestroy, "cuGraphExecDestroy", false);
  get(f.cuGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2", false);
  get(f.cuGraphLaunch, "cuGraphLaunch", false);
  get(f.cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled", false);
  return missing;
}

LoadedDriver loadDriver() {
  LoadedDriver loaded;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    loaded.error = detail::streamToString("the CUDA driver cannot be opened (",
                                          reason != nullptr ? reason : "libcuda.so.1", ")");
    return loaded;
  }
  const std::string missing = findFunctions(library, loaded.functions);
  if (!missing.empty()) {
    loaded.error = detail::streamToString("the CUDA driver is too old: it lacks ", missing,
                                          "; CUDA 12.0 or newer is needed");
    return loaded;
  }
  initialize(loaded);
  return loaded;
}

// Never destroyed: modules and tensors that outlive main() still need it.
const LoadedDriver& loadedDriver() {
  static const auto* loaded = new LoadedDriver(loadDriver());
  return *loaded;
}

} // namespace

bool driverAvailable() {
  return loadedDriver().error.empty();
}

const Driver& driver() {
  const LoadedDriver& loaded = loadedDriver();
  NVF_CHECK(loaded.error.empty(), "CUDA is not available: ", loaded.error);
  return loaded.functions;
}

void throwDriverError(Result result, const char* what) {
  const char* name = nullptr;
  const char* text = nullptr;
  const Driver& functions = loadedDriver().functions;
  functions.cuGetErrorName(result, &name);
  functions.cuGetErrorString(result, &text);
  const std::string message =
      detail::streamToString(what, ": ", name != nullptr ? name : "CUDA error",
                             name != nullptr ? "" : std::to_string(result),
                             text != nullptr ? detail::streamToString(" (", text, ")") : "");
  constexpr Result kOutOfMemory = 2; // CUDA_ERROR_OUT_OF_MEMORY
  if (result == kOutOfMemory) {
    throw OutOfMemory(message);
  }
  throw UserError(message);
}

Context primaryContext(int device) {
  static std::array<std::atomic<Context>, kMaxDevices> contexts = {};
  NVF_CHECK(device >= 0 && device < kMaxDevices, "There is no CUDA device ", device);
  Context context = contexts[size_t(device)].load(std::memory_order_acquire);
  if (context == nullptr) {
    DeviceHandle handle = 0;
    check(driver().cuDeviceGet(&handle, device), "Cannot open the CUDA device");
    check(driver().cuDevicePrimaryCtxRetain(&context, handle), "Cannot use the CUDA device");
    contexts[size_t(device)].store(context, std::memory_order_release);
  }
  return context;
}

bool isCaptured(void* stream) {
  int is_capturing = 0;
  return driver().cuStreamIsCapturing(static_cast<Stream>(stream), &is_capturing) != 0 ||
         is_capturing != 0;
}

bool isBusy(void* stream) {
  // Otherwise the question would end another thread's capture of another stream.
  const RelaxedCapture relaxed;
  constexpr Result kNotReady = 600; // CUDA_ERROR_NOT_READY
  return driver().cuStreamQuery(static_cast<Stream>(stream)) == kNotReady;
}

RelaxedCapture::RelaxedCapture() {
  exchanged_ = driver().cuThreadExchangeStreamCaptureMode(&mode_) == 0;
}

RelaxedCapture::~RelaxedCapture() {
  if (exchanged_) {
    loadedDriver().functions.cuThreadExchangeStreamCaptureMode(&mode_);
  }
}

ContextGuard::ContextGuard(int device) {
  const Context context = primaryContext(device);
  const Driver& functions = loadedDriver().functions;
  check(functions.cuCtxGetCurrent(&previous_), "Cannot read the current CUDA context");
  if (previous_ != context) {
    check(functions.cuCtxSetCurrent(context), "Cannot use the CUDA device");
    // To a thread without a context device 0 is the current one. It keeps that device's: setting
    // none again would only slow the next call down.
    changed_ = previous_ != nullptr || device != 0;
  }
}

ContextGuard::~ContextGuard() {
  if (changed_) {
    loadedDriver().functions.cuCtxSetCurrent(previous_);
  }
}

} // namespace nvfuser::cuda
