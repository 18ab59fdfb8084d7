// Applying a reduction or normalization schedule.
#include <scheduler/reduction.h>

#include <base/error.h>
#include <id_model/id_model.h>
#include <ir/builder.h>
#include <ir/logical_map.h>
#include <ir/visitor.h>
#include <preseg_passes/column_reductions.h>
#include <scheduler/loop_stages.h>
#include <scheduler/row_groups.h>
#include <scheduler/stage_splitter.h>
#include <scheduler/two_pass.h>
#include <transform/cache.h>
#include <transform/inlining.h>
#include <transform/propagate.h>
#include <transform/replay.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace nvfuser {

namespace {

using Kind = ExprKind;

class ReductionSchedule {
 public:
  ReductionSchedule(Fusion* fusion, const ReductionAnalysis& analysis,
                    const ReductionParams& params)
      : fusion_(fusion),
        analysis_(analysis),
        params_(params),
        splitter_(fusion, analysis, keptOfRows(params)) {}

  void run() {
    assumeExtents();
    splitter_.run();
    stageInSharedMemory();
    separateOutputs();
    findReferences();
    transform();
    moveTrivialAxesInside();
    vectorize();
    inlineAll();
  }

 private:
  static KeptOfRows keptOfRows(const ReductionParams& params) {
    return params.threads_in_loops     ? KeptOfRows::NothingAtAll
           : !params.persistent_kernel ? KeptOfRows::Nothing
           : params.stage_rows ? (hasRowGroups(params) ? KeptOfRows::Shared : KeptOfRows::Nothing)
           : params.project_persistent_buffers ? KeptOfRows::Inputs
                                               : KeptOfRows::All;
  }

  static bool hasRowGroups(const ReductionParams& params) {
    return params.row_groups > 0 || params.combined_inner_outer;
  }

  void assumeExtents() {
    if (!params_.persistent_kernel || params_.any_extent) {
      return;
    }
    size_t next = 0;
    for (const IterDomain* id : analysis_.reference()->getLogicalDomain()) {
      if (!id->isReduction()) {
        continue;
      }
      NVF_CHECK(next < params_.reduced_extents.size(),
                "A persistent schedule needs reduced_extents, one for each reduced dimension");
      Val* extent = id->extent();
      if (!extent->isConst()) {
        fusion_->assumeExtent(extent, params_.reduced_extents[next]);
      }
      ++next;
    }
  }

  // Rows that are loaded more than one iteration ahead pass through shared memory, and what all
  // rows share does if there are no registers to load it early.
  void stageInSharedMemory() {
    const bool has_row_groups = ReductionSchedule::hasRowGroups(params_);
    const bool rows = params_.bulk_loads ||
                      (has_row_groups ? params_.circular_buffer_stages > 2 : params_.stage_rows);
    std::unordered_map<TensorView*, TensorView*> staged_inputs;
    for (const auto& [cache, input] : splitter_.caches) {
      if (!analysis_.hasWholeRows(input)) {
        continue;
      }
      const bool is_row =
          analysis_.differsByRow(input) || (params_.bulk_loads && !analysis_.hasSeveralRows());
      if (auto it = staged_inputs.find(input); it != staged_inputs.end()) {
        staged_[cache] = {it->second, 1};
        continue;
      }
      const int64_t bytes = vectorWidth(positionOf(input)) * dataTypeSizeBits(input->dtype()) / 8;
      if ((is_row ? rows : params_.stage_shared_inputs && !has_row_groups) && bytes >= 4 &&
          (params_.stage_rows ? !isLookedUp(input) : fusion_->liveUses(input).size() == 1)) {
        const bool is_span = is_row && params_.bulk_loads;
        TensorView* staged =
            input->cacheAfter(is_span ? LoadStoreOpType::CpAsyncBulk : LoadStoreOpType::CpAsync,
                              is_row ? CacheOp::Unspecified : CacheOp::AllLevels);
        staged->setMemoryType(MemoryType::Shared);
        const bool is_circular = is_row && (has_row_groups || !params_.persistent_kernel);
        staged_[cache] = {staged, is_circular ? params_.circular_buffer_stages : 1};
        staged_inputs[input] = staged;
      }
    }
  }

  size_t positionOf(const TensorView* input) const {
    const auto& inputs = fusion_->inputs();
    return static_cast<size_t>(std::find(inputs.begin(), inputs.end(), input) - inputs.begin());
  }

  int64_t vectorWidth(size_t position) const {
    return position < params_.vector_widths.size() ? params_.vector_widths[position] : 1;
  }

  // Outputs are computed in registers and copied.
  void separateOutputs() {
    std::unordered_set<Val*> done;
    const std::vector<Val*> outputs = fusion_->outputs();
    const std::unordered_set<const Val*> read = fusion_->outputsWithLiveUses();
    for (size_t i = 0; i < outputs.size(); ++i) {
      auto* out = outputs[i]->as<TensorView>();
      if (out->isFusionInput() || !done.insert(out).second) {
        continue;
      }
      TensorView* stored = out;
      if (read.count(out) != 0) {
        stored = out->cacheFork();
      } else {
        out->cacheBefore();
      }
      stored_.emplace_back(stored, fusion_->inputs().size() + i);
    }
  }

