// SPDX-License-Identifier: BSD-3-Clause
// Heuristic parameters: what a scheduler decides for given shapes. They print, compare and hash,
// can be edited by hand, and are all that a schedule depends on besides the fusion, so that equal
// parameters mean an equal kernel.
#pragma once

#include <runtime/executor_params.h>
#include <type.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace nvfuser {

class HeuristicParams {
 public:
  explicit HeuristicParams(SchedulerType type) : scheduler_type(type) {}
  virtual ~HeuristicParams() = default;

  const SchedulerType scheduler_type;
  // Launch extents that the schedule is made for; they may be larger than what is launched in the
  // end.
  LaunchParams lparams;
  CompileParams cparams;
  std::string tag;
  // L2 is asked to give up what is read last: see cache_policy.h.
  bool evict_inputs_last = false;
  // Results go past the caches of the host: see cache_policy.h.
  bool stream_outputs = false;

  // What parameters of every scheduler have beside lparams and cparams, see param_fields.h.
  template <class Visitor>
  static void sharedFields(Visitor&& visit) {
    visit("evict_inputs_last", &HeuristicParams::evict_inputs_last);
    visit("stream_outputs", &HeuristicParams::stream_outputs);
  }

  virtual std::string toString() const;
  virtual size_t hash() const;
  virtual bool sameAs(const HeuristicParams& other) const;
  virtual std::unique_ptr<HeuristicParams> clone() const {
    return std::make_unique<HeuristicParams>(*this);
  }
  // Extents that a kernel with these parameters is made for alone; empty if it takes others.
  virtual std::vector<int64_t> ownExtents() const {
    return {};
  }
  // Gives up what a kernel need not have to be right: one element after the other, no copies ahead.
  virtual void makePlain() {}
  bool operator==(const HeuristicParams& other) const {
    return sameAs(other);
  }

 protected:
  // A line for each shared field that is not as usual.
  std::string sharedText() const;
};

// The reference's dimensions are merged into one (break_point 0) or two (those before and after the
// break point: outer and inner), and bound as
//   1-D  [BIDx, TIDx, Unswitch, unroll_factor_inner, vector]
//   2-D  [BIDy, BIDx, TIDy (if split_block), TIDx, Unswitch, unroll_factor_outer,
//   unroll_factor_inner, vector]
class PointwiseParams : public HeuristicParams {
 public:
  PointwiseParams() : HeuristicParams(SchedulerType::PointWise) {
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
  int64_t unroll_factor_inner = 1;
  int64_t unroll_factor_outer = 1;
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

  // Every field above, see param_fields.h.
  template <class Visitor>
  static void fields(Visitor&& visit) {
    visit("break_point", &PointwiseParams::break_point);
    visit("split_block", &PointwiseParams::split_block);
    visit("split_grid_y_dim", &PointwiseParams::split_grid_y_dim);
    visit("flip_grid_binding", &PointwiseParams::flip_grid_binding);
    visit("vectorization_factor", &PointwiseParams::vectorization_factor);
    visit("unroll_factor_inner", &PointwiseParams::unroll_factor_inner);
    visit("unroll_factor_outer", &PointwiseParams::unroll_factor_outer);
    visit("not_vectorized", &PointwiseParams::not_vectorized);
    visit("bulk_loads", &PointwiseParams::bulk_loads);
    visit("aligned_inputs", &PointwiseParams::aligned_inputs);
  }

  // Threads along the inner and the outer dimension of a block.
  int64_t blockDimX() const;
  int64_t blockDimY() const;

  std::string toString() const override;
  size_t hash() const override;
  bool sameAs(const HeuristicParams& other) const override;
  std::unique_ptr<HeuristicParams> clone() const override {
    return std::make_unique<PointwiseParams>(*this);
  }
  void makePlain() override {
    vectorization_factor = 1;
    unroll_factor_inner = 1;
    unroll_factor_outer = 1;
    not_vectorized.clear();
    bulk_loads.clear();
    aligned_inputs.clear();
  }
};

// Blocks compute tiles of tile_2 x tile_1 elements: dimension 1 is the innermost one of the first
// group of tensors, dimension 2 that of the second. See transpose.cpp for the loops.
class TransposeParams : public HeuristicParams {
 public:
  TransposeParams() : HeuristicParams(SchedulerType::Transpose) {
    tag = "Transpose heuristics";
  }

  // Number of axes, counted from the innermost in the group's memory, that are merged into the
  // tile's dimension.
  int64_t merged_1 = 1;
  int64_t merged_2 = 1;
  // Extents of a tile and widths of the groups' vectors in elements, and threads of a block: powers
  // of two.
  int64_t tile_1 = 32;
  int64_t tile_2 = 32;
  int64_t vectorization_1 = 1;
  int64_t vectorization_2 = 1;
  int64_t threads = 128;
  // Consecutive blocks lie along dimension 2 rather than 1.
  bool blocks_along_2 = false;
  // One thread of the machine runs a block's threads in loops (MachineModel::threads_in_loops):
  // tiles lie in memory as they are, and nothing waits in registers until all is loaded.
  bool threads_in_loops = false;
  // As in PointwiseParams.
  std::vector<int64_t> not_vectorized;

  // Every field above, see param_fields.h.
  template <class Visitor>
  static void fields(Visitor&& visit) {
    visit("merged_1", &TransposeParams::merged_1);
    visit("merged_2", &TransposeParams::merged_2);
    visit("tile_1", &TransposeParams::tile_1);
    visit("tile_2", &TransposeParams::tile_2);
    visit("vectorization_1", &TransposeParams::vectorization_1);
    visit("vectorization_2", &TransposeParams::vectorization_2);
    visit("threads", &TransposeParams::threads);
    visit("blocks_along_2", &TransposeParams::blocks_along_2);
    visit("threads_in_loops", &TransposeParams::threads_in_loops);
    visit("not_vectorized", &TransposeParams::not_vectorized);
  }

  // Threads along dimension 1, and the rest of them.
  int64_t blockDimX() const;
  int64_t blockDimY() const;
  // Error if the numbers do not fit together.
  void check() const;

  std::string toString() const override;
  size_t hash() const override;
  bool sameAs(const HeuristicParams& other) const override;
  std::unique_ptr<HeuristicParams> clone() const override {
    return std::make_unique<TransposeParams>(*this);
  }
};

} // namespace nvfuser
