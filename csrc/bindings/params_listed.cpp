// SPDX-License-Identifier: BSD-3-Clause
// Parameters that are lists of fields: of the schedulers but for the greedy one.
#include <bindings/bindings.h>

#include <base/error.h>
#include <scheduler/matmul_params.h>
#include <scheduler/pointwise_params.h>
#include <scheduler/reduction_params.h>
#include <scheduler/transpose_params.h>

namespace nvfuser::python {

namespace {

// `own`: a field that schedulers set and users see by _fields() alone.
template <class P>
auto bindListed(py::module_& m, const char* name, const char* doc, std::string_view own = "") {
  py::class_<P, HeuristicParams, std::shared_ptr<P>> params(m, name, doc);
  params.def(py::init<>()).def("__repr__", &P::toString);
  P::fields([&](const char* field, auto member) {
    if (field != own) {
      params.def_readwrite(field, member);
    }
  });
  return params;
}

// What follows from other parameters can be read; another value is refused.
template <class Get>
void bindFollowing(
    py::class_<ReductionParams, HeuristicParams, std::shared_ptr<ReductionParams>>& c,
    const char* name, Get get) {
  using Value = decltype(get(std::declval<const ReductionParams&>()));
  c.def_property(name, get, [name, get](const ReductionParams& params, Value value) {
    NVF_CHECK(value == get(params), "ReductionParams.", name,
              " is read by no schedule: it follows from the other parameters, and is ",
              fieldText(get(params)), " with these, not ", fieldText(value), ".");
  });
}

// A small struct whose constructor takes all its fields.
template <class T, class... Fields>
py::class_<T> bindStruct(py::module_& m, const char* name, const char* doc,
                         Fields T::*... members) {
  py::class_<T> type(m, name, doc);
  std::vector<const char*> names;
  T::fields([&](const char* field, auto member) {
    names.push_back(field);
    type.def_readwrite(field, member);
  });
  NVF_ERROR(names.size() == sizeof...(Fields), name, " has other fields");
  [&]<size_t... I>(std::index_sequence<I...>) {
    type.def(py::init([members...](Fields... values) {
               T made;
               ((made.*members = values), ...);
               return made;
             }),
             py::arg(names[I])...);
  }(std::index_sequence_for<Fields...>());
  const std::string text = name;
  type.def("__repr__", [text](const T& value) { return text + "(" + fieldsText(value) + ")"; });
  if constexpr (std::equality_comparable<T>) {
    type.def(
        "__eq__",
        [](const T& a, const py::object& b) { return py::isinstance<T>(b) && a == b.cast<T&>(); },
        py::is_operator());
    type.attr("__hash__") = py::none();
  }
  return type;
}

void bindMacros(py::module_& m) {
  py::class_<MmaMacro>(m, "MmaMacro", "A tensor core instruction; made by MmaMacroEncode.")
      .def_property("arch", &MmaMacro::arch, &MmaMacro::setArch)
      .def_property("m", &MmaMacro::m, &MmaMacro::setM)
      .def_property("n", &MmaMacro::n, &MmaMacro::setN)
      .def_property("k", &MmaMacro::k, &MmaMacro::setK)
      .def("__repr__", [](const MmaMacro& macro) { return fieldText(macro); })
      .def(
          "__eq__",
          [](const MmaMacro& a, const py::object& b) {
            return py::isinstance<MmaMacro>(b) && a == b.cast<MmaMacro&>();
          },
          py::is_operator())
      .def("__hash__", [](const MmaMacro& macro) { return static_cast<uint64_t>(macro); });
  using E = MmaMacroEncode;
  bindStruct(m, "MmaMacroEncode", "The parts of a tensor core instruction.", &E::arch, &E::m, &E::n,
             &E::k)
      .def("mma_macro", &E::macro, "RuntimeError: there is no such instruction.");
}

void bindMatmulEnums(py::module_& m) {
  py::enum_<MmaMacroArch>(m, "MmaMacroArch", "Generation of tensor cores.")
      .value("no_mma", MmaMacroArch::NoMma)
      .value("volta", MmaMacroArch::Volta)
      .value("turing", MmaMacroArch::Turing)
      .value("ampere", MmaMacroArch::Ampere)
      .value("hopper", MmaMacroArch::Hopper)
      .value("blackwell_1cta", MmaMacroArch::Blackwell1CTA)
      .value("blackwell_2cta", MmaMacroArch::Blackwell2CTA);
  py::enum_<MatmulTilingStrategy>(m, "MatmulTilingStrategy", "What a block computes.")
      .value("one_tile_per_cta", MatmulTilingStrategy::OneTilePerCTA)
      .value("distribute_tiles_across_sms", MatmulTilingStrategy::DistributeTilesAcrossSMs)
      .value("distribute_stages_across_sms", MatmulTilingStrategy::DistributeStagesAcrossSMs);
  py::enum_<MatmulBufferingLoopLevel>(m, "MatmulBufferingLoopLevel", "What is buffered at once.")
      .value("cta_tiles", MatmulBufferingLoopLevel::CTATiles)
      .value("warp_tiles", MatmulBufferingLoopLevel::WarpTiles);
  py::enum_<MatmulCircularBufferingStrategy>(m, "MatmulCircularBufferingStrategy",
                                             "Which threads load the buffers.")
      .value("pipelined", MatmulCircularBufferingStrategy::Pipelined)
      .value("warp_specialized", MatmulCircularBufferingStrategy::WarpSpecialized);
  py::enum_<MatmulTileRasterizationOrder>(m, "MatmulTileRasterizationOrder",
                                          "Order of the blocks' tiles.")
      .value("column_major", MatmulTileRasterizationOrder::ColumnMajor)
      .value("row_major", MatmulTileRasterizationOrder::RowMajor);
}

} // namespace

void bindListedParams(py::module_& m) {
  bindMatmulEnums(m);
  bindMacros(m);
  using T = GemmTile;
  bindStruct(m, "GemmTile", "Extents of a tile.", &T::m, &T::n, &T::k);
  using O = MatMulTileOptions;
  bindStruct(m, "MatMulTileOptions", "Tiles of a block and of a warp.", &O::cta_tile,
             &O::warp_tile);
  using B = CircularBufferOptions;
  bindStruct(m, "CircularBufferOptions", "Buffers that loads run ahead into.",
             &B::circular_buffer_smem_write, &B::circular_buffer_smem_read,
             &B::smem_circular_buffer_stage, &B::smem_circular_buffer_prefetch_gap);
  using V = SupportedVectorization;
  bindStruct(m, "SupportedVectorization", "Widths of accesses.", &V::a, &V::b, &V::epilogue);
  using C = ClusterDims;
  bindStruct(m, "ClusterDims", "Blocks of a cluster.", &C::m, &C::n);
  auto reduction = bindListed<ReductionParams>(
      m, "ReductionParams", "Parameters of the reduction and persistent schedulers.");
  ReductionParams::following(
      [&](const char* name, auto get) { bindFollowing(reduction, name, get); });
  bindListed<PointwiseParams>(m, "PointwiseParams", "Parameters of the pointwise scheduler.",
                              "not_vectorized");
  bindListed<TransposeParams>(m, "TransposeParams", "Parameters of the transpose scheduler.",
                              "not_vectorized");
  bindListed<MatmulParams>(m, "MatmulParams", "Parameters of the matmul scheduler.");
}

} // namespace nvfuser::python
