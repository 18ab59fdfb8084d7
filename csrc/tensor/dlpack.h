// SPDX-License-Identifier: BSD-3-Clause
// The DLPack ABI, version 1.x (https://dmlc.github.io/dlpack): the layout of tensors that libraries
// hand to each other, and of the table of C functions that a Python array type may offer
// (`__dlpack_c_exchange_api__`, since 1.2). Only layouts; nothing here is linked.
#pragma once

#include <cstdint>

namespace nvfuser::dlpack {

constexpr uint32_t kMajorVersion = 1;
constexpr uint32_t kMinorVersion = 3;

enum DeviceCode : int32_t {
  kCpu = 1,
  kCuda = 2,
  kCudaHost = 3, // pinned host memory
  kCudaManaged = 13
};

enum TypeCode : uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kOpaque = 3,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8_e3m4 = 7,
  kFloat8_e4m3 = 8,
  kFloat8_e4m3b11fnuz = 9,
  kFloat8_e4m3fn = 10,
  kFloat8_e4m3fnuz = 11,
  kFloat8_e5m2 = 12,
  kFloat8_e5m2fnuz = 13,
  kFloat8_e8m0fnu = 14,
  kFloat6_e2m3fn = 15,
  kFloat6_e3m2fn = 16,
  kFloat4_e2m1fn = 17
};

struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};

struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides; // in elements; null (before 1.2): contiguous
  uint64_t byte_offset;
};

// Before version 1; still what many producers give.
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLPackVersion {
  uint32_t major;
  uint32_t minor;
};

constexpr uint64_t kFlagReadOnly = 1;
constexpr uint64_t kFlagIsCopied = 2;
constexpr uint64_t kFlagSubbytePadded = 4; // each sub-byte element fills a byte of its own

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
};

struct DLPackExchangeApiHeader {
  DLPackVersion version;
  DLPackExchangeApiHeader* prev_api; // an older version, or null
};

// All return 0, or -1 with a Python error set (the allocator calls set_error instead).
struct DLPackExchangeApi {
  DLPackExchangeApiHeader header;
  int (*managed_tensor_allocator)(DLTensor* prototype, DLManagedTensorVersioned** out,
                                  void* error_context,
                                  void (*set_error)(void* error_context, const char* kind,
                                                    const char* message));
  int (*managed_tensor_from_py_object_no_sync)(void* py_object, DLManagedTensorVersioned** out);
  int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned* tensor,
                                             void** out_py_object);
  int (*dltensor_from_py_object_no_sync)(void* py_object, DLTensor* out); // may be null
  int (*current_work_stream)(int32_t device_type, int32_t device_id, void** out_stream);
};

static_assert(sizeof(DLTensor) == 48 && sizeof(DLManagedTensorVersioned) == 80);
static_assert(sizeof(DLPackExchangeApi) == 56);

} // namespace nvfuser::dlpack