  std::vector<TensorView*> findReductions() const {
    std::vector<TensorView*> reductions;
    for (Expr* e : fusion_->exprs()) {
      if (isReduction(e) && !isPartialReduction(e->output(0)->as<TensorView>())) {
        reductions.push_back(e->output(0)->as<TensorView>());
      }
    }
    return reductions;
  }

  void findReferences() {
    const std::vector<TensorView*> reductions = findReductions();
    if (analysis_.num_sets == 1) {
      references_ = {widestReduction(reductions)};
      return;
    }
    const IdGraph graph = buildGraph(fusion_, IdMappingMode::Permissive);
    const ReductionSets sets(reductions, graph);
    references_ = sets.references();
    for (const TensorView* tv : fusion_->allTvs()) {
      set_of_[tv] = sets.setOf(tv);
    }
  }

  // Each set of reductions has the same schedule in loops of its own.
  void transform() {
    if (references_.size() == 1) {
      scheduleReference(references_.front());
      transformLike(references_.front());
      transformPartlyReached(references_.front());
    } else {
      transformSets();
    }
    for (TensorView* reference : references_) {
      scheduler_utils::parallelizeAllLike(reference);
    }
  }

  // Dimensions that no tensor connected to the reference has all of: what is computed of looked-up
  // elements, or again of inputs that each have a part of the dimensions. Such a tensor got to its
  // dimensions in several ways, each of which led to a part of its loops. It is given the
  // reference's loops by its dimensions, and so is what is broadcast to them.
  void transformPartlyReached(const TensorView* reference) {
    const TensorGraph graph(fusion_);
    std::unordered_set<TensorView*> partly = partlyReached(graph);
    if (partly.empty()) {
      return;
    }
    const auto& order = graph.tensors();
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      for (TensorView* producer : graph.producersOf(*it)) {
        if (partly.count(*it) != 0 && producer->hasBroadcast() && !producer->isFusionInput()) {
          partly.insert(producer);
        }
      }
    }
    const IdGraph dimensions = buildDimensionGraph(fusion_, IdMappingMode::Permissive);
    for (TensorView* tv : order) {
      if (partly.count(tv) == 0) {
        continue;
      }
      IterDomainMap map;
      for (IterDomain* id : reference->getMaybeRootDomain()) {
        for (IterDomain* own : tv->getLogicalDomain()) {
          if (dimensions.same(id, own)) {
            map[id] = own;
          }
        }
      }
      replayAs(tv, reference, std::move(map));
    }
  }

  std::unordered_set<TensorView*> partlyReached(const TensorGraph& graph) const {
    // An axis that was not reached is as it was: most schedules leave none, so look no further.
    const auto has_own_axis = [](const TensorView* tv) {
      const auto& logical = tv->getLogicalDomain();
      const auto& loop = tv->getLoopDomain();
      return !tv->isFusionInput() &&
             std::any_of(loop.begin(), loop.end(), [&](const IterDomain* id) {
               return !id->isBroadcast() &&
                      std::find(logical.begin(), logical.end(), id) != logical.end();
             });
    };
    const auto& tensors = graph.tensors();
    const auto& exprs = fusion_->exprs();
    std::unordered_set<TensorView*> found;
    if (std::none_of(tensors.begin(), tensors.end(), has_own_axis) &&
        std::none_of(exprs.begin(), exprs.end(),
                     [](const Expr* e) { return lookedUpTensor(e) != nullptr; })) {
      return found;
    }
    const auto axes = mapAxes(graph);
    for (TensorView* tv : tensors) {
      bool whole = true;
      for (int64_t i = 0; i < tv->nDims(); ++i) {
        auto it = axes.find(tv);
        whole = whole && (tv->axis(i)->isBroadcast() ||
                          (it != axes.end() && it->second[static_cast<size_t>(i)] >= 0));
      }
      if (!whole && !tv->isFusionInput()) {
        found.insert(tv);
      }
    }
    return found;
  }

  // What has no reduced dimension follows the first set that it is connected to.
  void transformSets() {
    const TensorGraph graph(fusion_);
    std::vector<TensorView*> left = graph.tensors();
    for (size_t set = 0; set < references_.size(); ++set) {
      std::vector<TensorView*> own;
      for (TensorView* tv : left) {
        if (set_of_.at(tv) < 0 || set_of_.at(tv) == static_cast<int>(set)) {
          own.push_back(tv);
        }
      }
      scheduleReference(references_[set]);
      transformLike(references_[set], own);
      std::unordered_set<const TensorView*> reached{references_[set]};
      for (const PropagationStep& step :
           maxInfoSpanningTree(graph, references_[set], {own.begin(), own.end()})) {
        reached.insert(step.to);
      }
      std::erase_if(left, [&](const TensorView* tv) { return reached.count(tv) != 0; });
    }
  }

