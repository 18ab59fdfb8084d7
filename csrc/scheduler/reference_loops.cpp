// SPDX-License-Identifier: BSD-3-Clause
// See reference_loops.h.
#include <scheduler/reference_loops.h>

#include <base/error.h>
#include <base/integer_math.h>
#include <ir/builder.h>
#include <scheduler/reduction.h>
#include <scheduler/row_groups.h>

#include <algorithm>
#include <limits>
#include <tuple>

namespace nvfuser {

IterDomain* ReferenceLoops::splitInner(IterDomain*& id, Val* factor) {
  auto [outer, inner] = IterDomain::split(id, factor, true);
  id = outer;
  return inner;
}

IterDomain* ReferenceLoops::splitInner(IterDomain*& id, int64_t factor) {
  return splitInner(id, constant(id, factor));
}

// [factor, rest]: the first is returned, `id` becomes the rest.
IterDomain* ReferenceLoops::splitOuter(IterDomain*& id, Val* factor) {
  auto [outer, inner] = IterDomain::split(id, factor, false);
  id = inner;
  return outer;
}

IterDomain* ReferenceLoops::splitOuter(IterDomain*& id, int64_t factor) {
  return splitOuter(id, constant(id, factor));
}

Val* ReferenceLoops::constant(IterDomain* id, int64_t value) {
  return IrBuilder::createIn<Val>(id->container(), value, DataType::Index);
}

void ReferenceLoops::place(IterDomain* id, ParallelType type) {
  if (id != nullptr) {
    id->parallelize(type);
    order_.push_back(id);
  }
}

IterDomain* ReferenceLoops::mergeAll(std::span<IterDomain* const> ids) {
  IterDomain* out = nullptr;
  for (IterDomain* id : ids) {
    out = out == nullptr ? id : IterDomain::merge(out, id);
  }
  return out;
}

IterDomain* ReferenceLoops::mergeReduced(std::vector<IterDomain*> ids) const {
  const size_t run = std::min(analysis_.longestRunAlongRows(), ids.size());
  if (run > 1 && run < ids.size()) {
    const auto first = ids.end() - static_cast<std::ptrdiff_t>(run);
    IterDomain* merged = mergeAll({first, ids.end()});
    ids.erase(first, ids.end());
    ids.push_back(merged);
  }
  return mergeAll(ids);
}

void ReferenceLoops::schedule(TensorView* reference,
                              const std::function<DimKind(const IterDomain*)>& kind_of,
                              const std::function<void()>& at_tiles) {
  order_.clear();
  trivial_.clear();
  rows_of_tile_ = nullptr;
  rows_of_thread_ = nullptr;
  std::vector<IterDomain*> kept;
  std::vector<IterDomain*> reduced;
  std::vector<IterDomain*> of_thread;
  std::vector<IterDomain*> of_row;
  for (IterDomain* id : reference->getLoopDomain()) {
    const DimKind kind = kind_of(id);
    (id->isBroadcast() && !id->isReduction() ? trivial_
     : kind == DimKind::Short                ? of_thread
     : kind == DimKind::Subrows              ? of_row
     : kind == DimKind::AlongRow             ? reduced
                                             : kept)
        .push_back(id);
  }
  analysis_.orderAsLoops(kept);
  analysis_.orderAsLoops(reduced);
  if (params_.fastest_dim && params_.unroll_factor_iter_dom > 1) {
    NVF_CHECK(!params_.persistent_kernel && !params_.align_rows && !params_.bulk_loads &&
                  of_thread.empty() && !kept.empty(),
              "unroll_factor_iter_dom: of rows (fastest_dim) only if there are several, without "
              "persistent_kernel, align_rows and bulk_loads");
    rows_of_thread_ = splitInner(kept.back(), params_.unroll_factor_iter_dom);
  }
  short_ = mergeAll(of_thread);
  subrows_ = mergeAll(of_row);
  if (!params_.exchanged.empty() && params_.lparams.bdimy() > 1) {
    splitRowsOfTiles(kept);
  }
  IterDomain* rows = mergeAll(kept);
  IterDomain* row = mergeReduced(reduced);
  Val* length = row->extent();
  if (params_.align_rows && rows != nullptr) {
    NVF_CHECK(params_.fastest_dim && !params_.stage_rows && !params_.combined_inner_outer &&
                  params_.row_groups == 0 && !params_.load_shared_inputs_early &&
                  !params_.load_rows_early && !params_.bulk_loads,
              "align_rows: only for rows (fastest_dim) without stage_rows, row_groups, "
              "sums of columns, load_shared_inputs_early, load_rows_early and bulk_loads");
    NVF_CHECK(!params_.stage_shared_inputs || params_.cluster_size > 1,
              "align_rows: stage_shared_inputs only for rows that several blocks share");
    std::tie(rows, row) =
        IterDomain::align(rows, row, row->extent(), params_.unroll_factor_inner_reduction);
  }
  if (params_.any_extent && params_.fastest_dim && !params_.threads_in_loops) {
    chooseAtLaunch(rows, row, length);
  }
  if (params_.combined_inner_outer) {
    NVF_CHECK(!analysis_.partials.empty(), "combined_inner_outer: there are no sums of columns");
    // As the partial sums do.
    Val* count = analysis_.partials.front()->getLogicalDomain().front()->extent();
    placeRowGroups(rows, count->isConst() ? constant(rows, count->intValue()) : count);
  } else if (params_.row_groups > 0 && rows != nullptr) {
    placeRowGroups(rows, constant(rows, params_.row_groups));
  } else if (params_.fastest_dim && rows != nullptr) {
    placeRows(rows);
  }
  if (!params_.exchanged.empty()) {
    checkExchange(rows);
    std::vector<IterDomain*> tiled = order_;
    tiled.push_back(row);
    tiled.insert(tiled.end(), trivial_.begin(), trivial_.end());
    reference->domain()->setLoopDomain(tiled);
    at_tiles();
  }
  if (params_.fastest_dim) {
    scheduleInner(row);
  } else {
    scheduleOuter(rows, row);
  }
  reference->domain()->setLoopDomain(order_);
}

// Persistent row groups: group g takes rows g, g + groups, ..., or neighbouring ones. A block has
// several rows of its group at a time, which are neighbours if their number is known.
void ReferenceLoops::placeRowGroups(IterDomain* rows, Val* count) {
  const bool at_launch = rows_of_block_ != nullptr;
  IterDomain* rows_of_block = at_launch ? nullptr : splitRowsOfBlock(rows);
  IterDomain* groups = params_.threads_in_loops ? splitOuter(rows, count) : splitInner(rows, count);
  if (at_launch) {
    rows_of_block = splitRowsOfBlock(rows);
  }
  place(groups, ParallelType::BIDx);
  // The rows of a block are around the loop over rows: what runs ahead of an iteration is then not
  // in a loop over threads. A tile has all rows of a block.
  const bool has_tiles = !params_.exchanged.empty();
  if (!has_tiles) {
    place(rows_of_block, ParallelType::TIDy);
  }
  axes_.has_row_groups = true;
  axes_.rows = static_cast<int64_t>(order_.size());
  place(rows);
  axes_.tile = static_cast<int64_t>(order_.size());
  if (has_tiles) {
    place(rows_of_block, ParallelType::TIDy);
  }
}

void ReferenceLoops::placeRows(IterDomain* rows) {
  IterDomain* in_block = splitRowsOfBlock(rows);
  place(rows, ParallelType::BIDx);
  axes_.tile = static_cast<int64_t>(order_.size());
  place(in_block, ParallelType::TIDy);
}

void ReferenceLoops::checkExchange(const IterDomain* rows) const {
  NVF_CHECK(params_.fastest_dim && params_.persistent_kernel && params_.cluster_size == 1 &&
                !params_.align_rows && !params_.any_extent && !params_.bulk_loads &&
                !params_.threads_in_loops && analysis_.num_sets == 1,
            "exchanged: only for persistent rows (fastest_dim) that no blocks share, without "
            "align_rows, any_extent, bulk_loads and threads_in_loops");
  const int64_t rows_of_block = params_.lparams.bdimy();
  NVF_CHECK(rows != nullptr && rows_of_block > 1 && rows_of_block == powerOfTwoFrom(rows_of_block),
            "exchanged: a block has several rows (bdimy), a power of two");
  for (const int64_t position : params_.exchanged) {
    const auto i = static_cast<size_t>(position);
    NVF_CHECK(i >= params_.vector_widths.size() || rows_of_block % params_.vector_widths[i] == 0,
              "exchanged: vectors are as long as a block has rows (bdimy) at most");
  }
}

void ReferenceLoops::scheduleInner(IterDomain* row) {
  axes_.outer = static_cast<int64_t>(order_.size());
  const int64_t vector = params_.unroll_factor_inner_reduction;
  IterDomain* vectors = vector > 1 ? splitInner(row, vector) : nullptr;
  placeSubrows();
  if (params_.warp_pieces) {
    placePieces(row);
  } else if (params_.persistent_kernel) {
    placePersistentRow(row);
  } else {
    const int64_t unroll = params_.unroll_factor_top_of_vectorization;
    IterDomain* threads = splitThreadsOfRow(row);
    IterDomain* unrolled = unroll > 1 ? splitInner(row, unroll) : nullptr;
    IterDomain* blocks = params_.cross_grid_inner_reduction
                             ? splitOuter(row, params_.lparams.gdimy())
                             : splitBlocksOfRow(row);
    placeSharingBlocks(blocks);
    if (params_.bulk_loads) { // an iteration for the whole block
      place(row);
      axes_.bulk = static_cast<int64_t>(order_.size());
      place(threads, ParallelType::TIDx);
    } else {
      place(threads, ParallelType::TIDx);
      place(row);
    }
    axes_.batch = static_cast<int64_t>(order_.size());
    place(rows_of_thread_);
    place(unrolled);
  }
  placeVectors(vectors);
}

// Blocks of a cluster and threads of a block share them out.
void ReferenceLoops::placeSubrows() {
  NVF_CHECK(params_.has_subrows == (subrows_ != nullptr),
            "has_subrows: if parts of rows are reduced as well as rows, and only then");
  if (subrows_ == nullptr) {
    return;
  }
  NVF_CHECK(params_.persistent_kernel && params_.row_groups == 0 && !params_.combined_inner_outer &&
                !params_.any_extent && !params_.align_rows && !params_.bulk_loads &&
                !params_.threads_in_loops,
            "has_subrows: only for persistent rows of one length without row_groups, "
            "combined_inner_outer, align_rows, bulk_loads and threads_in_loops");
  if (params_.cluster_size > 1) {
    placeSharingBlocks(splitOuter(subrows_, params_.cluster_size));
  }
  place(subrows_, ParallelType::TIDy);
}

// Threads take neighbouring vectors. The batch is the outer part and covers the row exactly; where
// the launch chooses numbers of threads and blocks it has one length, and what is left when each
// thread has its batch is one iteration: the launch checks that. Blocks have whole batches if these
// are known to come out, else equal parts of the row, as aligned rows are never a whole number of
// blocks.
void ReferenceLoops::placePersistentRow(IterDomain* row) {
  const bool has_equal_parts = params_.any_extent ? params_.open_batches == 0 : params_.align_rows;
  IterDomain* blocks = has_equal_parts ? splitBlocksOfRow(row) : nullptr;
  IterDomain* threads = splitThreadsOfRow(row);
  IterDomain* batches =
      params_.any_extent ? splitInner(row, params_.batches_per_block_inner_reduction) : nullptr;
  blocks = has_equal_parts ? blocks : splitBlocksOfRow(row);
  placeSharingBlocks(blocks);
  axes_.bulk = static_cast<int64_t>(order_.size());
  if (params_.any_extent) {
    fusion_->assumeExtent(row->extent(), 1);
    place(row);
  }
  place(threads, ParallelType::TIDx);
  axes_.batch = static_cast<int64_t>(order_.size());
  place(params_.any_extent ? batches : row);
}

// Pieces of neighbouring vectors, one for each warp of all blocks.
void ReferenceLoops::placePieces(IterDomain* row) {
  NVF_CHECK(warps_of_row_ != nullptr && params_.persistent_kernel && params_.open_batches == 0 &&
                !params_.align_rows,
            "warp_pieces: only for persistent rows of any length (any_extent), without "
            "open_batches, align_rows and threads_in_loops");
  IterDomain* lanes = splitInner(row, kWarp);
  IterDomain* batches = splitInner(row, params_.batches_per_block_inner_reduction);
  IterDomain* warps = splitInner(row, warps_of_row_);
  placeSharingBlocks(splitBlocksOfRow(row));
  axes_.bulk = static_cast<int64_t>(order_.size());
  fusion_->assumeExtent(row->extent(), 1);
  place(row, ParallelType::Unswitch);
  place(IterDomain::merge(warps, lanes), ParallelType::TIDx);
  axes_.batch = static_cast<int64_t>(order_.size());
  place(batches);
}

IterDomain* ReferenceLoops::splitThreadsOfRow(IterDomain*& row) {
  return threads_of_row_ != nullptr ? splitInner(row, threads_of_row_)
                                    : splitInner(row, params_.lparams.bdimx());
}

IterDomain* ReferenceLoops::splitBlocksOfRow(IterDomain*& row) {
  return params_.cluster_size <= 1 || subrows_ != nullptr ? nullptr
         : blocks_of_row_ != nullptr                      ? splitOuter(row, blocks_of_row_)
                                                          : splitOuter(row, params_.cluster_size);
}

// What passes through tiles and is the same for several rows has the tiles' rows as a dimension of
// its own if these lie along dimensions that it has.
void ReferenceLoops::splitRowsOfTiles(std::vector<IterDomain*>& kept) {
  const size_t count = analysis_.dimsOfTiles(fusion_, params_.exchanged).size();
  if (count == 0 || count >= kept.size()) {
    return;
  }
  const auto first = kept.end() - static_cast<std::ptrdiff_t>(count);
  IterDomain* along = mergeAll({first, kept.end()});
  rows_of_tile_ = splitInner(along, params_.lparams.bdimy());
  kept.erase(first, kept.end());
  kept.push_back(along);
}

// Rows, or row groups, of a block.
IterDomain* ReferenceLoops::splitRowsOfBlock(IterDomain*& rows) {
  if (rows_of_tile_ != nullptr) {
    return rows_of_tile_;
  }
  const int64_t count = params_.lparams.bdimy();
  return count <= 1 || params_.has_subrows ? nullptr
         : rows_of_block_ != nullptr       ? splitInner(rows, rows_of_block_)
                                           : splitInner(rows, count);
}

// Numbers of threads and blocks with a batch of vectors for each thread, and of rows that
// fill a block: small ones, or as large as they get where row groups share them.
void ReferenceLoops::chooseAtLaunch(const IterDomain* rows, const IterDomain* row, Val* length) {
  using B = IrBuilder;
  if (threads_of_row_ != nullptr) {
    return; // for the first set of reductions
  }
  NVF_CHECK(params_.row_groups == 0 && !params_.bulk_loads,
            "any_extent: without row_groups and bulk_loads");
  const LaunchParams& l = params_.lparams;
  const int64_t batch = params_.persistent_kernel ? params_.batches_per_block_inner_reduction
                                                  : params_.unroll_factor_top_of_vectorization;
  const bool is_shared = params_.cluster_size > 1;
  Val* vectors = B::ceilDivExpr(row->extent(), B::index(params_.unroll_factor_inner_reduction));
  Val* all_vectors = vectors;
  if (is_shared) {
    Val* blocks = B::ceilDivExpr(vectors, B::index(batch * l.bdimx()));
    blocks = params_.combined_inner_outer || !params_.align_rows
                 ? powerOfTwo(blocks, RowGroups::kFewestBlocks, params_.cluster_size)
                 : B::maxExpr(blocks, B::index(RowGroups::kFewestBlocks));
    blocks_of_row_ = fusion_->chooseAtLaunch(blocks, params_.cluster_size);
    vectors = B::ceilDivExpr(vectors, blocks_of_row_);
  }
  const bool needs_warps = is_shared || params_.combined_inner_outer;
  Val* wanted = B::ceilDivExpr(vectors, B::index(batch));
  if (!params_.persistent_kernel) { // they take several iterations
    wanted = B::minExpr(wanted, B::index(l.bdimx()));
  }
  if (params_.open_batches > 0) {
    Val* batches = is_shared ? B::mulExpr(blocks_of_row_, B::index(batch)) : B::index(batch);
    threads_of_row_ = fusion_->chooseAtLaunch(B::ceilDivExpr(all_vectors, batches), l.bdimx());
    Val* filled =
        B::mulExpr(B::mulExpr(B::subExpr(batches, B::index(params_.open_batches)), threads_of_row_),
                   B::index(params_.unroll_factor_inner_reduction));
    fusion_->chooseAtLaunch(B::subExpr(length, filled), std::numeric_limits<int64_t>::max());
    wanted = threads_of_row_;
  }
  Val* threads = nullptr;
  if (params_.warp_pieces) {
    Val* pieces = B::ceilDivExpr(all_vectors, B::index(batch * kWarp));
    pieces = is_shared ? B::ceilDivExpr(pieces, blocks_of_row_) : pieces;
    warps_of_row_ = fusion_->chooseAtLaunch(pieces, l.bdimx() / kWarp);
    threads = B::mulExpr(warps_of_row_, B::index(kWarp));
  } else {
    threads = fusion_->chooseAtLaunch(wholeWarps(wanted, needs_warps), l.bdimx(),
                                      /*by_warps=*/true);
  }
  if (params_.open_batches > 0) {
    fusion_->padThreads(threads_of_row_, threads);
  } else {
    threads_of_row_ = threads;
  }
  fusion_->setMostThreads(l.bdimx());
  if (l.bdimy() > 1) {
    const int64_t most =
        params_.combined_inner_outer ? std::max(l.bdimx(), l.bdimy() * kWarp) : kShortRowsThreads;
    Val* at_once = B::divExpr(B::index(most), threads);
    if (params_.combined_inner_outer) { // few rows, of which a group takes several
      Val* iterations = B::mulExpr(analysis_.partials.front()->getLogicalDomain().front()->extent(),
                                   B::index(RowGroups::kFewestRows));
      at_once = B::minExpr(at_once, B::divExpr(rows->extent(), iterations));
    }
    rows_of_block_ = fusion_->chooseAtLaunch(B::maxExpr(at_once, B::index(1)), l.bdimy());
    fusion_->setMostThreads(std::max(l.bdimx(), most));
  }
}

// At least `v`, a power of two between both.
Val* ReferenceLoops::powerOfTwo(Val* v, int64_t fewest, int64_t most) {
  using B = IrBuilder;
  Val* out = B::index(most);
  for (int64_t few = most / 2; few >= fewest; few /= 2) {
    out = B::whereExpr(B::gtExpr(v, B::index(few)), out, B::index(few));
  }
  return out;
}

// At least so many threads: a power of two up to 32, or a multiple of 32.
Val* ReferenceLoops::wholeWarps(Val* threads, bool needs_warps) {
  using B = IrBuilder;
  Val* warps = B::mulExpr(B::ceilDivExpr(threads, B::index(kWarp)), B::index(kWarp));
  return needs_warps ? warps
                     : B::whereExpr(B::gtExpr(threads, B::index(kWarp)), warps,
                                    powerOfTwo(threads, kFewestThreadsOfRow, kWarp));
}

void ReferenceLoops::scheduleOuter(IterDomain* columns, IterDomain* row) {
  NVF_CHECK(columns != nullptr, "A reduction of all dimensions is an inner one: set fastest_dim");
  const LaunchParams& l = params_.lparams;
  const int64_t vector = params_.unroll_factor_iter_dom;
  IterDomain* vectors = vector > 1 ? splitInner(columns, vector) : nullptr;
  IterDomain* threads_x = splitInner(columns, l.bdimx());
  IterDomain* threads_y = l.bdimy() > 1 ? splitInner(row, l.bdimy()) : nullptr;
  const int64_t unroll = params_.unroll_factor_outer_reduction;
  IterDomain* unrolled = unroll > 1 ? splitInner(row, unroll) : nullptr;
  // Blocks interleave: together they go through memory from one end to the other.
  const int64_t sharing = params_.cross_grid_outer_reduction ? l.gdimy() : params_.cluster_size;
  IterDomain* blocks = nullptr;
  if (sharing > 1) {
    blocks = params_.any_extent         ? splitInner(row, blocksForColumns(columns, row))
             : params_.threads_in_loops ? splitOuter(row, sharing)
                                        : splitInner(row, sharing);
  }
  place(columns, ParallelType::BIDx);
  place(threads_x, ParallelType::TIDx);
  axes_.outer = static_cast<int64_t>(order_.size());
  placeSharingBlocks(blocks);
  place(threads_y, ParallelType::TIDy);
  if (params_.persistent_kernel) {
    // What is left of the rows is the batch in registers.
    axes_.batch = static_cast<int64_t>(order_.size());
    place(row);
  } else {
    place(row);
    axes_.batch = static_cast<int64_t>(order_.size());
  }
  place(unrolled);
  placeVectors(vectors);
}

// As many blocks for the same columns as fill the device (gdimy), but some iterations for each.
Val* ReferenceLoops::blocksForColumns(const IterDomain* columns, const IterDomain* iterations) {
  using B = IrBuilder;
  NVF_CHECK(!params_.persistent_kernel, "any_extent: columns that stay on chip have one length");
  if (blocks_of_row_ == nullptr) {
    const int64_t most = params_.lparams.gdimy();
    Val* room = B::divExpr(B::index(most), columns->extent());
    Val* blocks =
        B::minExpr(room, B::ceilDivExpr(iterations->extent(), B::index(kFewestIterations)));
    blocks_of_row_ = fusion_->chooseAtLaunch(B::maxExpr(blocks, B::index(1)), most);
  }
  return blocks_of_row_;
}

// Blocks of the grid or of a cluster that share a row or column.
void ReferenceLoops::placeSharingBlocks(IterDomain* blocks) {
  if (blocks != nullptr && params_.cluster_size > 1) {
    blocks->parallelizeCluster(ParallelType::BIDy);
    order_.push_back(blocks);
  } else {
    place(blocks, ParallelType::BIDy);
  }
}

// What a thread has all of is in its innermost loops, around vectors.
//
// Dimensions of size 1 are inside of all loops: tensors that were squeezed lack them, and what
// such a tensor is made of is inlined as deep as the axes of both agree.
void ReferenceLoops::placeVectors(IterDomain* vectors) {
  axes_.within_thread = short_ != nullptr ? static_cast<int64_t>(order_.size()) : -1;
  place(short_);
  axes_.trivial = static_cast<int64_t>(order_.size());
  axes_.num_trivial = static_cast<int64_t>(trivial_.size());
  for (IterDomain* id : trivial_) {
    place(id);
  }
  axes_.vector = vectors != nullptr ? static_cast<int64_t>(order_.size()) : -1;
  place(vectors);
}

} // namespace nvfuser
