// SPDX-License-Identifier: BSD-3-Clause
// Parameters of the pointwise scheduler (pointwise.h).
#pragma once

#include <scheduler/param_fields.h>

#include <string>
#include <vector>

namespace nvfuser {

// The reference's dimensions are merged into one (break_point 0) or two (those before and after the
// break point: outer and inner), and bound as
//   1-D  [BIDx, TIDx, Unswitch, unroll_factor_inner, vector]
//   2-D  [BIDy, BIDx, TIDy (if split_block), TIDx, Unswitch, unroll_factor_outer,
//   unroll_factor_inner, vector]
class PointwiseParams : public ListedParams<PointwiseParams> {
 public:
  static constexpr const char* kTitle = "Pointwise Parameters";

  PointwiseParams() : ListedParams(SchedulerType::PointWise) {
    tag = "Pointwise heuristics";
  }

  // Number of outer dimensions, in the order of the loops; 0: all are inner.
  int64_t break_point = 0;
  // Threads along the outer dimension too (lparams.bdimy()).
  bool split_block = false;
  // More blocks than gridDim.y can hold: each block has several, one after the other.
  bool split_grid_y_dim = false;
  // BIDx runs over the outer dimension and BIDy over the inner one.
  bool flip_grid_binding = false;
  // Elements of a vector; 1 for none.
  int64_t vectorization_factor = 1;
  // 2-D: rows are scheduled from the vector that their first element is in (Align in
  // ir/domain_exprs.h), as their length is no multiple of one.
  bool align_rows = false;
  int64_t unroll_factor_inner = 1;
  int64_t unroll_factor_outer = 1;
  // Neighbouring threads run along several dimensions, so that they access whole sectors of tensors
  // with different neighbours: tile_columns elements along the innermost loops, and outside of them
  // tile_rows iterations along each of the loops at tile_axes, which are positions in the order of
  // the loops; the first of them lies outermost. Empty: none.
  std::vector<int64_t> tile_axes;
  std::vector<int64_t> tile_rows;
  int64_t tile_columns = 1;
  // Numbers of the accesses (pointwise::TensorAccess) that are element by element although the
  // tensor's layout would allow vectors: misaligned, or an extent is not divisible at the shapes at
  // hand.
  std::vector<int64_t> not_vectorized;
  // Positions of the inputs that come into shared memory by bulk copies: what a block reads of one
  // (of each of its rows) is one piece of memory.
  std::vector<int64_t> bulk_loads;
  // Positions of the inputs that vectors may be loaded of although the loops read them element by
  // element: their addresses and strides allow it (lower/gather_vectors.h).
  std::vector<int64_t> aligned_inputs;

  template <class Visitor>
  static void fields(Visitor&& visit) {
    visit("break_point", &PointwiseParams::break_point);
    visit("split_block", &PointwiseParams::split_block);
    visit("split_grid_y_dim", &PointwiseParams::split_grid_y_dim);
    visit("flip_grid_binding", &PointwiseParams::flip_grid_binding);
    visit("vectorization_factor", &PointwiseParams::vectorization_factor);
    visit("align_rows", &PointwiseParams::align_rows);
    visit("unroll_factor_inner", &PointwiseParams::unroll_factor_inner);
    visit("unroll_factor_outer", &PointwiseParams::unroll_factor_outer);
    visit("tile_axes", &PointwiseParams::tile_axes);
    visit("tile_rows", &PointwiseParams::tile_rows);
    visit("tile_columns", &PointwiseParams::tile_columns);
    visit("not_vectorized", &PointwiseParams::not_vectorized);
    visit("bulk_loads", &PointwiseParams::bulk_loads);
    visit("aligned_inputs", &PointwiseParams::aligned_inputs);
  }

  // Threads along the inner and the outer dimension of a block.
  int64_t blockDimX() const;
  int64_t blockDimY() const;

  // As nvFuser prints them.
  std::string toString() const override;
  void makePlain() override {
    vectorization_factor = 1;
    align_rows = false;
    unroll_factor_inner = 1;
    unroll_factor_outer = 1;
    tile_axes.clear();
    tile_rows.clear();
    tile_columns = 1;
    not_vectorized.clear();
    bulk_loads.clear();
    aligned_inputs.clear();
  }
};

} // namespace nvfuser