  // Of which axis of its reference each axis of a tensor is; all references have the same ones.
  std::unordered_map<TensorView*, std::vector<int64_t>> mapAxes(const TensorGraph& graph) const {
    auto axes = mapAxesToReference(graph, references_.front());
    for (size_t set = 1; set < references_.size(); ++set) {
      for (auto& [tv, others] : mapAxesToReference(graph, references_[set])) {
        std::vector<int64_t>& known = axes[tv];
        known.resize(others.size(), -1);
        for (size_t i = 0; i < others.size(); ++i) {
          known[i] = known[i] < 0 ? others[i] : known[i];
        }
      }
    }
    return axes;
  }

  static IterDomain* splitInner(IterDomain*& id, Val* factor) {
    auto [outer, inner] = IterDomain::split(id, factor, true);
    id = outer;
    return inner;
  }
  static IterDomain* splitInner(IterDomain*& id, int64_t factor) {
    return splitInner(id, constant(id, factor));
  }

  // [factor, rest]: the first is returned, `id` becomes the rest.
  static IterDomain* splitOuter(IterDomain*& id, Val* factor) {
    auto [outer, inner] = IterDomain::split(id, factor, false);
    id = inner;
    return outer;
  }
  static IterDomain* splitOuter(IterDomain*& id, int64_t factor) {
    return splitOuter(id, constant(id, factor));
  }

  static Val* constant(IterDomain* id, int64_t value) {
    return IrBuilder::createIn<Val>(id->container(), value, DataType::Index);
  }

  void place(IterDomain* id, ParallelType type = ParallelType::Serial) {
    if (id != nullptr) {
      id->parallelize(type);
      order_.push_back(id);
    }
  }

  static IterDomain* mergeAll(const std::vector<IterDomain*>& ids) {
    IterDomain* out = nullptr;
    for (IterDomain* id : ids) {
      out = out == nullptr ? id : IterDomain::merge(out, id);
    }
    return out;
  }

  void scheduleReference(TensorView* reference) {
    order_.clear();
    trivial_.clear();
    std::vector<IterDomain*> kept;
    std::vector<IterDomain*> reduced;
    for (IterDomain* id : reference->getLoopDomain()) {
      (id->isReduction() ? reduced : id->isBroadcast() ? trivial_ : kept).push_back(id);
    }
    IterDomain* rows = mergeAll(kept);
    IterDomain* row = mergeAll(reduced);
    Val* length = row->extent();
    if (params_.align_rows && rows != nullptr) {
      NVF_CHECK(params_.fastest_dim && !params_.stage_rows && !params_.combined_inner_outer &&
                    params_.row_groups == 0 && !params_.load_shared_inputs_early &&
                    !params_.bulk_loads,
                "align_rows: only for rows (fastest_dim) without stage_rows, row_groups, "
                "sums of columns, load_shared_inputs_early and bulk_loads");
      NVF_CHECK(!params_.stage_shared_inputs || params_.cluster_size > 1,
                "align_rows: stage_shared_inputs only for rows that several blocks share");
      std::tie(rows, row) =
          IterDomain::align(rows, row, row->extent(), params_.unroll_factor_inner_reduction);
    }
    if (params_.any_extent && params_.fastest_dim) {
      chooseAtLaunch(row, length);
    }
    if (params_.combined_inner_outer) {
      NVF_CHECK(!analysis_.partials.empty(), "combined_inner_outer: there are no sums of columns");
      // As the partial sums do.
      Val* count = analysis_.partials.front()->getLogicalDomain().front()->extent();
      placeRowGroups(rows,
                     count->isConst() ? constant(rows, std::get<int64_t>(count->value())) : count);
      rows = nullptr;
    } else if (params_.row_groups > 0 && rows != nullptr) {
      placeRowGroups(rows, constant(rows, params_.row_groups));
      rows = nullptr;
    }
    if (params_.fastest_dim) {
      scheduleInner(rows, row);
    } else {
      scheduleOuter(rows, row);
    }
    reference->domain()->setLoopDomain(order_);
  }

  // Persistent row groups: group g takes rows g, g + groups, ..., or neighbouring ones.
  void placeRowGroups(IterDomain* rows, Val* count) {
    IterDomain* groups =
        params_.threads_in_loops ? splitOuter(rows, count) : splitInner(rows, count);
    IterDomain* groups_of_block = splitRowsOfBlock(groups);
    place(groups, ParallelType::BIDx);
    place(groups_of_block, ParallelType::TIDy);
    place(rows);
    has_row_groups_ = true;
  }

