// SPDX-License-Identifier: BSD-3-Clause
// Applying a reduction or normalization schedule.
#include <scheduler/reduction.h>

#include <base/error.h>
#include <id_model/id_model.h>
#include <ir/logical_map.h>
#include <ir/visitor.h>
#include <preseg_passes/column_reductions.h>
#include <scheduler/access_width.h>
#include <scheduler/assumed_extents.h>
#include <scheduler/loop_stages.h>
#include <scheduler/reference_loops.h>
#include <scheduler/row_exchange.h>
#include <scheduler/stage_splitter.h>
#include <scheduler/two_pass.h>
#include <transform/cache.h>
#include <transform/inlining.h>
#include <transform/propagate.h>
#include <transform/replay.h>

#include <algorithm>
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
        splitter_(fusion, analysis, keptOfRows(params)),
        loops_(fusion, analysis, params),
        exchange_(params) {}

  void run() {
    if (params_.persistent_kernel && !params_.any_extent) {
      assumeRowLengths(fusion_, analysis_, params_);
    }
    declareAligned();
    splitter_.run();
    stageInSharedMemory();
    separateOutputs();
    findReferences();
    transform();
    Axes axes = mapAxes(graphOfAll());
    moveTrivialAxesInside(axes);
    vectorize(axes);
    inlineAll();
  }

 private:
  using Axes = std::unordered_map<TensorView*, std::vector<int64_t>>;
  using DimKind = ReferenceLoops::DimKind;

  static KeptOfRows keptOfRows(const ReductionParams& params) {
    if (params.threads_in_loops) {
      return params.persistent_kernel && !params.combined_inner_outer ? KeptOfRows::Functions
                                                                      : KeptOfRows::NothingAtAll;
    }
    return !params.persistent_kernel ? KeptOfRows::Nothing
           : params.stage_rows ? (hasRowGroups(params) ? KeptOfRows::Shared : KeptOfRows::Nothing)
           : params.project_persistent_buffers ? KeptOfRows::Inputs
           : params.keep_computed              ? KeptOfRows::Everything
                                               : KeptOfRows::All;
  }

  static bool hasRowGroups(const ReductionParams& params) {
    return params.row_groups > 0 || params.combined_inner_outer;
  }

  // Tables that are looked up in, line by line.
  void declareAligned() {
    for (Val* in : fusion_->inputs()) {
      auto* tv = tryAs<TensorView>(in);
      if (tv != nullptr && isLookedUp(tv) && !params_.threads_in_loops &&
          widthAt(params_.vector_widths, positionOf(tv)) * dataTypeSizeBits(tv->dtype()) ==
              8 * kVectorBytes) {
        fusion_->declareAligned(tv);
      }
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
      const size_t at = positionOf(input);
      const bool copies_async = exchange_.copiesAsync(input, at);
      if (exchange_.takes(at)) {
        staged_inputs[input] = exchange_.addInput(input, at);
        const bool is_circular = has_row_groups && copies_async;
        staged_[cache] = {staged_inputs[input], is_circular ? params_.circular_buffer_stages : 1};
        continue;
      }
      if ((is_row ? rows : params_.stage_shared_inputs && !has_row_groups) && copies_async &&
          (params_.stage_rows ? !isLookedUp(input) : fusion_->liveUses(input).size() == 1)) {
        const bool is_linear = is_row && params_.bulk_loads;
        TensorView* staged =
            input->cacheAfter(is_linear ? LoadStoreOpType::CpAsyncBulk : LoadStoreOpType::CpAsync,
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
        // One element for each row is not stored where all elements read it.
        if (out->definition()->kind() == ExprKind::BroadcastOp) {
          fusion_->replaceExprInput(stored->definition(), out,
                                    recompute(out, out->definition()->inputs()));
        }
      } else {
        out->cacheBefore();
      }
      const size_t position = fusion_->inputs().size() + i;
      if (exchange_.takes(position)) {
        exchange_.addOutput(stored, position);
      } else {
        stored_.emplace_back(stored, position);
      }
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

  TensorGraph graphOfAll() const {
    return TensorGraph(fusion_, splitter_.versions());
  }

  void findReferences() {
    const std::vector<TensorView*> reductions = findReductions();
    if (analysis_.num_sets == 1) {
      references_ = {widestReduction(reductions)};
    }
    if (analysis_.num_sets == 1 && !analysis_.hasShortDims() && !analysis_.hasSubrows()) {
      return;
    }
    const IdGraph graph = buildGraph(fusion_, IdMappingMode::Permissive);
    if (analysis_.hasSubrows()) {
      const std::set<IdGroup> subrows = subrowDimsOf(references_.front(), reductions, graph);
      for (const IterDomain* id : references_.front()->getLogicalDomain()) {
        if (!id->isBroadcast() && subrows.count(graph.group(id)) != 0) {
          kind_of_[id] = DimKind::Subrows;
        }
      }
      return;
    }
    if (analysis_.hasShortDims()) {
      const RowDims dims = rowDimsOf(reductions, graph);
      for (const IterDomain* id : references_.front()->getLogicalDomain()) {
        kind_of_[id] = dims.within_thread.count(graph.group(id)) != 0 ? DimKind::Short
                       : dims.along.count(graph.group(id)) != 0       ? DimKind::AlongRow
                                                                      : DimKind::Rows;
      }
      return;
    }
    const ReductionSets sets(reductions, graph);
    references_ = sets.references();
    for (const TensorView* tv : fusion_->allTvs()) {
      set_of_[tv] = sets.setOf(tv);
    }
  }

  DimKind kindOf(const IterDomain* id) const {
    const auto it = kind_of_.find(id);
    return it != kind_of_.end() ? it->second
           : id->isReduction()  ? DimKind::AlongRow
                                : DimKind::Rows;
  }

  // Each set of reductions has the same schedule in loops of its own.
  void transform() {
    const auto kind_of = [this](const IterDomain* id) { return kindOf(id); };
    if (references_.size() == 1) {
      loops_.schedule(references_.front(), kind_of, [&] {
        transformLike(graphOfAll(), references_.front());
        exchange_.schedule(references_.front(), at_.tile, mapAxes(graphOfAll()));
      });
      transformLike(graphOfAll(), references_.front(), exchange_.others(fusion_));
      transformPartlyReached(references_.front());
    } else {
      transformSets();
    }
    for (TensorView* reference : references_) {
      scheduler_utils::parallelizeAllLike(graphOfAll(), reference, -1, exchange_.others(fusion_),
                                          {});
    }
  }

  // Dimensions that no tensor connected to the reference has all of: what is computed of looked-up
  // elements, or again of inputs that each have a part of the dimensions. Such a tensor got to its
  // dimensions in several ways, each of which led to a part of its loops, or to all in an order of
  // its own. It is given the reference's loops by its dimensions, and so is what is broadcast to
  // them.
  void transformPartlyReached(const TensorView* reference) {
    const TensorGraph graph = graphOfAll();
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
    std::unordered_map<IdGroup, std::vector<IterDomain*>> of_reference;
    for (IterDomain* id : reference->getMaybeRootDomain()) {
      of_reference[dimensions.group(id)].push_back(id);
    }
    of_reference.erase(-1); // what the graph does not know
    for (TensorView* tv : order) {
      if (partly.count(tv) == 0) {
        continue;
      }
      IterDomainMap map;
      for (IterDomain* own : tv->getLogicalDomain()) {
        const auto found = of_reference.find(dimensions.group(own));
        if (found != of_reference.end()) {
          for (IterDomain* id : found->second) {
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
      const auto it = axes.find(tv);
      // All of its axes, in the reference's order.
      bool whole = true;
      int64_t last = -1;
      for (int64_t i = 0; i < tv->nDims(); ++i) {
        if (!tv->axis(i)->isBroadcast()) {
          const int64_t axis = it == axes.end() ? -1 : it->second[static_cast<size_t>(i)];
          whole = whole && axis > last;
          last = axis;
        }
      }
      if (!whole && !tv->isFusionInput() && !exchange_.isCopy(tv)) {
        found.insert(tv);
      }
    }
    return found;
  }

  // What has no reduced dimension follows the first set that it is connected to.
  void transformSets() {
    const TensorGraph graph = graphOfAll();
    std::vector<TensorView*> left = graph.tensors();
    for (size_t set = 0; set < references_.size(); ++set) {
      std::vector<TensorView*> own;
      for (TensorView* tv : left) {
        if (set_of_.at(tv) < 0 || set_of_.at(tv) == static_cast<int>(set)) {
          own.push_back(tv);
        }
      }
      loops_.schedule(references_[set], [this](const IterDomain* id) { return kindOf(id); });
      transformLike(graph, references_[set], own);
      std::unordered_set<const TensorView*> reached{references_[set]};
      for (const PropagationStep& step :
           maxInfoSpanningTree(graph, references_[set], {own.begin(), own.end()})) {
        reached.insert(step.to);
      }
      std::erase_if(left, [&](const TensorView* tv) { return reached.count(tv) != 0; });
    }
  }

  // Of which axis of its reference each axis of a tensor is; all references have the same ones.
  Axes mapAxes(const TensorGraph& graph) const {
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

  // --- after propagation ---

  // A dimension of size 1 that is no part of the reference's loops.
  bool isTrivialAxis(TensorView* tv, int64_t axis, const Axes& axes) const {
    const IterDomain* id = tv->axis(axis);
    if (!id->isBroadcast() || id->parallelType() != ParallelType::Serial ||
        !id->extent()->isOneInt()) {
      return false;
    }
    auto it = axes.find(tv);
    const int64_t at = it == axes.end() ? -1 : it->second[static_cast<size_t>(axis)];
    return at < 0 || (at >= at_.trivial && at < at_.trivial + at_.num_trivial);
  }

  // Where the reference has such dimensions: outside of vectors only.
  // `axes` is kept up to date.
  void moveTrivialAxesInside(Axes& axes) const {
    for (TensorView* tv : TensorGraph(fusion_).tensors()) {
      if (exchange_.isCopy(tv)) {
        continue;
      }
      const auto known = axes.find(tv);
      const auto isOf = [&](int64_t i, int64_t axis) {
        return known != axes.end() && known->second[static_cast<size_t>(i)] == axis;
      };
      std::vector<int64_t> order; // positions of the axes: others, trivial ones, the vector
      std::vector<int64_t> trivial;
      std::vector<int64_t> vectors;
      for (int64_t i = 0; i < tv->nDims(); ++i) {
        (isTrivialAxis(tv, i, axes)               ? trivial
         : at_.vector >= 0 && isOf(i, at_.vector) ? vectors
                                                  : order)
            .push_back(i);
      }
      if (trivial.empty()) {
        continue;
      }
      order.insert(order.end(), trivial.begin(), trivial.end());
      order.insert(order.end(), vectors.begin(), vectors.end());
      std::vector<IterDomain*> loop;
      std::vector<int64_t> moved;
      for (const int64_t i : order) {
        loop.push_back(tv->axis(i));
        moved.push_back(known == axes.end() ? -1 : known->second[static_cast<size_t>(i)]);
      }
      tv->domain()->setLoopDomain(loop);
      if (known != axes.end()) {
        known->second = std::move(moved);
      }
    }
  }

  void vectorize(const Axes& axes) {
    const int64_t innermost = at_.vector >= 0 ? at_.vector : at_.within_thread;
    if (innermost < 0) {
      return;
    }
    auto bind = [&](TensorView* tv, size_t position) {
      const int64_t width = widthAt(params_.vector_widths, position);
      auto it = axes.find(tv);
      if (width <= 1 || it == axes.end() || it->second.empty() || it->second.back() != innermost ||
          tv->axis(-1)->isBroadcast()) {
        return;
      }
      const int64_t whole = at_.vector < 0        ? analysis_.shortElements()
                            : params_.fastest_dim ? params_.unroll_factor_inner_reduction
                                                  : params_.unroll_factor_iter_dom;
      if (width < whole) {
        tv->split(-1, width);
      }
      tv->axis(-1)->parallelize(ParallelType::Vectorize);
    };
    std::unordered_set<const TensorView*> bound; // several caches load one input in shared memory
    for (const auto& [cache, input] : splitter_.caches) {
      if (exchange_.takes(positionOf(input))) {
        continue; // read element by element
      }
      bind(cache, positionOf(input));
      auto it = staged_.find(cache);
      if (it != staged_.end() && bound.insert(it->second.tensor).second) {
        TensorView* staged = it->second.tensor;
        if (isBulkCopied(staged)) {
          bindBulkCopy(staged, axes);
        } else {
          bind(staged, positionOf(input));
        }
        moveThreadsInside(staged);
      }
    }
    for (const auto& [tv, position] : stored_) {
      bind(tv, position);
    }
    if (params_.align_rows || at_.vector < 0) {
      return; // vectors at the ends of a row are not whole
    }
    for (Expr* e : fusion_->exprs()) {
      takeInVectors(e, axes);
    }
  }

  static bool isBulkCopied(const TensorView* staged) {
    return staged->definition()->as<LoadStoreOp>()->type() == LoadStoreOpType::CpAsyncBulk;
  }

  // One thread copies all that the block has of a row at a time.
  void bindBulkCopy(TensorView* staged, const Axes& axes) const {
    auto it = axes.find(staged);
    NVF_ERROR(it != axes.end(), staged->toString(), " is not scheduled");
    for (int64_t i = 0; i < staged->nDims(); ++i) {
      if (it->second[static_cast<size_t>(i)] >= at_.bulk) {
        staged->axis(i)->parallelize(ParallelType::Bulk);
      }
    }
  }

  // Neighbouring threads have neighbouring vectors in shared memory too: no bank conflicts, and the
  // order of global memory. Vectors of aligned rows may be split, and lie in the order of the row.
  void moveThreadsInside(TensorView* staged) const {
    const ParallelType type = isBulkCopied(staged) ? ParallelType::Bulk : ParallelType::TIDx;
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
      if (it != axes.end() && !it->second.empty() && it->second.back() == at_.vector &&
          (tv->axis(-1)->isReduction() || e->kind() == Kind::WelfordOp) &&
          !tv->axis(-1)->isBroadcast()) {
        tv->axis(-1)->parallelize(ParallelType::Vectorize);
      }
    }
  }

  // Rows that are on their way while others are in use.
  void bufferInCircles() {
    for (const auto& [cache, copy] : staged_) {
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
    if (!at_.has_row_groups) {
      return;
    }
    for (TensorView* tv : TensorGraph(fusion_).tensors()) {
      if (exchange_.isLoaded(tv)) {
        tv->circularBuffer(2);
      }
    }
    if (params_.prefetch_reduction) {
      for (TensorView* tv : findReductions()) {
        tv->circularBuffer(2);
      }
    }
  }

  // What the rows of a thread share is computed once for them, where it is read for each.
  bool isSharedByRows(const TensorView* tv) const {
    return params_.fastest_dim && params_.unroll_factor_iter_dom > 1 &&
           analysis_.isSharedByNeighbours(tv) &&
           std::ranges::any_of(tv->uses(), [&](const Expr* use) {
             return !analysis_.isSharedByNeighbours(use->output(0)->as<TensorView>());
           });
  }

  void inlineAll() {
    const TensorGraph before = graphOfAll();
    const auto axes = mapAxes(before);
    std::unordered_set<const TensorView*> loads;
    std::unordered_set<const TensorView*> loads_of_rows; // and of what the rows share
    for (const auto& [cache, input] : splitter_.caches) {
      loads.insert(cache);
      if (!analysis_.hasReducedDims(input) || analysis_.hasWholeRows(input) ||
          (params_.load_parts_ahead && analysis_.isPartOfRow(input))) {
        loads_of_rows.insert(cache);
      }
    }
    std::unordered_map<TensorView*, int64_t> positions;
    const MaxPosCalculator calculator(fusion_);
    const LoopStages stages(fusion_, isReduction);
    bufferInCircles();
    std::unordered_set<const TensorView*> staged;
    for (const auto& [cache, copy] : staged_) {
      staged.insert(copy.tensor);
    }
    for (TensorView* tv : calculator.graph().tensors()) {
      int64_t limit = -1; // axes of the reference
      const bool is_read_again = params_.stage_rows && staged_.count(tv) != 0;
      if (exchange_.isTile(tv) || exchange_.isLoaded(tv) ||
          (!exchange_.isEmpty() && staged.count(tv) != 0)) {
        limit = at_.tile; // copies of one iteration are waited for together
      } else if (at_.has_row_groups && loads_of_rows.count(tv) != 0 && !is_read_again &&
                 !params_.threads_in_loops) {
        // What all rows share is loaded once; rows are loaded ahead.
        const bool has_rows = hasRows(tv, axes);
        limit = has_rows ? at_.outer : 0;
        if (has_rows && staged_.count(tv) == 0) {
          tv->circularBuffer(2);
        }
      } else if (staged.count(tv) != 0 && !params_.persistent_kernel) {
        limit = at_.bulk;
      } else if (staged.count(tv) != 0 && params_.align_rows) {
        limit = at_.outer + 1; // the loop over blocks is that of the rows
      } else if (staged.count(tv) != 0 || stages.isReadInSeveral(tv)) {
        limit = at_.outer;
      } else if (loads.count(tv) != 0 && !params_.stage_rows && !params_.threads_in_loops &&
                 (!params_.align_rows || staged_.count(tv) == 0)) {
        limit = isLoadedEarly(tv) ? at_.outer : at_.batch;
      } else if (isSharedByRows(tv)) {
        limit = at_.batch;
      } else if (keepsColumns() && !hasRowAxes(tv, axes)) {
        limit = at_.outer; // once for all rows of a column
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
  // result is there. So are rows, where nothing else of a row is loaded before.
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
    if (params_.persistent_kernel && analysis_.isOneOfVector(input)) {
      return true;
    }
    return analysis_.hasWholeRows(input) &&
           (analysis_.differsByRow(input) ? params_.load_rows_early
                                          : params_.load_shared_inputs_early);
  }

  // Columns stay on chip: a thread has some of them, and a batch of rows.
  bool keepsColumns() const {
    return params_.persistent_kernel && !params_.fastest_dim;
  }

  // Some of its axes, if only of size 1, are where the reference has those of its rows.
  bool hasRowAxes(TensorView* tv, const Axes& axes) const {
    auto it = axes.find(tv);
    return it == axes.end() || std::any_of(it->second.begin(), it->second.end(), [&](int64_t at) {
             return at >= at_.outer && at < at_.trivial;
           });
  }

  // The tensor has a dimension that the loop over rows runs over.
  bool hasRows(TensorView* tv, const Axes& axes) const {
    auto it = axes.find(tv);
    if (it == axes.end()) {
      return false;
    }
    for (size_t i = 0; i < it->second.size(); ++i) {
      if (it->second[i] == at_.rows && !tv->axis(static_cast<int64_t>(i))->isBroadcast()) {
        return true;
      }
    }
    return false;
  }

  Fusion* fusion_;
  const ReductionAnalysis& analysis_;
  const ReductionParams& params_;
  StageSplitter splitter_;
  ReferenceLoops loops_;
  const ReferenceAxes& at_ = loops_.axes();
  RowExchange exchange_;
  std::unordered_map<const IterDomain*, DimKind> kind_of_; // short dimensions, subrows
  std::vector<TensorView*> references_;                    // one for each set of reductions
  std::unordered_map<const TensorView*, int> set_of_; // as in ReductionSets, if there are several
  struct Staged {
    TensorView* tensor;
    int64_t stages;
  };
  std::unordered_map<const TensorView*, Staged> staged_; // by what is loaded from them
  std::vector<std::pair<TensorView*, size_t>> stored_;   // outputs and their position
};

} // namespace

std::string ReductionScheduler::whyNot(Fusion* fusion) const {
  std::string why;
  const auto analysis = ReductionAnalysis::run(fusion, &why);
  if (!why.empty()) {
    return why;
  }
  if (type_ == SchedulerType::InnerOuterPersistent) {
    return analysis->partials.empty() ? "there are no reductions of both rows and columns"
           : analysis->fastest_dim || !analysis->acrossRows(fusion).empty()
               ? ""
               : "the rows are not contiguous in memory";
  }
  if (!analysis->partials.empty()) {
    return "columns are reduced as well as rows";
  }
  if (type_ == SchedulerType::Reduction) {
    return analysis->normalization  ? "the reduced dimensions are read again after the reduction"
           : analysis->hasSubrows() ? "parts of rows are reduced as well as rows"
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
  const auto analysis = analysisOf<ReductionAnalysis>(fusion, type(), cache);
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
  const std::vector<int64_t>& within = params->extents_within_row;
  const std::vector<IterDomain*> dims = keptWithinRow(*analysis);
  if (!std::equal(dims.begin(), dims.end(), within.begin(), within.end(),
                  [&](const IterDomain* id, int64_t size) { return info.sizeOf(id) == size; })) {
    return false;
  }
  size_t at = 0;
  for (const IterDomain* id : analysis->reference()->getLogicalDomain()) {
    if (analysis->isAlongRow(id) && (at == params->reduced_extents.size() ||
                                     info.sizeOf(id) != params->reduced_extents[at++])) {
      return false;
    }
  }
  return at == params->reduced_extents.size();
}

void ReductionScheduler::schedule(Fusion* fusion, const HeuristicParams& params) const {
  const auto* p = dynamic_cast<const ReductionParams*>(&params);
  NVF_CHECK(p != nullptr, "The ", schedulerName(type_), " scheduler needs ReductionParams");
  NVF_CHECK(!p->threads_in_loops || !p->bulk_loads,
            "bulk_loads: not where one thread of the host runs a block (threads_in_loops)");
  FusionGuard guard(fusion);
  // Threads wait for each other once for Welford's partials and twice for two passes, but merging
  // partials takes longer than that, also in a cluster. The grid is another matter, and so is a
  // cluster that would read its row in shared memory once more, if all threads have as many
  // elements: their counts are constants then.
  // Not whole vectors (align_rows) would be accumulated with a division for each element.
  const bool reads_again = p->stage_rows && p->cluster_size > 1 && p->fillsThreads();
  if (p->persistent_kernel && ((!p->cross_grid_outer_reduction && !reads_again) || p->align_rows)) {
    replaceWelfordByTwoPasses(fusion);
  }
  auto analysis = analysisOf<ReductionAnalysis>(fusion, type_);
  if (analysis->normalization && !p->persistent_kernel) {
    // Rows are read several times anyway.
    replaceWelfordByTwoPasses(fusion);
    analysis = analysisOf<ReductionAnalysis>(fusion, type_);
  }
  ReductionSchedule(fusion, *analysis, *p).run();
}

ConflictingTensors reductionConflicts(Fusion* fusion) {
  std::string why;
  const auto analysis = ReductionAnalysis::run(fusion, &why);
  ConflictingTensors conflicts = analysis->conflicts;
  std::vector<TensorView*>& out = conflicts.made;
  if (out.empty() && conflicts.late.empty() && analysis->normalization) {
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
  return conflicts;
}

} // namespace nvfuser
