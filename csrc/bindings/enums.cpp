// SPDX-License-Identifier: BSD-3-Clause
// Enumerations.
#include <bindings/bindings.h>

namespace nvfuser::python {

void bindEnums(py::module_& m) {
  py::enum_<DataType>(m, "DataType", "Element type of tensors and scalars.")
      .value("Double", DataType::Double)
      .value("Float", DataType::Float)
      .value("Half", DataType::Half)
      .value("Int", DataType::Int)
      .value("Int32", DataType::Int32)
      .value("UInt64", DataType::UInt64)
      .value("Index", DataType::Index)
      .value("Bool", DataType::Bool)
      .value("BFloat16", DataType::BFloat16)
      .value("Float8_e4m3fn", DataType::Float8_e4m3fn)
      .value("Float8_e5m2", DataType::Float8_e5m2)
      .value("Float8_e8m0fnu", DataType::Float8_e8m0fnu)
      .value("Float4_e2m1fn", DataType::Float4_e2m1fn)
      .value("Float4_e2m1fn_x2", DataType::Float4_e2m1fn_x2)
      .value("ComplexFloat", DataType::ComplexFloat)
      .value("ComplexDouble", DataType::ComplexDouble)
      .value("Null", DataType::Null);

  py::enum_<ParallelType>(m, "ParallelType", "What a loop axis is bound to.")
      .value("mesh_x", ParallelType::DIDx)
      .value("mesh_y", ParallelType::DIDy)
      .value("mesh_z", ParallelType::DIDz)
      .value("grid_x", ParallelType::BIDx)
      .value("grid_y", ParallelType::BIDy)
      .value("grid_z", ParallelType::BIDz)
      .value("block_x", ParallelType::TIDx)
      .value("block_y", ParallelType::TIDy)
      .value("block_z", ParallelType::TIDz)
      .value("mma", ParallelType::Mma)
      .value("serial", ParallelType::Serial)
      .value("tma", ParallelType::Bulk)
      .value("unroll", ParallelType::Unroll)
      .value("unswitch", ParallelType::Unswitch)
      .value("vectorize", ParallelType::Vectorize)
      .value("stream", ParallelType::Stream);

  py::enum_<SchedulerType>(m, "SchedulerType", "Automatic schedulers.")
      .value("none", SchedulerType::None)
      .value("no_op", SchedulerType::NoOp)
      .value("pointwise", SchedulerType::PointWise)
      .value("matmul", SchedulerType::Matmul)
      .value("reduction", SchedulerType::Reduction)
      .value("inner_persistent", SchedulerType::InnerPersistent)
      .value("inner_outer_persistent", SchedulerType::InnerOuterPersistent)
      .value("outer_persistent", SchedulerType::OuterPersistent)
      .value("transpose", SchedulerType::Transpose)
      .value("expr_eval", SchedulerType::ExprEval)
      .value("resize", SchedulerType::Resize);

  py::enum_<LoadStoreOpType>(m, "LoadStoreOpType", "How a copy moves data.")
      .value("set", LoadStoreOpType::Set)
      .value("load_matrix", LoadStoreOpType::LdMatrix)
      .value("cp_async", LoadStoreOpType::CpAsync)
      .value("tma", LoadStoreOpType::CpAsyncBulkTensorTile);

  py::enum_<MemoryType>(m, "MemoryType", "Where a tensor lives.")
      .value("tensor", MemoryType::Tensor)
      .value("local", MemoryType::Local)
      .value("shared", MemoryType::Shared)
      .value("global", MemoryType::Global)
      .value("symmetric", MemoryType::Symmetric);

  py::enum_<CacheOp>(m, "CacheOp", "Cache policy of loads.")
      .value("unspecified", CacheOp::Unspecified)
      .value("all_levels", CacheOp::AllLevels)
      .value("streaming", CacheOp::Streaming)
      .value("global", CacheOp::Global);

  py::enum_<IdMappingMode>(m, "IdMappingMode", "Kinds of equivalence of iteration domains.")
      .value("exact", IdMappingMode::Exact)
      .value("almost_exact", IdMappingMode::AlmostExact)
      .value("broadcast", IdMappingMode::Broadcast)
      .value("permissive", IdMappingMode::Permissive)
      .value("loop", IdMappingMode::Loop);
}

} // namespace nvfuser::python
