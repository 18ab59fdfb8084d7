// Heuristic parameters: what a scheduler decides for given shapes. They print, compare and hash, can be
// edited by hand, and are all that a schedule depends on besides the fusion, so that equal parameters
// mean an equal kernel.
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
  // Launch extents that the schedule is made for; they may be larger than what is launched in the end.
  LaunchParams lparams;
  CompileParams cparams;
  std::string tag;

  virtual std::string toString() const;
  virtual size_t hash() const;
  virtual bool sameAs(const HeuristicParams& other) const;
  virtual std::unique_ptr<HeuristicParams> clone() const {
    return std::make_unique<HeuristicParams>(*this);
  }
  bool operator==(const HeuristicParams& other) const {
    return sameAs(other);
  }
};

// The reference's dimensions are merged into one (break_point 0) or two (those before and after the break
// point: outer and inner), and bound as
//   1-D  [BIDx, TIDx, Unswitch, unroll_factor_inner, vector]
//   2-D  [BIDy, BIDx, TIDy (if split_block), TIDx, Unswitch, unroll_factor_outer, unroll_factor_inner, vector]
class PointwiseParams : public HeuristicParams {
 public:
  PointwiseParams() : HeuristicParams(SchedulerType::PointWise) {
    tag = "Pointwise heuristics";
  }

  // Number of outer dimensions, in the order of the loops; 0: all are inner.
  int64_t break_point = 0;
  // Threads along the outer dimension too (lparams.bdimy()).
  bool split_block = false;
  // More blocks than gridDim.y can hold: each block walks over several.
  bool split_grid_y_dim = false;
  // BIDx runs over the outer dimension and BIDy over the inner one.
  bool flip_grid_binding = false;
  // Elements of a vector; 1 for none.
  int64_t vectorization_factor = 1;
  int64_t unroll_factor_inner = 1;
  int64_t unroll_factor_outer = 1;
  // Positions, among inputs and then outputs, of the tensors that are accessed element by element although
  // their layout would allow vectors: misaligned, or an extent is not divisible at the shapes at hand.
  std::vector<int64_t> not_vectorized;

  // Calls f(name, field) for every field above.
  template <class Self, class F>
  static void forEachField(Self& self, F& f) {
    f("break_point", self.break_point);
    f("split_block", self.split_block);
    f("split_grid_y_dim", self.split_grid_y_dim);
    f("flip_grid_binding", self.flip_grid_binding);
    f("vectorization_factor", self.vectorization_factor);
    f("unroll_factor_inner", self.unroll_factor_inner);
    f("unroll_factor_outer", self.unroll_factor_outer);
    f("not_vectorized", self.not_vectorized);
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
};

// Blocks compute tiles of tile_2 x tile_1 elements: dimension 1 is the innermost one of the first group of tensors,
// dimension 2 that of the second. See transpose.cpp for the loops.
class TransposeParams : public HeuristicParams {
 public:
  TransposeParams() : HeuristicParams(SchedulerType::Transpose) {
    tag = "Transpose heuristics";
  }

  // Number of axes, counted from the innermost in the group's memory, that are merged into the tile's dimension.
  int64_t merged_1 = 1;
  int64_t merged_2 = 1;
  // Extents of a tile and widths of the groups' vectors in elements, and threads of a block: powers of two.
  int64_t tile_1 = 32;
  int64_t tile_2 = 32;
  int64_t vectorization_1 = 1;
  int64_t vectorization_2 = 1;
  int64_t threads = 128;
  // Consecutive blocks lie along dimension 2 rather than 1.
  bool blocks_along_2 = false;
  // As in PointwiseParams.
  std::vector<int64_t> not_vectorized;

  // Calls f(name, field) for every field above.
  template <class Self, class F>
  static void forEachField(Self& self, F& f) {
    f("merged_1", self.merged_1);
    f("merged_2", self.merged_2);
    f("tile_1", self.tile_1);
    f("tile_2", self.tile_2);
    f("vectorization_1", self.vectorization_1);
    f("vectorization_2", self.vectorization_2);
    f("threads", self.threads);
    f("blocks_along_2", self.blocks_along_2);
    f("not_vectorized", self.not_vectorized);
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
