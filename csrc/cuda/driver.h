// SPDX-License-Identifier: BSD-3-Clause
// The CUDA driver, opened at run time. The few types and constants that are needed are declared
// here after the driver API reference (CUDA 13), so that neither cuda.h nor a GPU is needed to
// build.
#pragma once

#include <base/error.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace nvfuser::cuda {

using Result = int;                   // CUresult; 0 is success
using DeviceHandle = int;             // CUdevice
using DevicePtr = unsigned long long; // CUdeviceptr
using Context = struct ContextOpaque*;
using Module = struct ModuleOpaque*;
using Function = struct FunctionOpaque*;
using Stream = struct StreamOpaque*;
using Event = struct EventOpaque*;
using MemoryPool = struct MemoryPoolOpaque*;
using Graph = struct GraphOpaque*;
using GraphNode = struct GraphNodeOpaque*;
using GraphExec = struct GraphExecOpaque*;

// CUlaunchAttribute: an identifier padded to 8 bytes, and 64 bytes of value.
struct LaunchAttribute {
  enum Id : uint32_t {
    kCooperative = 2,
    kClusterDimension = 4,
    kProgrammaticStreamSerialization = 6
  };
  uint32_t id;
  uint32_t pad;
  union {
    char bytes[64];
    struct {
      uint32_t x, y, z;
    } cluster;
    int32_t flag;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

// CUlaunchConfig
struct LaunchConfigNative {
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  uint32_t attribute_count;
};
static_assert(sizeof(LaunchConfigNative) == 56);

// CUDA_KERNEL_NODE_PARAMS_v2
struct KernelNodeParams {
  Function function;
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
  void** args;
  void** extra;
  void* kernel;    // in the place of a function
  Context context; // null: the current one
};
static_assert(sizeof(KernelNodeParams) == 72);

// CUdevice_attribute
enum DeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxBlockDimX = 2,
  kMaxGridDimX = 5,
  kMaxSharedPerBlock = 8,
  kWarpSize = 10,
  kMaxRegistersPerBlock = 12,
  kClockRate = 13,
  kMultiprocessorCount = 16,
  kMemoryClockRate = 36,
  kMemoryBusWidth = 37,
  kL2Bytes = 38,
  kMaxThreadsPerSm = 39,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxSharedPerSm = 81,
  kMaxRegistersPerSm = 82,
  kCooperativeLaunch = 95,
  kMaxSharedPerBlockOptin = 97,
  kMaxBlocksPerSm = 106,
  kReservedSharedPerBlock = 111,
  kMemoryPoolsSupported = 115,
  kClusterLaunch = 120
};

// CUfunction_attribute
enum FunctionAttribute : int {
  kFunctionMaxThreads = 0,
  kFunctionSharedBytes = 1,
  kFunctionLocalBytes = 3,
  kFunctionRegisters = 4,
  kFunctionMaxDynamicShared = 8,
  kFunctionSharedPercent = 9, // CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
  kFunctionNonPortableCluster = 14
};

// The functions in use, under the driver's own names without the version suffix.
struct Driver {
  Result (*cuInit)(unsigned);
  Result (*cuDriverGetVersion)(int*);
  Result (*cuGetErrorName)(Result, const char**);
  Result (*cuGetErrorString)(Result, const char**);
  Result (*cuDeviceGetCount)(int*);
  Result (*cuDeviceGet)(DeviceHandle*, int);
  Result (*cuDeviceGetName)(char*, int, DeviceHandle);
  Result (*cuDeviceGetAttribute)(int*, int, DeviceHandle);
  Result (*cuDeviceTotalMem)(size_t*, DeviceHandle);
  Result (*cuDeviceGetDefaultMemPool)(MemoryPool*, DeviceHandle);
  Result (*cuMemPoolSetAttribute)(MemoryPool, int, void*);
  Result (*cuDevicePrimaryCtxRetain)(Context*, DeviceHandle);
  Result (*cuCtxGetCurrent)(Context*);
  Result (*cuCtxSetCurrent)(Context);
  Result (*cuCtxSynchronize)();
  Result (*cuModuleLoadData)(Module*, const void*);
  Result (*cuModuleLoadDataEx)(Module*, const void*, unsigned, int*, void**);
  Result (*cuModuleUnload)(Module);
  Result (*cuModuleGetFunction)(Function*, Module, const char*);
  Result (*cuModuleGetGlobal)(DevicePtr*, size_t*, Module, const char*);
  Result (*cuFuncGetAttribute)(int*, int, Function);
  Result (*cuFuncSetAttribute)(Function, int, int);
  Result (*cuLaunchKernel)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                           unsigned, Stream, void**, void**);
  Result (*cuLaunchKernelEx)(const LaunchConfigNative*, Function, void**, void**);
  Result (*cuOccupancyMaxActiveBlocksPerMultiprocessor)(int*, Function, int, size_t);
  Result (*cuOccupancyMaxActiveClusters)(int*, Function, const LaunchConfigNative*);
  Result (*cuMemAlloc)(DevicePtr*, size_t);
  Result (*cuMemFree)(DevicePtr);
  Result (*cuMemAllocAsync)(DevicePtr*, size_t, Stream);
  Result (*cuMemFreeAsync)(DevicePtr, Stream);
  Result (*cuMemcpyHtoDAsync)(DevicePtr, const void*, size_t, Stream);
  Result (*cuMemcpyDtoHAsync)(void*, DevicePtr, size_t, Stream);
  Result (*cuMemcpyDtoDAsync)(DevicePtr, DevicePtr, size_t, Stream);
  Result (*cuMemsetD8Async)(DevicePtr, unsigned char, size_t, Stream);
  Result (*cuMemsetD32Async)(DevicePtr, unsigned, size_t, Stream);
  Result (*cuPointerGetAttribute)(void*, int, DevicePtr);
  Result (*cuStreamCreate)(Stream*, unsigned);
  Result (*cuStreamDestroy)(Stream);
  Result (*cuStreamSynchronize)(Stream);
  Result (*cuStreamWaitEvent)(Stream, Event, unsigned);
  Result (*cuStreamIsCapturing)(Stream, int*);
  Result (*cuStreamQuery)(Stream);
  Result (*cuThreadExchangeStreamCaptureMode)(int*);
  Result (*cuEventCreate)(Event*, unsigned);
  Result (*cuEventDestroy)(Event);
  Result (*cuEventRecord)(Event, Stream);
  Result (*cuEventSynchronize)(Event);
  Result (*cuEventElapsedTime)(float*, Event, Event);
  // Graphs: null in drivers that lack them.
  Result (*cuGraphCreate)(Graph*, unsigned);
  Result (*cuGraphDestroy)(Graph);
  Result (*cuGraphAddKernelNode)(GraphNode*, Graph, const GraphNode*, size_t,
                                 const KernelNodeParams*);
  Result (*cuGraphKernelNodeSetAttribute)(GraphNode, int, const void*);
  Result (*cuGraphInstantiateWithFlags)(GraphExec*, Graph, unsigned long long);
  Result (*cuGraphExecDestroy)(GraphExec);
  Result (*cuGraphExecKernelNodeSetParams)(GraphExec, GraphNode, const KernelNodeParams*);
  Result (*cuGraphLaunch)(GraphExec, Stream);
  // CUtensorMap*, data type, rank, address, sizes, strides in bytes, box, element strides,
  // interleave, swizzle, L2 promotion, out-of-bounds fill. Null before CUDA 12.
  Result (*cuTensorMapEncodeTiled)(void*, int, unsigned, void*, const uint64_t*, const uint64_t*,
                                   const uint32_t*, const uint32_t*, int, int, int, int);
};