  void scheduleInner(IterDomain* rows, IterDomain* row) {
    if (params_.any_extent && params_.persistent_kernel) {
      scheduleAnyRow(rows, row);
      return;
    }
    const LaunchParams& l = params_.lparams;
    if (rows != nullptr) {
      IterDomain* in_block = splitRowsOfBlock(rows);
      place(rows, ParallelType::BIDx);
      place(in_block, ParallelType::TIDy);
    }
    outer_axes_ = static_cast<int64_t>(order_.size());
    const int64_t vector = params_.unroll_factor_inner_reduction;
    IterDomain* vectors = vector > 1 ? splitInner(row, vector) : nullptr;
    if (params_.persistent_kernel) {
      // Threads take neighbouring vectors; the batch is the outer part and covers the row exactly.
      // Aligned rows are never a whole number of blocks: these have shares of the same size.
      const bool is_shared = params_.cluster_size > 1;
      IterDomain* blocks = nullptr;
      if (is_shared && params_.align_rows) {
        blocks = splitOuter(row, params_.cluster_size);
      }
      IterDomain* threads = splitInner(row, l.bdimx());
      if (is_shared && !params_.align_rows) {
        blocks = splitOuter(row, params_.cluster_size);
      }
      placeSharingBlocks(blocks);
      span_axis_ = static_cast<int64_t>(order_.size());
      place(threads, ParallelType::TIDx);
      batch_axis_ = static_cast<int64_t>(order_.size());
      place(row);
    } else {
      const int64_t unroll = params_.unroll_factor_top_of_vectorization;
      IterDomain* threads = threads_of_row_ != nullptr ? splitInner(row, threads_of_row_)
                                                       : splitInner(row, l.bdimx());
      IterDomain* unrolled = unroll > 1 ? splitInner(row, unroll) : nullptr;
      IterDomain* blocks =
          params_.cross_grid_inner_reduction ? splitOuter(row, l.gdimy()) : nullptr;
      place(blocks, ParallelType::BIDy);
      if (params_.bulk_loads) { // an iteration for the whole block
        place(row);
        span_axis_ = static_cast<int64_t>(order_.size());
        place(threads, ParallelType::TIDx);
      } else {
        place(threads, ParallelType::TIDx);
        place(row);
      }
      batch_axis_ = static_cast<int64_t>(order_.size());
      place(unrolled);
    }
    placeVectors(vectors);
  }

  // Rows, or row groups, of a block.
  IterDomain* splitRowsOfBlock(IterDomain*& rows) {
    const int64_t count = params_.lparams.bdimy();
    return count <= 1                  ? nullptr
           : rows_of_block_ != nullptr ? splitInner(rows, rows_of_block_)
                                       : splitInner(rows, count);
  }

  // The same shares as above, of numbers of threads and blocks that the launch chooses: blocks have
  // whole batches if these are known to come out, else equal parts of the row. What is left when
  // each thread has its batch is one iteration: the launch checks that.
  void scheduleAnyRow(IterDomain* rows, IterDomain* row) {
    const int64_t vector = params_.unroll_factor_inner_reduction;
    IterDomain* vectors = vector > 1 ? splitInner(row, vector) : nullptr;
    IterDomain* blocks = nullptr;
    if (blocks_of_row_ != nullptr && params_.open_batches == 0) {
      blocks = splitOuter(row, blocks_of_row_);
    }
    IterDomain* threads = splitInner(row, threads_of_row_);
    IterDomain* batches = splitInner(row, params_.batches_per_block_inner_reduction);
    if (blocks_of_row_ != nullptr && params_.open_batches > 0) {
      blocks = splitOuter(row, blocks_of_row_);
    }
    fusion_->assumeExtent(row->extent(), 1);
    if (rows != nullptr) {
      IterDomain* in_block = splitRowsOfBlock(rows);
      place(rows, ParallelType::BIDx);
      place(in_block, ParallelType::TIDy);
    }
    outer_axes_ = static_cast<int64_t>(order_.size());
    placeSharingBlocks(blocks);
    span_axis_ = static_cast<int64_t>(order_.size());
    place(row);
    place(threads, ParallelType::TIDx);
    batch_axis_ = static_cast<int64_t>(order_.size());
    place(batches);
    placeVectors(vectors);
  }

