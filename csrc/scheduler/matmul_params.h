// SPDX-License-Identifier: BSD-3-Clause
// Parameters of the matmul scheduler, and the tensor core instructions that they choose from.
#pragma once

#include <scheduler/param_fields.h>

#include <ostream>

namespace nvfuser {

enum class MmaMacroArch : uint8_t {
  NoMma,
  Volta,
  Turing,
  Ampere,
  Hopper,
  Blackwell1CTA,
  Blackwell2CTA
};
std::ostream& operator<<(std::ostream& out, MmaMacroArch arch);

// An instruction that exists, or none; or what becomes one while its parts are set.
class MmaMacro {
 public:
  MmaMacro() = default;
  MmaMacroArch arch() const {
    return arch_;
  }
  int64_t m() const {
    return m_;
  }
  int64_t n() const {
    return n_;
  }
  int64_t k() const {
    return k_;
  }
  void setArch(MmaMacroArch arch) {
    arch_ = arch;
  }
  void setM(uint16_t m) {
    m_ = m;
  }
  void setN(uint16_t n) {
    n_ = n;
  }
  void setK(uint16_t k) {
    k_ = k;
  }
  bool operator==(const MmaMacro&) const = default;
  explicit operator uint64_t() const {
    return static_cast<uint64_t>(arch_) << 48 | static_cast<uint64_t>(m_) << 32 |
           static_cast<uint64_t>(n_) << 16 | static_cast<uint64_t>(k_);
  }

 private:
  friend struct MmaMacroEncode;
  MmaMacroArch arch_ = MmaMacroArch::NoMma;
  uint16_t m_ = 1;
  uint16_t n_ = 1;
  uint16_t k_ = 1;
};
std::ostream& operator<<(std::ostream& out, const MmaMacro& macro);

// The parts of a macro, in any combination.
struct MmaMacroEncode {
  MmaMacroArch arch = MmaMacroArch::NoMma;
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;

  // Error: there is no such instruction.
  MmaMacro macro() const;

  template <class Visitor>
  static void fields(Visitor&& visit) {
    visit("arch", &MmaMacroEncode::arch);
    visit("m", &MmaMacroEncode::m);
    visit("n", &MmaMacroEncode::n);
    visit("k", &MmaMacroEncode::k);
  }
};

// Extents of a tile, in elements.
struct GemmTile {
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;
  bool operator==(const GemmTile&) const = default;

  template <class Visitor>
  static void fields(Visitor&& visit) {
    visit("m", &GemmTile::m);
    visit("n", &GemmTile::n);
    visit("k", &GemmTile::k);
  }
};

struct MatMulTileOptions {
  GemmTile cta_tile{128, 128, 32};
  GemmTile warp_tile{64, 64, 32};
  bool operator==(const MatMulTileOptions&) const = default;

  template <class Visitor>
  static void fields(Visitor&& visit) {
    visit("cta_tile", &MatMulTileOptions::cta_tile);
    visit("warp_tile", &MatMulTileOptions::warp_tile);
  }
};

struct CircularBufferOptions {
  bool circular_buffer_smem_write = false;
  bool circular_buffer_smem_read = false;
  int64_t smem_circular_buffer_stage = 2;
  int64_t smem_circular_buffer_prefetch_gap = 1;
  bool operator==(const CircularBufferOptions&) const = default;

  template <class Visitor>
  static void fields(Visitor&& visit) {
    using P = CircularBufferOptions;
    visit("circular_buffer_smem_write", &P::circular_buffer_smem_write);
    visit("circular_buffer_smem_read", &P::circular_buffer_smem_read);
    visit("smem_circular_buffer_stage", &P::smem_circular_buffer_stage);
    visit("smem_circular_buffer_prefetch_gap", &P::smem_circular_buffer_prefetch_gap);
  }
};

// Widths of accesses to the operands and the result, in elements.
struct SupportedVectorization {
  int64_t a = 1;
  int64_t b = 1;
  int64_t epilogue = 1;
  bool operator==(const SupportedVectorization&) const = default;