// Whether the driver could be opened and initialized.
bool driverAvailable();

// Throws UserError when there is no driver.
const Driver& driver();

// The driver has no memory left on the device. In Python torch's own exception for that.
class OutOfMemory : public UserError {
 public:
  using UserError::UserError;
};

[[noreturn]] void throwDriverError(Result result, const char* what);

// `what` says what was tried: "Cannot load the kernel".
inline void check(Result result, const char* what) {
  if (result != 0) [[unlikely]] {
    throwDriverError(result, what);
  }
}

// The primary context of a device, which every framework in the process shares. Retained once, for
// good.
Context primaryContext(int device);

// Whether launches on the stream go into a graph instead of to the device. True also where the
// driver does not say, as in the middle of another thread's capture.
bool isCaptured(void* stream);

// While it lives, this thread may do what could disturb a capture if it touched the captured stream
// (loading a kernel, making a graph, giving memory back), although a stream is being captured, by
// this thread or another. What is done must touch no captured stream.
class RelaxedCapture {
 public:
  RelaxedCapture();
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int mode_ = 2; // CU_STREAM_CAPTURE_MODE_RELAXED; then the one before
  bool exchanged_ = false;
};

// Whether the device still has work of the stream to do. Not for a stream that is captured.
bool isBusy(void* stream);

// Makes the primary context of the device current, and the one before it again at the end.
class ContextGuard {
 public:
  explicit ContextGuard(int device);
  ~ContextGuard();
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  Context previous_ = nullptr;
  bool changed_ = false;
};

} // namespace nvfuser::cuda