  // Numbers of threads and blocks with a batch of vectors for each thread, and of rows that
  // fill a block: small ones, or as large as they get where row groups share them.
  void chooseAtLaunch(const IterDomain* row, Val* length) {
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
      Val* filled = B::mulExpr(
          B::mulExpr(B::subExpr(batches, B::index(params_.open_batches)), threads_of_row_),
          B::index(params_.unroll_factor_inner_reduction));
      fusion_->chooseAtLaunch(B::subExpr(length, filled), std::numeric_limits<int64_t>::max());
      wanted = threads_of_row_;
    }
    Val* threads = fusion_->chooseAtLaunch(wholeWarps(wanted, needs_warps), l.bdimx(),
                                           /*by_warps=*/true);
    if (params_.open_batches > 0) {
      fusion_->padThreads(threads_of_row_, threads);
    } else {
      threads_of_row_ = threads;
    }
    fusion_->setMostThreads(l.bdimx());
    if (l.bdimy() > 1) {
      const int64_t most =
          params_.combined_inner_outer ? std::max(l.bdimx(), l.bdimy() * kWarp) : kShortRowsThreads;
      Val* rows = B::divExpr(B::index(most), threads);
      if (params_.combined_inner_outer) { // few groups, one for each of gdimx blocks
        Val* groups = analysis_.partials.front()->getLogicalDomain().front()->extent();
        rows = B::minExpr(rows, B::ceilDivExpr(groups, B::index(l.gdimx())));
      }
      rows_of_block_ = fusion_->chooseAtLaunch(B::maxExpr(rows, B::index(1)), l.bdimy());
      fusion_->setMostThreads(std::max(l.bdimx(), most));
    }
  }

  // At least `v`, a power of two between both.
  static Val* powerOfTwo(Val* v, int64_t fewest, int64_t most) {
    using B = IrBuilder;
    Val* out = B::index(most);
    for (int64_t few = most / 2; few >= fewest; few /= 2) {
      out = B::whereExpr(B::gtExpr(v, B::index(few)), out, B::index(few));
    }
    return out;
  }

  // At least so many threads: a power of two up to 32, or a multiple of 32.
  static Val* wholeWarps(Val* threads, bool needs_warps) {
    using B = IrBuilder;
    Val* warps = B::mulExpr(B::ceilDivExpr(threads, B::index(kWarp)), B::index(kWarp));
    return needs_warps ? warps
                       : B::whereExpr(B::gtExpr(threads, B::index(kWarp)), warps,
                                      powerOfTwo(threads, kFewestThreadsOfRow, kWarp));
  }

  void scheduleOuter(IterDomain* columns, IterDomain* row) {
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
    outer_axes_ = static_cast<int64_t>(order_.size());
    placeSharingBlocks(blocks);
    place(threads_y, ParallelType::TIDy);
    if (params_.persistent_kernel) {
      // What is left of the rows is the batch in registers.
      batch_axis_ = static_cast<int64_t>(order_.size());
      place(row);
    } else {
      place(row);
      batch_axis_ = static_cast<int64_t>(order_.size());
    }
    place(unrolled);
    placeVectors(vectors);
  }

  // As many blocks for the same columns as fill the device (gdimy), but some iterations for each.
  Val* blocksForColumns(const IterDomain* columns, const IterDomain* iterations) {
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
  void placeSharingBlocks(IterDomain* blocks) {
    if (blocks != nullptr && params_.cluster_size > 1) {
      blocks->parallelizeCluster(ParallelType::BIDy);
      order_.push_back(blocks);
    } else {
      place(blocks, ParallelType::BIDy);
    }
  }

  // Dimensions of size 1 are inside of all loops: tensors that were squeezed lack them, and what
  // such a tensor is made of is inlined as deep as the axes of both agree.
  void placeVectors(IterDomain* vectors) {
    trivial_axis_ = static_cast<int64_t>(order_.size());
    for (IterDomain* id : trivial_) {
      place(id);
    }
    vector_axis_ = vectors != nullptr ? static_cast<int64_t>(order_.size()) : -1;
    place(vectors);
  }

  // --- after propagation ---

  using Axes = std::unordered_map<TensorView*, std::vector<int64_t>>;

  // A dimension of size 1 that is no part of the reference's loops.
  bool isTrivialAxis(TensorView* tv, int64_t axis, const Axes& axes) const {
    const IterDomain* id = tv->axis(axis);
    if (!id->isBroadcast() || id->parallelType() != ParallelType::Serial ||
        !id->extent()->isOneInt()) {
      return false;
    }
    auto it = axes.find(tv);
    const int64_t at = it == axes.end() ? -1 : it->second[static_cast<size_t>(axis)];
    return at < 0 ||
           (at >= trivial_axis_ && at < trivial_axis_ + static_cast<int64_t>(trivial_.size()));
  }

  // Where the reference has such dimensions: outside of vectors only.
  void moveTrivialAxesInside() {
    const TensorGraph graph(fusion_);
    const Axes axes = mapAxes(graph);
    for (TensorView* tv : graph.tensors()) {
      std::vector<IterDomain*> order;
      std::vector<IterDomain*> trivial;
      IterDomain* vectors = nullptr;
      for (int64_t i = 0; i < tv->nDims(); ++i) {
        auto it = axes.find(tv);
        if (isTrivialAxis(tv, i, axes)) {
          trivial.push_back(tv->axis(i));
        } else if (vector_axis_ >= 0 && it != axes.end() &&
                   it->second[static_cast<size_t>(i)] == vector_axis_) {
          vectors = tv->axis(i);
        } else {
          order.push_back(tv->axis(i));
        }
      }
      if (trivial.empty()) {
        continue;
      }
      order.insert(order.end(), trivial.begin(), trivial.end());
      if (vectors != nullptr) {
        order.push_back(vectors);
      }
      tv->domain()->setLoopDomain(order);
    }
  }

  void vectorize() {
    if (vector_axis_ < 0) {
      return;
    }
    const TensorGraph graph(fusion_);
    const auto axes = mapAxes(graph);
    auto bind = [&](TensorView* tv, size_t position) {
      const int64_t width = vectorWidth(position);
      auto it = axes.find(tv);
      if (width <= 1 || it == axes.end() || it->second.empty() ||
          it->second.back() != vector_axis_ || tv->axis(-1)->isBroadcast()) {
        return;
      }
      const int64_t whole = params_.fastest_dim ? params_.unroll_factor_inner_reduction
                                                : params_.unroll_factor_iter_dom;
      if (width < whole) {
        tv->split(-1, width);
      }
      tv->axis(-1)->parallelize(ParallelType::Vectorize);
    };
    std::unordered_set<const TensorView*> bound; // several caches load from one staged input
    for (const auto& [cache, input] : splitter_.caches) {
      bind(cache, positionOf(input));
      auto it = staged_.find(cache);
      if (it != staged_.end() && bound.insert(it->second.tensor).second) {
        TensorView* staged = it->second.tensor;
        if (isSpan(staged)) {
          bindSpan(staged, axes);
        } else {
          bind(staged, positionOf(input));
        }
        moveThreadsInside(staged);
      }
    }
    for (const auto& [tv, position] : stored_) {
      bind(tv, position);
    }
    if (params_.align_rows) {
      return; // vectors at the ends of a row are not whole
    }
    for (Expr* e : fusion_->exprs()) {
      takeInVectors(e, axes);
    }
  }

  static bool isSpan(const TensorView* staged) {
    return staged->definition()->as<LoadStoreOp>()->type() == LoadStoreOpType::CpAsyncBulk;
  }

  // One thread copies all that the block has of a row at a time.
  void bindSpan(TensorView* staged, const Axes& axes) const {
    auto it = axes.find(staged);
    NVF_ERROR(it != axes.end(), staged->toString(), " is not scheduled");
    for (int64_t i = 0; i < staged->nDims(); ++i) {
      if (it->second[static_cast<size_t>(i)] >= span_axis_) {
        staged->axis(i)->parallelize(ParallelType::Bulk);
      }
    }
  }

  // Neighbouring threads have neighbouring vectors in shared memory too: no bank conflicts, and the
  // order of global memory. Vectors of aligned rows may be split, and lie in the order of the row.
  void moveThreadsInside(TensorView* staged) const {
    const ParallelType type = isSpan(staged) ? ParallelType::Bulk : ParallelType::TIDx;
    for (int64_t i = 0; i < staged->nDims() - 2; ++i) {
      if (staged->axis(i)->parallelType() == type) {
        const int64_t to = params_.align_rows ? i + 1 : staged->nDims() - 2;
        staged->reorder(std::unordered_map<int64_t, int64_t>{{i, to}});
        return;
      }
    }
  }

  // A count that something else reads than the merging of means is converted from the floating
  // point that it is counted in, element by element.
  static bool isCountRead(const Expr* e) {
    const std::vector<Expr*>& uses = e->output(2)->uses();
    return std::any_of(uses.begin(), uses.end(),
                       [](const Expr* use) { return use->kind() != Kind::WelfordOp; });
  }

  // A running sum of exponentials is scaled once for a vector; running means next to each other
  // have one count.
  void takeInVectors(Expr* e, const Axes& axes) {
    if (e->kind() != Kind::OnlineSoftmaxOp && (e->kind() != Kind::WelfordOp || isCountRead(e))) {
      return;
    }
    for (TensorView* tv : tensorOutputs(e)) {
      auto it = axes.find(tv);
      if (it != axes.end() && !it->second.empty() && it->second.back() == vector_axis_ &&
          (tv->axis(-1)->isReduction() || e->kind() == Kind::WelfordOp) &&
          !tv->axis(-1)->isBroadcast()) {
        tv->axis(-1)->parallelize(ParallelType::Vectorize);
      }
    }
  }

  void inlineAll() {
    const TensorGraph before(fusion_);
    const auto axes = mapAxes(before);
    std::unordered_set<const TensorView*> loads;
    std::unordered_set<const TensorView*> loads_of_rows; // and of what the rows share
    for (const auto& [cache, input] : splitter_.caches) {
      loads.insert(cache);
      if (!analysis_.hasReducedDims(input) || analysis_.hasWholeRows(input)) {
        loads_of_rows.insert(cache);
      }
    }
    std::unordered_map<TensorView*, int64_t> positions;
    const MaxPosCalculator calculator(fusion_);
    const LoopStages stages(fusion_, isReduction);
    std::unordered_set<const TensorView*> staged;
    for (const auto& [cache, copy] : staged_) {
      staged.insert(copy.tensor);
      if (copy.stages > 1) {
        // A row that is reduced ahead is there together with the one before it.
        const int64_t distance = copy.stages - (params_.prefetch_reduction ? 2 : 1);
        if (params_.warp_specialized) {
          copy.tensor->warpSpecialize(copy.stages, distance, ParallelType::TIDx);
        } else {
          copy.tensor->circularBuffer(copy.stages, distance);
        }
      }
    }
    if (has_row_groups_ && params_.prefetch_reduction) {
      for (TensorView* tv : findReductions()) {
        tv->circularBuffer(2);
      }
    }
    for (TensorView* tv : calculator.graph().tensors()) {
      int64_t limit = -1; // axes of the reference
      const bool is_read_again = params_.stage_rows && staged_.count(tv) != 0;
      if (has_row_groups_ && loads_of_rows.count(tv) != 0 && !is_read_again &&
          !params_.threads_in_loops) {
        // What all rows share is loaded once; rows are loaded ahead.
        const bool has_rows = hasRows(tv, axes);
        limit = has_rows ? outer_axes_ : 0;
        if (has_rows && staged_.count(tv) == 0) {
          tv->circularBuffer(2);
        }
      } else if (staged.count(tv) != 0 && !params_.persistent_kernel) {
        limit = span_axis_;
      } else if (staged.count(tv) != 0 && params_.align_rows) {
        limit = outer_axes_ + 1; // the loop over blocks is that of the rows
      } else if (staged.count(tv) != 0 || stages.isReadInSeveral(tv)) {
        limit = outer_axes_;
      } else if (loads.count(tv) != 0 && !params_.stage_rows && !params_.threads_in_loops &&
                 (!params_.align_rows || staged_.count(tv) == 0)) {
        limit = isLoadedEarly(tv) ? outer_axes_ : batch_axis_;
      } else if (keepsColumns() && !hasRowAxes(tv, axes)) {
        limit = outer_axes_; // once for all rows of a column
      }
      // Loops of one iteration are not shared: what a squeeze leads out of them could come back.
      int64_t pos = 0;
      while (pos < tv->nDims() && !isTrivialAxis(tv, pos, axes)) {
        ++pos;
      }
      if (limit < 0) {
        positions[tv] = pos == tv->nDims() ? -1 : pos;
        continue;
      }
      const int64_t most = pos;
      pos = 0;
      auto it = axes.find(tv);
      if (it != axes.end()) {
        while (pos < most && pos < static_cast<int64_t>(it->second.size()) &&
               it->second[static_cast<size_t>(pos)] >= 0 &&
               it->second[static_cast<size_t>(pos)] < limit) {
          ++pos;
        }
      }
      positions[tv] = pos;
    }
    inlineTensors(calculator, positions);
  }

  // What all rows share, such as the weights of a normalization, is in loops of its own if it
  // takes few registers: it is then loaded before anybody waits for a reduction, and not when its
  // result is there.
  bool isLoadedEarly(const TensorView* load) const {
    const auto& caches = splitter_.caches;
    const auto it = std::find_if(caches.begin(), caches.end(),
                                 [&](const auto& each) { return each.first == load; });
    if (it == caches.end() || staged_.count(load) != 0) {
      return false; // from shared memory
    }
    const TensorView* input = it->second;
    if (keepsColumns()) {
      return !analysis_.hasReducedDims(input);
    }
    return params_.load_shared_inputs_early && analysis_.hasWholeRows(input) &&
           !analysis_.differsByRow(input);
  }

  // Columns stay on chip: a thread has some of them, and a batch of rows.
  bool keepsColumns() const {
    return params_.persistent_kernel && !params_.fastest_dim;
  }

  // Some of its axes, if only of size 1, are where the reference has those of its rows.
  bool hasRowAxes(TensorView* tv, const Axes& axes) const {
    auto it = axes.find(tv);
    return it == axes.end() || std::any_of(it->second.begin(), it->second.end(), [&](int64_t at) {
             return at >= outer_axes_ && at < trivial_axis_;
           });
  }

  // The tensor has a dimension that the loop over rows runs over.
  bool hasRows(TensorView* tv, const Axes& axes) const {
    auto it = axes.find(tv);
    if (it == axes.end()) {
      return false;
    }
    for (size_t i = 0; i < it->second.size(); ++i) {
      if (it->second[i] == outer_axes_ - 1 && !tv->axis(static_cast<int64_t>(i))->isBroadcast()) {
        return true;
      }
    }
    return false;
  }

  Fusion* fusion_;
  const ReductionAnalysis& analysis_;
  const ReductionParams& params_;
  StageSplitter splitter_;
  std::vector<TensorView*> references_;               // one for each set of reductions
  std::unordered_map<const TensorView*, int> set_of_; // as in ReductionSets, if there are several
  struct Staged {
    TensorView* tensor;
    int64_t stages;
  };
  std::unordered_map<const TensorView*, Staged> staged_; // by what is loaded from them
  std::vector<std::pair<TensorView*, size_t>> stored_;   // outputs and their position
  std::vector<IterDomain*> order_;                       // a reference's loop axes
  std::vector<IterDomain*> trivial_;                     // its dimensions of size 1
  bool has_row_groups_ = false;                          // which take one row after the other
  int64_t outer_axes_ = 0;                               // leading axes around the rows
  int64_t batch_axis_ = 0;   // first axis of the batch that is loaded at once
  int64_t span_axis_ = 0;    // first axis of what a block reads of a row at once
  int64_t trivial_axis_ = 0; // first of trivial_
  int64_t vector_axis_ = -1;
  // Of rows of any length: what the launch chooses.
  Val* threads_of_row_ = nullptr;
  Val* blocks_of_row_ = nullptr;
  Val* rows_of_block_ = nullptr;
};

} // namespace

