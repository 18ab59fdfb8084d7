// SPDX-License-Identifier: BSD-3-Clause
// DLPack's element types and devices, and ours.
#include <tensor/dlpack.h>

#include <base/error.h>
#include <tensor/tensor.h>

namespace nvfuser {

DataType dataTypeFromDLPack(dlpack::DLDataType type) {
  if (type.code == dlpack::kFloat4_e2m1fn) {
    if (type.bits == 4 && type.lanes == 2) {
      return DataType::Float4_e2m1fn_x2;
    }
    return DataType::Null;
  }
  if (type.lanes != 1) {
    return DataType::Null;
  }
  switch (type.code) {
    case dlpack::kFloat:
      return type.bits == 32   ? DataType::Float
             : type.bits == 64 ? DataType::Double
             : type.bits == 16 ? DataType::Half
                               : DataType::Null;
    case dlpack::kBfloat:
      return type.bits == 16 ? DataType::BFloat16 : DataType::Null;
    case dlpack::kInt:
      return type.bits == 64   ? DataType::Int
             : type.bits == 32 ? DataType::Int32
             : type.bits == 16 ? DataType::Int16
             : type.bits == 8  ? DataType::Int8
                               : DataType::Null;
    case dlpack::kUInt:
      return type.bits == 64   ? DataType::UInt64
             : type.bits == 32 ? DataType::UInt32
             : type.bits == 16 ? DataType::UInt16
             : type.bits == 8  ? DataType::UInt8
                               : DataType::Null;
    case dlpack::kBool:
      return type.bits == 8 ? DataType::Bool : DataType::Null;
    case dlpack::kComplex:
      return type.bits == 64    ? DataType::ComplexFloat
             : type.bits == 128 ? DataType::ComplexDouble
                                : DataType::Null;
    case dlpack::kFloat8_e4m3fn:
      return DataType::Float8_e4m3fn;
    case dlpack::kFloat8_e5m2:
      return DataType::Float8_e5m2;
    case dlpack::kFloat8_e8m0fnu:
      return DataType::Float8_e8m0fnu;
    default:
      return DataType::Null;
  }
}

dlpack::DLDataType dataTypeToDLPack(DataType type) {
  uint8_t code = dlpack::kOpaque;
  switch (type) {
    case DataType::Double:
    case DataType::Float:
    case DataType::Half:
      code = dlpack::kFloat;
      break;
    case DataType::BFloat16:
      code = dlpack::kBfloat;
      break;
    case DataType::Float8_e4m3fn:
      code = dlpack::kFloat8_e4m3fn;
      break;
    case DataType::Float8_e5m2:
      code = dlpack::kFloat8_e5m2;
      break;
    case DataType::Float8_e8m0fnu:
      code = dlpack::kFloat8_e8m0fnu;
      break;
    case DataType::Float4_e2m1fn_x2:
      return {dlpack::kFloat4_e2m1fn, 4, 2};
    case DataType::Int:
    case DataType::Int32:
    case DataType::Int16:
    case DataType::Int8:
      code = dlpack::kInt;
      break;
    case DataType::UInt64:
    case DataType::UInt32:
    case DataType::UInt16:
    case DataType::UInt8:
      code = dlpack::kUInt;
      break;
    case DataType::Bool:
      code = dlpack::kBool;
      break;
    case DataType::ComplexFloat:
    case DataType::ComplexDouble:
      code = dlpack::kComplex;
      break;
    default:
      NVF_THROW("data type ", type, " has no counterpart in DLPack");
  }
  return {code, static_cast<uint8_t>(dataTypeSizeBits(type)), 1};
}

Device deviceFromDLPack(dlpack::DLDevice device) {
  switch (device.device_type) {
    case dlpack::kCpu:
    case dlpack::kCudaHost:
      return Device::host();
    case dlpack::kCuda:
    case dlpack::kCudaManaged:
      return Device::cuda(device.device_id);
    default:
      NVF_CHECK_FAIL("Only arrays in host or CUDA memory are supported (got DLPack device type ",
                     device.device_type, ")");
  }
}

dlpack::DLDevice deviceToDLPack(Device device) {
  return device.isHost() ? dlpack::DLDevice{dlpack::kCpu, 0}
                         : dlpack::DLDevice{dlpack::kCuda, device.index};
}

} // namespace nvfuser
