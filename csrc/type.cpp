// SPDX-License-Identifier: BSD-3-Clause
// Sizes and printed names of the enumerations.
#include <type.h>

#include <base/error.h>

#include <array>
#include <ostream>

namespace nvfuser {

namespace {

struct TypeInfo {
  DataType type;
  std::string_view name;
  int64_t bits; // 0: it has no size, or none of its own
  std::string_view in_text;
  std::string_view in_torch;
  std::string_view in_torch_too; // torch has two names for some
};

constexpr std::array kTypes = {
    TypeInfo{DataType::Double, "Double", 64, "double", "float64", "double"},
    TypeInfo{DataType::Float, "Float", 32, "float", "float32", "float"},
    TypeInfo{DataType::Half, "Half", 16, "__half", "float16", "half"},
    TypeInfo{DataType::BFloat16, "BFloat16", 16, "__bfloat", "bfloat16", ""},
    TypeInfo{DataType::Float8_e4m3fn, "Float8_e4m3fn", 8, "__e4m3", "float8_e4m3fn", ""},
    TypeInfo{DataType::Float8_e5m2, "Float8_e5m2", 8, "__e5m2", "float8_e5m2", ""},
    TypeInfo{DataType::Float8_e8m0fnu, "Float8_e8m0fnu", 8, "__e8m0", "float8_e8m0fnu", ""},
    TypeInfo{DataType::Float4_e2m1fn, "Float4_e2m1fn", 4, "__e2m1", "float4_e2m1fn", ""},
    TypeInfo{DataType::Float4_e2m1fn_x2, "Float4_e2m1fn_x2", 8, "__e2m1_x2", "float4_e2m1fn_x2",
             ""},
    TypeInfo{DataType::Int, "Int", 64, "int64_t", "int64", "long"},
    TypeInfo{DataType::Int32, "Int32", 32, "int", "int32", "int"},
    TypeInfo{DataType::UInt64, "UInt64", 64, "uint64_t", "uint64", ""},
    TypeInfo{DataType::Index, "Index", 0, "nvfuser_index_t", "index", ""},
    TypeInfo{DataType::Bool, "Bool", 8, "bool", "bool", ""},
    TypeInfo{DataType::ComplexFloat, "ComplexFloat", 64, "std::complex<float>", "complex64",
             "cfloat"},
    TypeInfo{DataType::ComplexDouble, "ComplexDouble", 128, "std::complex<double>", "complex128",
             "cdouble"},
    TypeInfo{DataType::Int8, "Int8", 8, "int8_t", "int8", ""},
    TypeInfo{DataType::UInt8, "UInt8", 8, "uint8_t", "uint8", ""},
    TypeInfo{DataType::Int16, "Int16", 16, "int16_t", "int16", "short"},
    TypeInfo{DataType::UInt16, "UInt16", 16, "uint16_t", "uint16", ""},
    TypeInfo{DataType::UInt32, "UInt32", 32, "uint32_t", "uint32", ""},
    TypeInfo{DataType::Null, "Null", 0, "null_type", "null", ""},
};

constexpr bool areInOrder() {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].type != static_cast<DataType>(i)) {
      return false;
    }
  }
  return kTypes.back().type == DataType::Null;
}
static_assert(areInOrder(), "a row for each DataType");

const TypeInfo& infoOf(DataType t) {
  const auto at = static_cast<size_t>(t);
  NVF_ERROR(at < kTypes.size(), "no data type has the number ", at);
  return kTypes[at];
}

bool isOffered(DataType t) {
  return t < DataType::Int8;
}

} // namespace

int64_t dataTypeSizeBits(DataType t, DataType index_type) {
  if (t == DataType::Index) {
    NVF_ERROR(index_type == DataType::Int || index_type == DataType::Int32);
    t = index_type;
  }
  const int64_t bits = infoOf(t).bits;
  NVF_ERROR(bits != 0, "data type ", t, " has no size");
  return bits;
}

int64_t dataTypeSizeBytes(DataType t, DataType index_type) {
  const int64_t bits = dataTypeSizeBits(t, index_type);
  NVF_ERROR(bits % 8 == 0, "data type ", t, " does not fill whole bytes");
  return bits / 8;
}

std::string_view typeName(DataType t) {
  return infoOf(t).in_text;
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

std::string_view torchName(DataType t) {
  return infoOf(t).in_torch;
}

std::optional<DataType> dataTypeNamed(std::string_view name) {
  constexpr std::string_view kModule = "torch.";
  if (name.substr(0, kModule.size()) == kModule) {
    name.remove_prefix(kModule.size());
  }
  for (const TypeInfo& row : kTypes) {
    if (isOffered(row.type) && !name.empty() &&
        (name == row.name || name == row.in_torch || name == row.in_torch_too)) {
      return row.type;
    }
  }
  return std::nullopt;
}

std::string_view enumName(DataType t) {
  return infoOf(t).name;
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