bool hasReductions(const Fusion* fusion) {
  const auto& exprs = fusion->exprs();
  return std::any_of(exprs.begin(), exprs.end(), [](const Expr* e) { return isReduction(e); });
}

std::string ReductionScheduler::whyNot(Fusion* fusion) const {
  std::string why;
  const auto analysis = ReductionAnalysis::run(fusion, &why);
  if (!why.empty()) {
    return why;
  }
  if (type_ == SchedulerType::InnerOuterPersistent) {
    return analysis->partials.empty() ? "there are no reductions of both rows and columns"
           : analysis->fastest_dim    ? ""
                                      : "the rows are not contiguous in memory";
  }
  if (!analysis->partials.empty()) {
    return "columns are reduced as well as rows";
  }
  if (type_ == SchedulerType::Reduction) {
    return analysis->normalization ? "the reduced dimensions are read again after the reduction"
                                   : "";
  }
  if (!analysis->normalization) {
    return "nothing runs over the reduced dimensions after the reduction";
  }
  if (type_ == SchedulerType::OuterPersistent) {
    return analysis->fastest_dim ? "the reduced dimensions are the innermost ones in memory" : "";
  }
  return analysis->fastest_dim ? "" : "the reduced dimensions are not the innermost ones in memory";
}

ChosenParams ReductionScheduler::computeHeuristics(Fusion* fusion, SchedulerRuntimeInfo& info,
                                                   HeuristicCache* cache) const {
  std::shared_ptr<const ReductionAnalysis> analysis;
  if (cache != nullptr && cache->data != nullptr) {
    analysis = std::static_pointer_cast<const ReductionAnalysis>(cache->data);
  } else {
    std::string why;
    analysis = ReductionAnalysis::run(fusion, &why);
    NVF_CHECK(why.empty(), "The ", schedulerName(type_),
              " scheduler cannot take this fusion: ", why);
    if (cache != nullptr) {
      cache->data = analysis;
    }
  }
  return reduction::chooseParams(type_, fusion, *analysis, info);
}

