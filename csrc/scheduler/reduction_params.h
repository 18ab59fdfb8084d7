// Parameters of the reduction and persistent schedulers.
//
// The dimensions of the reference (the first reduction) are merged into one iteration axis I and one
// reduction axis R, and split as
//   inner reduction     I: [BIDx, TIDy]                     R: [BIDy, TIDx, serial, unroll, vector]
//   inner persistent    I: [BIDx, TIDy]                     R: [BIDy (cluster), TIDx, batch, vector]
//   outer reduction     I: [BIDx, TIDx, vector]             R: [BIDy, TIDy, serial, unroll]
#pragma once

#include <scheduler/params.h>

#include <utility>

namespace nvfuser {

class ReductionParams : public HeuristicParams {
 public:
  explicit ReductionParams(SchedulerType type = SchedulerType::Reduction) : HeuristicParams(type) {
    tag = "Reduction heuristics";
  }

  // The innermost dimension in memory is reduced.
  bool fastest_dim = false;
  // The row stays on chip between the reductions and their consumers; otherwise it is read again.
  bool persistent_kernel = false;
  bool project_persistent_buffers = false;
  bool schedule_3d = false;
  bool flip_grid = false;

  // Inner reduction: the reduced axis is the fast one.
  bool cross_block_inner_reduction = false; // over threads
  bool cross_grid_inner_reduction = false;
  // Elements of a vector, or of the unrolled innermost loop if not vectorized.
  int64_t unroll_factor_inner_reduction = 1;
  int64_t unroll_factor_top_of_vectorization = 1;
  bool vectorize_inner_reduction = false;
  bool split_grid_dim_inner_reduction = false;
  bool pad_inner_reduction_to_warp = false;
  // Vectors that a thread holds of a persistent row.
  int64_t batches_per_block_inner_reduction = 1;
  ParallelType block_dim_inner_reduction = ParallelType::Serial;
  ParallelType grid_dim_inner_reduction = ParallelType::Serial;

  bool multiple_reds_per_blk = false;
  int64_t unroll_factor_iter_dom = 1;
  bool vectorize_iter_dom = false;
  bool split_grid_dim_iter_dom_inner = false;
  bool split_grid_dim_iter_dom_outer = false;
  ParallelType block_dim_iter_dom = ParallelType::Serial;
  ParallelType grid_dim_iter_dom = ParallelType::Serial;

  bool cross_block_outer_reduction = false;
  bool cross_grid_outer_reduction = false;
  int64_t batches_per_block_outer_reduction = 1;
  int64_t unroll_factor_outer_reduction = 1;
  ParallelType block_dim_outer_reduction = ParallelType::Serial;
  ParallelType grid_dim_outer_reduction = ParallelType::Serial;

  bool compute_persistent_buffer_with_first_consumer = false;
  bool static_bdimx = false;
  bool static_bdimy = false;
  bool combined_inner_outer = false;
  bool tidx_for_outer_reduction = false;
  bool pad_outer_reduction_to_warp = false;
  bool combined_split_grid_inner_dim = false;
  int64_t vectorization_factor_outer = 1;
  int64_t vectorization_factor_tmp_gmem_write = 1;
  ParallelType block_dim_inner_reduction_extra = ParallelType::Serial;

  // Blocks of a thread-block cluster that share a persistent row; 1 for none.
  int64_t cluster_size = 1;
  // Elements of one access, by position among inputs and then outputs; 1: element by element.
  std::vector<int64_t> vector_widths;
  // Extents of the reference's reduced dimensions that a persistent kernel is made for.
  std::vector<int64_t> reduced_extents;

  std::string toString() const override;
  size_t hash() const override;
  bool sameAs(const HeuristicParams& other) const override;
  std::unique_ptr<HeuristicParams> clone() const override {
    return std::make_unique<ReductionParams>(*this);
  }

  // Calls f(name, field) for every field above; printing, comparing, hashing and the Python class
  // follow from this list.
  template <class Self, class F>
  static void forEachField(Self& self, F f) {
#define NVF_FIELD(name) f(#name, self.name);
    NVF_FIELD(fastest_dim)
    NVF_FIELD(persistent_kernel)
    NVF_FIELD(project_persistent_buffers)
    NVF_FIELD(schedule_3d)
    NVF_FIELD(flip_grid)
    NVF_FIELD(cross_block_inner_reduction)
    NVF_FIELD(cross_grid_inner_reduction)
    NVF_FIELD(unroll_factor_inner_reduction)
    NVF_FIELD(unroll_factor_top_of_vectorization)
    NVF_FIELD(vectorize_inner_reduction)
    NVF_FIELD(split_grid_dim_inner_reduction)
    NVF_FIELD(pad_inner_reduction_to_warp)
    NVF_FIELD(batches_per_block_inner_reduction)
    NVF_FIELD(block_dim_inner_reduction)
    NVF_FIELD(grid_dim_inner_reduction)
    NVF_FIELD(multiple_reds_per_blk)
    NVF_FIELD(unroll_factor_iter_dom)
    NVF_FIELD(vectorize_iter_dom)
    NVF_FIELD(split_grid_dim_iter_dom_inner)
    NVF_FIELD(split_grid_dim_iter_dom_outer)
    NVF_FIELD(block_dim_iter_dom)
    NVF_FIELD(grid_dim_iter_dom)
    NVF_FIELD(cross_block_outer_reduction)
    NVF_FIELD(cross_grid_outer_reduction)
    NVF_FIELD(batches_per_block_outer_reduction)
    NVF_FIELD(unroll_factor_outer_reduction)
    NVF_FIELD(block_dim_outer_reduction)
    NVF_FIELD(grid_dim_outer_reduction)
    NVF_FIELD(compute_persistent_buffer_with_first_consumer)
    NVF_FIELD(static_bdimx)
    NVF_FIELD(static_bdimy)
    NVF_FIELD(combined_inner_outer)
    NVF_FIELD(tidx_for_outer_reduction)
    NVF_FIELD(pad_outer_reduction_to_warp)
    NVF_FIELD(combined_split_grid_inner_dim)
    NVF_FIELD(vectorization_factor_outer)
    NVF_FIELD(vectorization_factor_tmp_gmem_write)
    NVF_FIELD(block_dim_inner_reduction_extra)
    NVF_FIELD(cluster_size)
    NVF_FIELD(vector_widths)
    NVF_FIELD(reduced_extents)
#undef NVF_FIELD
  }
};

} // namespace nvfuser
