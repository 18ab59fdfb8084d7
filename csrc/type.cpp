// SPDX-License-Identifier: BSD-3-Clause
// Sizes and printed names of the enumerations.
#include <type.h>

#include <base/error.h>

#include <ostream>

namespace nvfuser {

int64_t dataTypeSizeBits(DataType t, DataType index_type) {
  switch (t) {
    case DataType::ComplexDouble:
      return 128;
    case DataType::Double:
    case DataType::Int:
    case DataType::UInt64:
    case DataType::ComplexFloat:
      return 64;
    case DataType::Float:
    case DataType::Int32:
    case DataType::UInt32:
      return 32;
    case DataType::Half:
    case DataType::BFloat16:
    case DataType::Int16:
    case DataType::UInt16:
      return 16;
    case DataType::Float8_e4m3fn:
    case DataType::Float8_e5m2:
    case DataType::Float8_e8m0fnu:
    case DataType::Float4_e2m1fn_x2:
    case DataType::Bool:
    case DataType::Int8:
    case DataType::UInt8:
      return 8;
    case DataType::Float4_e2m1fn:
      return 4;
    case DataType::Index:
      NVF_ERROR(index_type == DataType::Int || index_type == DataType::Int32);
      return index_type == DataType::Int ? 64 : 32;
    case DataType::Null:
      break;
  }
  NVF_THROW("data type ", t, " has no size");
}

int64_t dataTypeSizeBytes(DataType t, DataType index_type) {
  const int64_t bits = dataTypeSizeBits(t, index_type);
  NVF_ERROR(bits % 8 == 0, "data type ", t, " does not fill whole bytes");
  return bits / 8;
}

std::string_view typeName(DataType t) {
  switch (t) {
    case DataType::Double:
      return "double";
    case DataType::Float:
      return "float";
    case DataType::Half:
      return "__half";
    case DataType::BFloat16:
      return "__bfloat";
    case DataType::Float8_e4m3fn:
      return "__e4m3";
    case DataType::Float8_e5m2:
      return "__e5m2";
    case DataType::Float8_e8m0fnu:
      return "__e8m0";
    case DataType::Float4_e2m1fn:
      return "__e2m1";
    case DataType::Float4_e2m1fn_x2:
      return "__e2m1_x2";
    case DataType::Int:
      return "int64_t";
    case DataType::Int32:
      return "int";
    case DataType::UInt64:
      return "uint64_t";
    case DataType::Index:
      return "nvfuser_index_t";
    case DataType::Bool:
      return "bool";
    case DataType::ComplexFloat:
      return "std::complex<float>";
    case DataType::ComplexDouble:
      return "std::complex<double>";
    case DataType::Int8:
      return "int8_t";
    case DataType::UInt8:
      return "uint8_t";
    case DataType::Int16:
      return "int16_t";
    case DataType::UInt16:
      return "uint16_t";
    case DataType::UInt32:
      return "uint32_t";
    case DataType::Null:
      return "null_type";
  }
  return "?";
}

std::string_view kernelTypeName(DataType t) {
  switch (t) {
    case DataType::ComplexFloat:
      return "nvf::complex<float>";
    case DataType::ComplexDouble:
      return "nvf::complex<double>";
    default:
      return typeName(t);
  }
}

namespace {

struct TorchNames {
  DataType type;
  std::string_view name;
  std::string_view other; // torch has two names for some
};

constexpr TorchNames kTorchNames[] = {
    {DataType::Double, "float64", "double"},
    {DataType::Float, "float32", "float"},
    {DataType::Half, "float16", "half"},
    {DataType::BFloat16, "bfloat16", ""},
    {DataType::Float8_e4m3fn, "float8_e4m3fn", ""},
    {DataType::Float8_e5m2, "float8_e5m2", ""},
    {DataType::Float8_e8m0fnu, "float8_e8m0fnu", ""},
    {DataType::Float4_e2m1fn, "float4_e2m1fn", ""},
    {DataType::Float4_e2m1fn_x2, "float4_e2m1fn_x2", ""},
    {DataType::Int, "int64", "long"},
    {DataType::Int32, "int32", "int"},
    {DataType::UInt64, "uint64", ""},
    {DataType::Index, "index", ""},
    {DataType::Bool, "bool", ""},
    {DataType::ComplexFloat, "complex64", "cfloat"},
    {DataType::ComplexDouble, "complex128", "cdouble"},
    {DataType::Int8, "int8", ""},
    {DataType::UInt8, "uint8", ""},
    {DataType::Int16, "int16", "short"},
    {DataType::UInt16, "uint16", ""},
    {DataType::UInt32, "uint32", ""},
    {DataType::Null, "null", ""},
};

bool isOffered(DataType t) {
  return t < DataType::Int8;
}

} // namespace

std::string_view torchName(DataType t) {
  for (const TorchNames& row : kTorchNames) {
    if (row.type == t) {
      return row.name;
    }
  }
  return "?";
}

std::optional<DataType> dataTypeNamed(std::string_view name) {
  constexpr std::string_view kModule = "torch.";
  if (name.substr(0, kModule.size()) == kModule) {
    name.remove_prefix(kModule.size());
  }
  for (const TorchNames& row : kTorchNames) {
    if (isOffered(row.type) && !name.empty() &&
        (name == row.name || name == row.other || name == enumName(row.type))) {
      return row.type;
    }
  }
  return std::nullopt;
}

std::string_view enumName(DataType t) {
  switch (t) {
    case DataType::Double:
      return "Double";
    case DataType::Float:
      return "Float";
    case DataType::Half:
      return "Half";
    case DataType::BFloat16:
      return "BFloat16";
    case DataType::Float8_e4m3fn:
      return "Float8_e4m3fn";
    case DataType::Float8_e5m2:
      return "Float8_e5m2";
    case DataType::Float8_e8m0fnu:
      return "Float8_e8m0fnu";
    case DataType::Float4_e2m1fn:
      return "Float4_e2m1fn";
    case DataType::Float4_e2m1fn_x2:
      return "Float4_e2m1fn_x2";
    case DataType::Int:
      return "Int";
    case DataType::Int32:
      return "Int32";
    case DataType::UInt64:
      return "UInt64";
    case DataType::Index:
      return "Index";
    case DataType::Bool:
      return "Bool";
    case DataType::ComplexFloat:
      return "ComplexFloat";
    case DataType::ComplexDouble:
      return "ComplexDouble";
    case DataType::Int8:
      return "Int8";
    case DataType::UInt8:
      return "UInt8";
    case DataType::Int16:
      return "Int16";
    case DataType::UInt16:
      return "UInt16";
    case DataType::UInt32:
      return "UInt32";
    case DataType::Null:
      return "Null";
  }
  return "?";
}

std::string_view parallelTag(ParallelType p) {
  switch (p) {
    case ParallelType::DIDx:
      return "deviceIdx.x";
    case ParallelType::DIDy:
      return "deviceIdx.y";
    case ParallelType::DIDz:
      return "deviceIdx.z";
    case ParallelType::BIDx:
      return "blockIdx.x";
    case ParallelType::BIDy:
      return "blockIdx.y";
    case ParallelType::BIDz:
      return "blockIdx.z";
    case ParallelType::TIDx:
      return "threadIdx.x";
    case ParallelType::TIDy:
      return "threadIdx.y";
    case ParallelType::TIDz:
      return "threadIdx.z";
    case ParallelType::Stream:
      return "streamIdx";
    case ParallelType::Vectorize:
      return "V";
    case ParallelType::Unroll:
      return "UR";
    case ParallelType::Unswitch:
      return "US";
    case ParallelType::Mma:
      return "MMA";
    case ParallelType::Group:
      return "G";
    case ParallelType::Bulk:
      return "B";
    case ParallelType::Serial:
      return "S";
  }
  return "?";
}

std::string_view parallelExtentName(ParallelType p) {
  switch (p) {
    case ParallelType::BIDx:
      return "gridDim.x";
    case ParallelType::BIDy:
      return "gridDim.y";
    case ParallelType::BIDz:
      return "gridDim.z";
    case ParallelType::TIDx:
      return "blockDim.x";
    case ParallelType::TIDy:
      return "blockDim.y";
    case ParallelType::TIDz:
      return "blockDim.z";
    default:
      NVF_THROW("parallel type ", p, " has no extent in a kernel");
  }
}

std::string_view memoryTag(MemoryType m) {
  switch (m) {
    case MemoryType::Local:
      return "l";
    case MemoryType::Shared:
      return "s";
    case MemoryType::Global:
      return "g";
    case MemoryType::Tensor:
      return "t";
    case MemoryType::Symmetric:
      return "sym";
  }
  return "?";
}

std::string_view iterTag(IterType t) {
  switch (t) {
    case IterType::Iteration:
      return "i";
    case IterType::Reduction:
      return "r";
    case IterType::Broadcast:
      return "b";
    case IterType::Symbolic:
      return "?";
  }
  return "?";
}

std::string_view schedulerName(SchedulerType s) {
  switch (s) {
    case SchedulerType::None:
      return "none";
    case SchedulerType::NoOp:
      return "no_op";
    case SchedulerType::PointWise:
      return "pointwise";
    case SchedulerType::Matmul:
      return "matmul";
    case SchedulerType::Reduction:
      return "reduction";
    case SchedulerType::InnerPersistent:
      return "inner_persistent";
    case SchedulerType::InnerOuterPersistent:
      return "inner_outer_persistent";
    case SchedulerType::OuterPersistent:
      return "outer_persistent";
    case SchedulerType::Transpose:
      return "transpose";
    case SchedulerType::ExprEval:
      return "expr_eval";
    case SchedulerType::Resize:
      return "resize";
    case SchedulerType::Greedy:
      return "greedy";
  }
  return "?";
}

std::ostream& operator<<(std::ostream& os, DataType t) {
  return os << torchName(t);
}

std::ostream& operator<<(std::ostream& os, ParallelType p) {
  return os << parallelTag(p);
}

std::ostream& operator<<(std::ostream& os, MemoryType m) {
  switch (m) {
    case MemoryType::Local:
      return os << "local";
    case MemoryType::Shared:
      return os << "shared";
    case MemoryType::Global:
      return os << "global";
    case MemoryType::Tensor:
      return os << "tensor";
    case MemoryType::Symmetric:
      return os << "symmetric";
  }
  return os << "?";
}

std::ostream& operator<<(std::ostream& os, IterType t) {
  return os << iterTag(t);
}

std::ostream& operator<<(std::ostream& os, LoadStoreOpType t) {
  switch (t) {
    case LoadStoreOpType::Set:
      return os << "Set";
    case LoadStoreOpType::SegmenterSet:
      return os << "SegmenterSet";
    case LoadStoreOpType::LdMatrix:
      return os << "LdMatrix";
    case LoadStoreOpType::CpAsync:
      return os << "CpAsync";
    case LoadStoreOpType::CpAsyncBulk:
      return os << "CpAsyncBulk";
    case LoadStoreOpType::CpAsyncBulkTensorTile:
      return os << "CpAsyncBulkTensorTile";
  }
  return os << "?";
}

std::ostream& operator<<(std::ostream& os, CacheOp c) {
  switch (c) {
    case CacheOp::Unspecified:
      return os << "Unspecified";
    case CacheOp::AllLevels:
      return os << "AllLevels";
    case CacheOp::Streaming:
      return os << "Streaming";
    case CacheOp::Global:
      return os << "Global";
    case CacheOp::EvictLast:
      return os << "EvictLast";
  }
  return os << "?";
}

std::ostream& operator<<(std::ostream& os, IdMappingMode m) {
  switch (m) {
    case IdMappingMode::Exact:
      return os << "exact";
    case IdMappingMode::AlmostExact:
      return os << "almost_exact";
    case IdMappingMode::Broadcast:
      return os << "broadcast";
    case IdMappingMode::Permissive:
      return os << "permissive";
    case IdMappingMode::Loop:
      return os << "loop";
  }
  return os << "?";
}

std::ostream& operator<<(std::ostream& os, SchedulerType s) {
  return os << schedulerName(s);
}

std::ostream& operator<<(std::ostream& os, SwizzleType s) {
  switch (s) {
    case SwizzleType::Xor:
      return os << "Xor";
    case SwizzleType::CyclicShift:
      return os << "CyclicShift";
  }
  return os << "?";
}

} // namespace nvfuser
