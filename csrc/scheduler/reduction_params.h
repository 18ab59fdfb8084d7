// Parameters of the reduction and persistent schedulers.
//
// The dimensions of the reference (the first reduction) are merged into one iteration axis I and
// one reduction axis R, and split as
//   inner reduction     I: [BIDx, TIDy]           R: [BIDy, TIDx, serial, unroll, vector]
//   inner persistent    I: [BIDx, TIDy]           R: [BIDy (cluster), TIDx, batch, vector]
//   outer reduction     I: [BIDx, TIDx, vector]   R: [BIDy, TIDy, serial, unroll]
//   outer persistent    I: [BIDx, TIDx, vector]   R: [BIDy (cluster or all), TIDy, batch]
#pragma once

#include <scheduler/param_fields.h>

#include <string>
#include <vector>

namespace nvfuser {

class ReductionParams : public ListedParams<ReductionParams> {
 public:
  static constexpr const char* kTitle = "Reduction Parameters";

  explicit ReductionParams(SchedulerType type = SchedulerType::Reduction) : ListedParams(type) {
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
  // Rows that a thread holds of persistent columns.
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

  // Clusters (or blocks) that walk over the rows of an inner persistent kernel, one after the
  // other, loading the next row meanwhile; 0: each has one row.
  int64_t walkers = 0;
  // What all rows share, such as weights, is copied to shared memory while the row is loaded: it
  // takes no registers and is there when the statistics are.
  bool stage_shared_inputs = false;
  // Or it is loaded into registers before the statistics are waited for.
  bool load_shared_inputs_early = false;
  // Rows of a persistent kernel lie in shared memory, and what is computed of them is computed
  // again where it is read: few registers are needed, so that several blocks with long rows fit on
  // an SM.
  bool stage_rows = false;
  // Rows begin at the vector that their first element lies in, which begins before it if the length
  // of a row is no multiple of a vector's: what lies in memory as the rows do is accessed by
  // vectors, but for the elements at both ends of a row.
  bool align_rows = false;
  // Rows that are on their way or in use while walkers walk. Of 2 the next one is in registers;
  // more lie in shared memory.
  int64_t circular_buffer_stages = 2;
  // What differs by row comes into shared memory by bulk copies: a block's part of a row, or what
  // it reads of one at a time where rows are not persistent, is one piece of memory (CpAsyncBulk).
  bool bulk_loads = false;
  // A warp of its own loads the rows of walkers, as far ahead as circular_buffer_stages allow.
  bool warp_specialized = false;
  // Walkers of clusters reduce the next row while the blocks combine what they have of this one.
  bool reduce_ahead = false;
  // Blocks of a thread-block cluster that share a persistent row or column; 1 for none.
  int64_t cluster_size = 1;
  // Elements of one access, by position among inputs and then outputs; 1: element by element.
  std::vector<int64_t> vector_widths;
  // Extents of the reference's reduced dimensions that a persistent kernel is made for.
  std::vector<int64_t> reduced_extents;
  // Or the kernel takes rows and columns of any length. A thread of a row has
  // batches_per_block_inner_reduction (or, at a time, unroll_factor_top_of_vectorization) vectors,
  // and the launch chooses as many threads and blocks of a cluster as the row needs, up to bdimx
  // and cluster_size, and how many short rows share a block, up to bdimy. Of columns it chooses how
  // many blocks share them, so that there are gdimy in all.
  bool any_extent = false;
  // Of a row of any length: the threads that share it have equal numbers of vectors, so that it
  // fills all batches but so many of its last block, which the launch checks. 0: not known.
  int64_t open_batches = 0;

  std::vector<int64_t> ownExtents() const override {
    return reduced_extents;
  }

  // In two lines of their own what kind of kernel it is, then what differs from the defaults.
  std::string toString() const override;

  template <class Visitor>
  static void fields(Visitor&& visit) {
    using P = ReductionParams;
    visit("fastest_dim", &P::fastest_dim);
    visit("persistent_kernel", &P::persistent_kernel);
    visit("project_persistent_buffers", &P::project_persistent_buffers);
    visit("schedule_3d", &P::schedule_3d);
    visit("flip_grid", &P::flip_grid);
    visit("cross_block_inner_reduction", &P::cross_block_inner_reduction);
    visit("cross_grid_inner_reduction", &P::cross_grid_inner_reduction);
    visit("unroll_factor_inner_reduction", &P::unroll_factor_inner_reduction);
    visit("unroll_factor_top_of_vectorization", &P::unroll_factor_top_of_vectorization);
    visit("vectorize_inner_reduction", &P::vectorize_inner_reduction);
    visit("split_grid_dim_inner_reduction", &P::split_grid_dim_inner_reduction);
    visit("pad_inner_reduction_to_warp", &P::pad_inner_reduction_to_warp);
    visit("batches_per_block_inner_reduction", &P::batches_per_block_inner_reduction);
    visit("block_dim_inner_reduction", &P::block_dim_inner_reduction);
    visit("grid_dim_inner_reduction", &P::grid_dim_inner_reduction);
    visit("multiple_reds_per_blk", &P::multiple_reds_per_blk);
    visit("unroll_factor_iter_dom", &P::unroll_factor_iter_dom);
    visit("vectorize_iter_dom", &P::vectorize_iter_dom);
    visit("split_grid_dim_iter_dom_inner", &P::split_grid_dim_iter_dom_inner);
    visit("split_grid_dim_iter_dom_outer", &P::split_grid_dim_iter_dom_outer);
    visit("block_dim_iter_dom", &P::block_dim_iter_dom);
    visit("grid_dim_iter_dom", &P::grid_dim_iter_dom);
    visit("cross_block_outer_reduction", &P::cross_block_outer_reduction);
    visit("cross_grid_outer_reduction", &P::cross_grid_outer_reduction);
    visit("batches_per_block_outer_reduction", &P::batches_per_block_outer_reduction);
    visit("unroll_factor_outer_reduction", &P::unroll_factor_outer_reduction);
    visit("block_dim_outer_reduction", &P::block_dim_outer_reduction);
    visit("grid_dim_outer_reduction", &P::grid_dim_outer_reduction);
    visit("compute_persistent_buffer_with_first_consumer",
          &P::compute_persistent_buffer_with_first_consumer);
    visit("static_bdimx", &P::static_bdimx);
    visit("static_bdimy", &P::static_bdimy);
    visit("combined_inner_outer", &P::combined_inner_outer);
    visit("tidx_for_outer_reduction", &P::tidx_for_outer_reduction);
    visit("pad_outer_reduction_to_warp", &P::pad_outer_reduction_to_warp);
    visit("combined_split_grid_inner_dim", &P::combined_split_grid_inner_dim);
    visit("vectorization_factor_outer", &P::vectorization_factor_outer);
    visit("vectorization_factor_tmp_gmem_write", &P::vectorization_factor_tmp_gmem_write);
    visit("block_dim_inner_reduction_extra", &P::block_dim_inner_reduction_extra);
    visit("walkers", &P::walkers);
    visit("stage_shared_inputs", &P::stage_shared_inputs);
    visit("load_shared_inputs_early", &P::load_shared_inputs_early);
    visit("stage_rows", &P::stage_rows);
    visit("align_rows", &P::align_rows);
    visit("circular_buffer_stages", &P::circular_buffer_stages);
    visit("bulk_loads", &P::bulk_loads);
    visit("warp_specialized", &P::warp_specialized);
    visit("reduce_ahead", &P::reduce_ahead);
    visit("cluster_size", &P::cluster_size);
    visit("vector_widths", &P::vector_widths);
    visit("reduced_extents", &P::reduced_extents);
    visit("any_extent", &P::any_extent);
    visit("open_batches", &P::open_batches);
  }
};

} // namespace nvfuser