  template <class Visitor>
  static void fields(Visitor&& visit) {
    visit("a", &SupportedVectorization::a);
    visit("b", &SupportedVectorization::b);
    visit("epilogue", &SupportedVectorization::epilogue);
  }
};

// Blocks of a cluster along the rows and columns of the result.
struct ClusterDims {
  int64_t m = 1;
  int64_t n = 1;
  bool operator==(const ClusterDims&) const = default;

  template <class Visitor>
  static void fields(Visitor&& visit) {
    visit("m", &ClusterDims::m);
    visit("n", &ClusterDims::n);
  }
};

enum class MatmulTilingStrategy : uint8_t {
  OneTilePerCTA,
  DistributeTilesAcrossSMs,
  DistributeStagesAcrossSMs
};
enum class MatmulBufferingLoopLevel : uint8_t { CTATiles, WarpTiles };
enum class MatmulCircularBufferingStrategy : uint8_t { Pipelined, WarpSpecialized };
enum class MatmulTileRasterizationOrder : uint8_t { ColumnMajor, RowMajor };
std::ostream& operator<<(std::ostream& out, MatmulTilingStrategy strategy);
std::ostream& operator<<(std::ostream& out, MatmulBufferingLoopLevel level);
std::ostream& operator<<(std::ostream& out, MatmulCircularBufferingStrategy strategy);
std::ostream& operator<<(std::ostream& out, MatmulTileRasterizationOrder order);

class MatmulParams : public ListedParams<MatmulParams> {
 public:
  static constexpr const char* kTitle = "Matmul Parameters";

  MatmulParams() : ListedParams(SchedulerType::Matmul) {
    tag = "Matmul heuristics";
  }

  MatMulTileOptions tile_sizes;
  CircularBufferOptions circular_buffer_options;
  SupportedVectorization supported_vec_size;
  bool async_gmem_load_operands = false;
  std::pair<int64_t, int64_t> grid_traversal_factor{1, 1};
  bool use_smem_epilogue = false;
  bool use_ldst_matrix = true;
  bool promote_prologue_smem_reuse = false;
  int64_t splitk_factor = 1;
  MatmulTilingStrategy tiling_strategy = MatmulTilingStrategy::OneTilePerCTA;
  MatmulBufferingLoopLevel buffering_loop_level = MatmulBufferingLoopLevel::CTATiles;
  MatmulCircularBufferingStrategy circular_buffering_strategy =
      MatmulCircularBufferingStrategy::Pipelined;
  MatmulTileRasterizationOrder cta_order = MatmulTileRasterizationOrder::RowMajor;
  ClusterDims cluster_dims;
  MmaMacro mma_macro;

  template <class Visitor>
  static void fields(Visitor&& visit) {
    using P = MatmulParams;
    visit("tile_sizes", &P::tile_sizes);
    visit("circular_buffer_options", &P::circular_buffer_options);
    visit("supported_vec_size", &P::supported_vec_size);
    visit("async_gmem_load_operands", &P::async_gmem_load_operands);
    visit("grid_traversal_factor", &P::grid_traversal_factor);
    visit("use_smem_epilogue", &P::use_smem_epilogue);
    visit("use_ldst_matrix", &P::use_ldst_matrix);
    visit("promote_prologue_smem_reuse", &P::promote_prologue_smem_reuse);
    visit("splitk_factor", &P::splitk_factor);
    visit("tiling_strategy", &P::tiling_strategy);
    visit("buffering_loop_level", &P::buffering_loop_level);
    visit("circular_buffering_strategy", &P::circular_buffering_strategy);
    visit("cta_order", &P::cta_order);
    visit("cluster_dims", &P::cluster_dims);
    visit("mma_macro", &P::mma_macro);
  }
};

} // namespace nvfuser
