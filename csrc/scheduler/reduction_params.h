// SPDX-License-Identifier: BSD-3-Clause
// Parameters of the reduction and persistent schedulers.
//
// The dimensions of the reference (the first reduction) are merged into one iteration axis I and
// one reduction axis R, and split as
//   inner reduction     I: [BIDx, TIDy]           R: [BIDy, TIDx, serial, unroll, vector]
//   inner persistent    I: [BIDx, TIDy]           R: [BIDy (cluster), TIDx, batch, vector]
//   with subrows        I: [BIDx]                 R: [BIDy (cluster), TIDy] [TIDx, batch, vector]
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
  // What is computed of a persistent row is computed again from its inputs where it is read.
  bool project_persistent_buffers = false;
  // What a few instructions make of a persistent row stays in registers like all else.
  bool keep_computed = false;

  // Inner reduction: blocks share a row, a thread's vectors have so many elements, and it reads so
  // many vectors at once, or holds so many of a persistent row.
  bool cross_grid_inner_reduction = false;
  int64_t unroll_factor_inner_reduction = 1;
  int64_t unroll_factor_top_of_vectorization = 1;
  int64_t batches_per_block_inner_reduction = 1;

  // Outer reduction: elements of a thread's vectors, blocks share a column, and rows that a thread
  // reads at once. Inner reduction: unroll_factor_iter_dom neighbouring rows are one thread's,
  // which loads what these share once.
  int64_t unroll_factor_iter_dom = 1;
  bool cross_grid_outer_reduction = false;
  int64_t unroll_factor_outer_reduction = 1;

  // Columns are summed by the persistent row groups that reduce the rows.
  bool combined_inner_outer = false;

  // Persistent row groups of an inner persistent kernel: clusters (or blocks) that take one row
  // after the other, loading the next one meanwhile; 0: each has one row.
  int64_t row_groups = 0;
  // What all rows share, such as weights, is copied to shared memory while the row is loaded: it
  // takes no registers and is there when the statistics are.
  bool stage_shared_inputs = false;
  // Or it is loaded into registers before the statistics are waited for.
  bool load_shared_inputs_early = false;
  // Rows that no operand of the first reductions is computed of are loaded before these are waited
  // for, and not when their result is there.
  bool load_rows_early = false;
  // Row groups: what is read of parts of a row (slices, tensors that lack some of its dimensions)
  // is loaded into registers while the row before it is in use, as whole rows are.
  bool load_parts_ahead = false;
  // Rows of a persistent kernel lie in shared memory, and what is computed of them is computed
  // again where it is read: few registers are needed, so that several blocks with long rows fit on
  // an SM.
  bool stage_rows = false;
  // One thread of the machine runs a block's threads in loops (MachineModel::threads_in_loops).
  // Only sums of columns are kept on chip: rows are read again wherever they are needed, as they
  // are in the core's cache. Blocks that share columns take neighbouring rows.
  bool threads_in_loops = false;
  // Rows begin at the vector that their first element lies in, which begins before it if the length
  // of a row is no multiple of a vector's: what lies in memory as the rows do is accessed by
  // vectors, but for the elements at both ends of a row.
  bool align_rows = false;
  // Rows of a row group that are on their way or in use. Of 2 the next one is in registers;
  // more lie in shared memory.
  int64_t circular_buffer_stages = 2;
  // What differs by row comes into shared memory by bulk copies: a block's part of a row, or what
  // it reads of one at a time where rows are not persistent, is one piece of memory (CpAsyncBulk).
  bool bulk_loads = false;
  // A warp of its own loads the rows of row groups, as far ahead as circular_buffer_stages allow.
  bool warp_specialized = false;
  // Row groups of clusters reduce the next row while the blocks combine what they have of this
  // one.
  bool prefetch_reduction = false;
  // Blocks of a thread-block cluster that share a persistent row or column, or what is looked up
  // for a row; 1 for none.
  int64_t cluster_size = 1;
  // Parts of a row are reduced by themselves as well: bdimy and cluster_size share out these, bdimx
  // the elements of each.
  bool has_subrows = false;
  // Elements of one access, by position among inputs and then outputs; 1: element by element.
  std::vector<int64_t> vector_widths;
  // Positions (as above) of tensors that are contiguous along what is not reduced, though rows are:
  // they pass through a tile of all rows of a block in shared memory (tile_exchange.h), and their
  // vectors run across the rows. Of persistent rows that no blocks share.
  std::vector<int64_t> exchanged;
  // Extents of the reference's reduced dimensions that a persistent kernel is made for.
  std::vector<int64_t> reduced_extents;
  // And those of its kept dimensions within the row (keptWithinRow in assumed_extents.h), such as
  // the channels of images. Empty: any.
  std::vector<int64_t> extents_within_row;
  // Or the kernel takes rows and columns of any length. A thread of a row has
  // batches_per_block_inner_reduction (or, at a time, unroll_factor_top_of_vectorization) vectors,
  // and the launch chooses as many threads and blocks of a cluster as the row needs, up to bdimx
  // and cluster_size, and how many short rows share a block, up to bdimy. Of columns it chooses how
  // many blocks share them, so that there are gdimy in all. Where threads run in loops nothing is
  // left to the launch: rows have as many vectors as all threads' batches at most.
  bool any_extent = false;
  // Of a row of any length: the threads that share it have equal numbers of vectors, so that it
  // fills all batches but so many of its last block, which the launch checks. 0: not known.
  int64_t open_batches = 0;
  // Of a row of any length: each warp has a piece of it, so that the vectors of a thread are a
  // warp's width apart, which is constant. All pieces but the last are whole: one predicate for
  // each warp.
  bool warp_pieces = false;

  std::vector<int64_t> ownExtents() const override {
    return reduced_extents;
  }

  // Names of the contract (the Python API) that nothing reads: they follow from the fields
  // above, or say what no schedule does. `visit` gets the name and a function of the parameters.
  template <class Visitor>
  static void following(Visitor&& visit) {
    using P = ReductionParams;
    using T = ParallelType;
    const auto never = [](const P&) { return false; };
    const auto once = [](const P&) { return int64_t{1}; };
    const auto serial = [](const P&) { return T::Serial; };
    visit("schedule_3d", never);
    visit("flip_grid", never);
    visit("cross_block_inner_reduction",
          [](const P& p) { return p.fastest_dim && p.lparams.bdimx() > 1; });
    visit("vectorize_inner_reduction",
          [](const P& p) { return p.unroll_factor_inner_reduction > 1; });
    visit("split_grid_dim_inner_reduction",
          [](const P& p) { return p.cross_grid_inner_reduction; });
    visit("pad_inner_reduction_to_warp", never);
    visit("block_dim_inner_reduction",
          [](const P& p) { return p.fastest_dim ? T::TIDx : T::Serial; });
    visit("grid_dim_inner_reduction",
          [](const P& p) { return p.cross_grid_inner_reduction ? T::BIDy : T::Serial; });
    visit("multiple_reds_per_blk",
          [](const P& p) { return p.fastest_dim && p.lparams.bdimy() > 1; });
    visit("vectorize_iter_dom", [](const P& p) { return p.unroll_factor_iter_dom > 1; });
    visit("split_grid_dim_iter_dom_inner", never);
    visit("split_grid_dim_iter_dom_outer", never);
    visit("block_dim_iter_dom", [](const P& p) {
      const T own = p.fastest_dim ? T::TIDy : T::TIDx;
      return p.lparams.hasDim(own) ? own : T::Serial;
    });
    visit("grid_dim_iter_dom",
          [](const P& p) { return p.lparams.hasDim(T::TIDx) ? T::BIDx : T::Serial; });
    visit("cross_block_outer_reduction",
          [](const P& p) { return !p.fastest_dim && p.lparams.bdimy() > 1; });
    visit("batches_per_block_outer_reduction", [](const P& p) { return p.rowsOfThread(); });
    visit("block_dim_outer_reduction", [](const P& p) {
      return !p.fastest_dim && p.lparams.hasDim(T::TIDy) ? T::TIDy : T::Serial;
    });
    visit("grid_dim_outer_reduction",
          [](const P& p) { return p.cross_grid_outer_reduction ? T::BIDy : T::Serial; });
    visit("compute_persistent_buffer_with_first_consumer", never);
    visit("static_bdimx", never);
    visit("static_bdimy", never);
    visit("tidx_for_outer_reduction", never);
    visit("pad_outer_reduction_to_warp", never);
    visit("combined_split_grid_inner_dim", never);
    visit("vectorization_factor_outer", once);
    visit("vectorization_factor_tmp_gmem_write", once);
    visit("block_dim_inner_reduction_extra", serial);
  }
  // Of persistent columns.
  int64_t rowsOfThread() const;
  // Of the reduced_extents.
  int64_t reducedElements() const;
  // All threads of a persistent row have as many of its elements.
  bool fillsThreads() const;

  // In two lines of their own what kind of kernel it is, then what differs from the defaults.
  std::string toString() const override;

  template <class Visitor>
  static void fields(Visitor&& visit) {
    using P = ReductionParams;
    visit("fastest_dim", &P::fastest_dim);
    visit("persistent_kernel", &P::persistent_kernel);
    visit("project_persistent_buffers", &P::project_persistent_buffers);
    visit("keep_computed", &P::keep_computed);
    visit("cross_grid_inner_reduction", &P::cross_grid_inner_reduction);
    visit("unroll_factor_inner_reduction", &P::unroll_factor_inner_reduction);
    visit("unroll_factor_top_of_vectorization", &P::unroll_factor_top_of_vectorization);
    visit("batches_per_block_inner_reduction", &P::batches_per_block_inner_reduction);
    visit("unroll_factor_iter_dom", &P::unroll_factor_iter_dom);
    visit("cross_grid_outer_reduction", &P::cross_grid_outer_reduction);
    visit("unroll_factor_outer_reduction", &P::unroll_factor_outer_reduction);
    visit("combined_inner_outer", &P::combined_inner_outer);
    visit("row_groups", &P::row_groups);
    visit("stage_shared_inputs", &P::stage_shared_inputs);
    visit("load_shared_inputs_early", &P::load_shared_inputs_early);
    visit("load_rows_early", &P::load_rows_early);
    visit("load_parts_ahead", &P::load_parts_ahead);
    visit("stage_rows", &P::stage_rows);
    visit("threads_in_loops", &P::threads_in_loops);
    visit("align_rows", &P::align_rows);
    visit("circular_buffer_stages", &P::circular_buffer_stages);
    visit("bulk_loads", &P::bulk_loads);
    visit("warp_specialized", &P::warp_specialized);
    visit("prefetch_reduction", &P::prefetch_reduction);
    visit("cluster_size", &P::cluster_size);
    visit("has_subrows", &P::has_subrows);
    visit("vector_widths", &P::vector_widths);
    visit("exchanged", &P::exchanged);
    visit("reduced_extents", &P::reduced_extents);
    visit("extents_within_row", &P::extents_within_row);
    visit("any_extent", &P::any_extent);
    visit("open_batches", &P::open_batches);
    visit("warp_pieces", &P::warp_pieces);
  }
};

} // namespace nvfuser
