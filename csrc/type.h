// SPDX-License-Identifier: BSD-3-Clause
// The enumerations that every layer speaks in, their properties and their printed names.
#pragma once

#include <complex>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string_view>

namespace nvfuser {

enum class DataType : uint8_t {
  Double,
  Float,
  Half,
  BFloat16,
  Float8_e4m3fn,
  Float8_e5m2,
  Float8_e8m0fnu,
  Float4_e2m1fn, // one value of 4 bits; memory holds two in a byte, the even index in the low half
  Float4_e2m1fn_x2, // such a byte as one element
  Int,              // 64 bits
  Int32,
  UInt64,
  Index, // Int or Int32, decided per kernel from the shapes
  Bool,
  ComplexFloat,
  ComplexDouble,
  // Not offered to Python; tensors of other libraries can have them.
  Int8,
  UInt8,
  Int16,
  UInt16,
  UInt32,
  Null
};

enum class ParallelType : uint8_t {
  DIDx,
  DIDy,
  DIDz,
  BIDx,
  BIDy,
  BIDz,
  TIDx,
  TIDy,
  TIDz,
  Stream,
  Vectorize,
  Unroll,
  Unswitch,
  Mma,
  Group,
  Bulk,
  Serial
};

enum class MemoryType : uint8_t { Local, Shared, Global, Tensor, Symmetric };

enum class IterType : uint8_t {
  Iteration,
  Reduction,
  Broadcast,
  Symbolic // Iteration or Broadcast, decided when the shapes are known
};

enum class LoadStoreOpType : uint8_t {
  Set,
  SegmenterSet,
  LdMatrix,
  CpAsync,
  CpAsyncBulk,
  CpAsyncBulkTensorTile
};

// EvictLast: L2 gives up other lines first.
enum class CacheOp : uint8_t { Unspecified, AllLevels, Streaming, Global, EvictLast };

enum class IdMappingMode : uint8_t { Exact, AlmostExact, Broadcast, Permissive, Loop };

enum class SchedulerType : uint8_t {
  None,
  NoOp,
  PointWise,
  Matmul,
  Reduction,
  InnerPersistent,
  InnerOuterPersistent,
  OuterPersistent,
  Transpose,
  ExprEval,
  Resize,
  Greedy
};

enum class SwizzleType : uint8_t { Xor, CyclicShift };

// ---- Data types

constexpr bool isFloat8(DataType t) {
  return t == DataType::Float8_e4m3fn || t == DataType::Float8_e5m2 ||
         t == DataType::Float8_e8m0fnu;
}
constexpr bool isFloat4(DataType t) {
  return t == DataType::Float4_e2m1fn || t == DataType::Float4_e2m1fn_x2;
}
// Computed in Float unless an op says otherwise.
constexpr bool isLowPrecision(DataType t) {
  return t == DataType::Half || t == DataType::BFloat16 || isFloat8(t) || isFloat4(t);
}
constexpr bool isFloatingPoint(DataType t) {
  return t == DataType::Double || t == DataType::Float || isLowPrecision(t);
}
constexpr bool isComplex(DataType t) {
  return t == DataType::ComplexFloat || t == DataType::ComplexDouble;
}
constexpr bool isBoolean(DataType t) {
  return t == DataType::Bool;
}
// Bool is none.
constexpr bool isIntegral(DataType t) {
  switch (t) {
    case DataType::Int:
    case DataType::Int32:
    case DataType::UInt64:
    case DataType::Index:
    case DataType::Int8:
    case DataType::UInt8:
    case DataType::Int16:
    case DataType::UInt16:
    case DataType::UInt32:
      return true;
    default:
      return false;
  }
}
constexpr bool isUnsigned(DataType t) {
  return t == DataType::UInt64 || t == DataType::UInt8 || t == DataType::UInt16 ||
         t == DataType::UInt32;
}
constexpr bool isInexact(DataType t) {
  return isFloatingPoint(t) || isComplex(t);
}

// Of the parts of a complex type; other types are their own.
constexpr DataType realTypeOf(DataType t) {
  return t == DataType::ComplexFloat    ? DataType::Float
         : t == DataType::ComplexDouble ? DataType::Double
                                        : t;
}
// The complex type with parts of the given type (Float for anything but Double).
constexpr DataType complexTypeOf(DataType t) {
  return t == DataType::Double || t == DataType::ComplexDouble ? DataType::ComplexDouble
                                                               : DataType::ComplexFloat;
}

// Index counts as `index_type`. Null has no size, and fp4 none in whole bytes: both are errors.
int64_t dataTypeSizeBits(DataType t, DataType index_type = DataType::Int);
int64_t dataTypeSizeBytes(DataType t, DataType index_type = DataType::Int);

// As printed in the IR: "float", "__half", "int64_t", "std::complex<float>", "nvfuser_index_t".
std::string_view typeName(DataType t);
// As written in kernel text: the same but for complex numbers, which are nvf::complex<...> there.
std::string_view kernelTypeName(DataType t);
// The member's own name, as Python shows it: "Float", "Half", "Int".
std::string_view enumName(DataType t);

// As torch calls it: "float32", "int64", "complex64"; what torch lacks alike ("index"). Messages
// print this name.
std::string_view torchName(DataType t);
// Of a name of torch ("float32", "torch.float32", "half") or a member's own ("Half"); empty if
// there is no such type of fusions.
std::optional<DataType> dataTypeNamed(std::string_view name);

template <class T>
constexpr DataType dataTypeOf() = delete;
template <>
constexpr DataType dataTypeOf<double>() {
  return DataType::Double;
}
template <>
constexpr DataType dataTypeOf<float>() {
  return DataType::Float;
}
template <>
constexpr DataType dataTypeOf<bool>() {
  return DataType::Bool;
}
template <>
constexpr DataType dataTypeOf<int8_t>() {
  return DataType::Int8;
}
template <>
constexpr DataType dataTypeOf<uint8_t>() {
  return DataType::UInt8;
}
template <>
constexpr DataType dataTypeOf<int16_t>() {
  return DataType::Int16;
}
template <>
constexpr DataType dataTypeOf<uint16_t>() {
  return DataType::UInt16;
}
template <>
constexpr DataType dataTypeOf<int32_t>() {
  return DataType::Int32;
}
template <>
constexpr DataType dataTypeOf<uint32_t>() {
  return DataType::UInt32;
}
template <>
constexpr DataType dataTypeOf<int64_t>() {
  return DataType::Int;
}
template <>
constexpr DataType dataTypeOf<uint64_t>() {
  return DataType::UInt64;
}
template <>
constexpr DataType dataTypeOf<std::complex<float>>() {
  return DataType::ComplexFloat;
}
template <>
constexpr DataType dataTypeOf<std::complex<double>>() {
  return DataType::ComplexDouble;
}

// ---- Parallel types

constexpr bool isParallelTypeThreadDim(ParallelType p) {
  return p == ParallelType::TIDx || p == ParallelType::TIDy || p == ParallelType::TIDz;
}
constexpr bool isParallelTypeBlockDim(ParallelType p) {
  return p == ParallelType::BIDx || p == ParallelType::BIDy || p == ParallelType::BIDz;
}
constexpr bool isParallelTypeDeviceDim(ParallelType p) {
  return p == ParallelType::DIDx || p == ParallelType::DIDy || p == ParallelType::DIDz;
}
// A thread or a block index of the kernel.
constexpr bool isParallelTypeThread(ParallelType p) {
  return isParallelTypeThreadDim(p) || isParallelTypeBlockDim(p);
}
constexpr bool isParallelTypeVectorize(ParallelType p) {
  return p == ParallelType::Vectorize;
}
constexpr ParallelType kParallelTypeThreads[] = {ParallelType::BIDx, ParallelType::BIDy,
                                                 ParallelType::BIDz, ParallelType::TIDx,
                                                 ParallelType::TIDy, ParallelType::TIDz};
constexpr ParallelType kParallelTypeBIDs[] = {ParallelType::BIDx, ParallelType::BIDy,
                                              ParallelType::BIDz};
constexpr ParallelType kParallelTypeTIDs[] = {ParallelType::TIDx, ParallelType::TIDy,
                                              ParallelType::TIDz};

// As printed inside an iteration domain, and, for thread and block indices, in kernel text:
// "threadIdx.x", "S", "V".
std::string_view parallelTag(ParallelType p);
// The extent of a thread or block dimension in kernel text: "blockDim.x", "gridDim.y".
std::string_view parallelExtentName(ParallelType p);

// ---- The other enumerations

// "g", "s", "l", "t", "sym".
std::string_view memoryTag(MemoryType m);
// "i", "r", "b", "?".
std::string_view iterTag(IterType t);
// As in kernel names and profiles: "none", "pointwise", "inner_persistent".
std::string_view schedulerName(SchedulerType s);

std::ostream& operator<<(std::ostream& os, DataType t);
std::ostream& operator<<(std::ostream& os, ParallelType p);
std::ostream& operator<<(std::ostream& os, MemoryType m);
std::ostream& operator<<(std::ostream& os, IterType t);
std::ostream& operator<<(std::ostream& os, LoadStoreOpType t);
std::ostream& operator<<(std::ostream& os, CacheOp c);
std::ostream& operator<<(std::ostream& os, IdMappingMode m);
std::ostream& operator<<(std::ostream& os, SchedulerType s);
std::ostream& operator<<(std::ostream& os, SwizzleType s);

} // namespace nvfuser