bool ReductionScheduler::maySuit(const HeuristicParams& known, SchedulerRuntimeInfo& info,
                                 const HeuristicCache& cache) const {
  const auto* params = dynamic_cast<const ReductionParams*>(&known);
  const auto* analysis = static_cast<const ReductionAnalysis*>(cache.data.get());
  if (params == nullptr || analysis == nullptr || params->any_extent) {
    return params == nullptr || !params->any_extent;
  }
  if (params->reduced_extents.empty()) {
    return true;
  }
  size_t at = 0;
  for (const IterDomain* id : analysis->reference()->getLogicalDomain()) {
    if (id->isReduction() && (at == params->reduced_extents.size() ||
                              info.sizeOf(id) != params->reduced_extents[at++])) {
      return false;
    }
  }
  return at == params->reduced_extents.size();
}

void ReductionScheduler::schedule(Fusion* fusion, const HeuristicParams& params) const {
  const auto* p = dynamic_cast<const ReductionParams*>(&params);
  NVF_CHECK(p != nullptr, "The ", schedulerName(type_), " scheduler needs ReductionParams");
  FusionGuard guard(fusion);
  // Blocks synchronize once for Welford's partials, twice for two passes.
  // Not whole vectors (align_rows) would be accumulated with a division for each element.
  const bool is_one_block = p->cluster_size == 1 && !p->cross_grid_outer_reduction;
  if (p->persistent_kernel && (is_one_block || p->align_rows)) {
    replaceWelfordByTwoPasses(fusion);
  }
  std::string why;
  auto analysis = ReductionAnalysis::run(fusion, &why);
  NVF_CHECK(why.empty(), "The ", schedulerName(type_), " scheduler cannot take this fusion: ", why);
  if (analysis->normalization && !p->persistent_kernel) {
    // Rows are read several times anyway.
    replaceWelfordByTwoPasses(fusion);
    analysis = ReductionAnalysis::run(fusion, &why);
  }
  ReductionSchedule(fusion, *analysis, *p).run();
}

std::vector<TensorView*> reductionConflicts(Fusion* fusion) {
  std::string why;
  const auto analysis = ReductionAnalysis::run(fusion, &why);
  std::vector<TensorView*> out = analysis->conflicts;
  if (out.empty() && analysis->normalization) {
    // Normalizations along outer dimensions take two kernels. What is computed of the statistics
    // alone belongs to the first: the cut is where they are broadcast.
    for (const Expr* e : fusion->exprs()) {
      if (e->kind() == Kind::BroadcastOp && analysis->stageOf(e) > 0) {
        out.push_back(e->output(0)->as<TensorView>());
      }
    }
    if (out.empty()) {
      out = analysis->reductions;
    }
  }
  std::erase_if(out, [](const TensorView* tv) {
    return tv->isFusionInput() || (tv->isFusionOutput() && tv->uses().empty());
  });
  return out;
}

} // namespace nvfuser
