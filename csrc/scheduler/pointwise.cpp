// SPDX-License-Identifier: BSD-3-Clause
// Applying a pointwise schedule.
#include <scheduler/pointwise.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/exprs.h>
#include <scheduler/tile_exchange.h>
#include <scheduler/version_tensors.h>
#include <transform/inlining.h>

#include <algorithm>
#include <tuple>
#include <unordered_set>

namespace nvfuser {

namespace pointwise {

std::vector<TensorAccess> tensorAccesses(const Fusion* fusion, const PointwiseAnalysis& analysis) {
  std::vector<TensorAccess> out;
  int64_t position = 0;
  auto add = [&](Val* v) {
    if (v->isTensor()) {
      auto* tv = v->as<TensorView>();
      for (int i : analysis.versionsOf(tv)) {
        out.push_back({tv, position, &analysis.versions[static_cast<size_t>(i)],
                       static_cast<int64_t>(out.size())});
        if (tv->isFusionOutput() && !tv->isFusionInput()) {
          break; // other versions of an output stay in registers
        }
      }
    }
    ++position;
  };
  for (Val* in : fusion->inputs()) {
    add(in);
  }
  for (Val* out_val : fusion->outputs()) {
    if (!out_val->isFusionInput()) {
      add(out_val);
    } else {
      ++position;
    }
  }
  return out;
}

std::span<const int64_t> innerAxes(const PointwiseAnalysis& analysis, int64_t first) {
  return std::span(analysis.loop_order).subspan(static_cast<size_t>(first));
}

ContiguousRun runAlong(const PointwiseAnalysis& analysis, const TensorVersion& version,
                       std::span<const int64_t> axes) {
  std::vector<AxisTerms::Id> axis_terms;
  for (const int64_t axis : axes) {
    const auto at = static_cast<size_t>(axis);
    if (!analysis.reference->getLogicalDomain()[at]->isBroadcast() ||
        analysis.hasAxis(version, axis)) {
      axis_terms.push_back(version.view[at]);
    }
  }
  return runAlongTerms(analysis, version, axis_terms);
}

ContiguousRun runAlongTerms(const PointwiseAnalysis& analysis, const TensorVersion& version,
                            std::span<const AxisTerms::Id> terms) {
  const TensorView* tv = version.tv;
  std::vector<MemoryDigit> memory;
  for (const MemoryDim& dim : memoryDims(tv)) {
    const DomainNumber term = dim.logical < 0 ? -1 : analysis.terms.knownDimension(dim.logical);
    memory.push_back({term, dim.id->getMaybeExpandedExtent(), dim.contiguous});
  }
  const bool stands_alone = tv->isFusionOutput() && !tv->isFusionInput();
  return contiguousRun(memory, terms, AxisTermSteps(analysis.terms, stands_alone));
}

bool isVectorizable(const PointwiseAnalysis& analysis, const TensorVersion& version,
                    std::span<const int64_t> axes) {
  const bool has_all = std::all_of(axes.begin(), axes.end(), [&](int64_t axis) {
    return analysis.reference->getLogicalDomain()[static_cast<size_t>(axis)]->isBroadcast() ||
           analysis.hasAxis(version, axis);
  });
  return has_all && !runAlong(analysis, version, axes).empty();
}

namespace {

// The reference's loop axes by role; null where there is none.
struct Axes {
  std::vector<IterDomain*> order;
  // Positions:
  int64_t in_block = 0; // of the first that is not bound to blocks
  int64_t thread = -1;
  int64_t unswitch = -1;
  int64_t rows = -1; // that a thread has at once
  int64_t vector = -1;
};

class PointwiseSchedule {
 public:
  PointwiseSchedule(Fusion* fusion, const PointwiseAnalysis& analysis,
                    const PointwiseParams& params)
      : fusion_(fusion), analysis_(analysis), params_(params), tensors_(fusion, analysis) {
    // Loads are issued in batches, and stores come in vectors, only if a thread has several
    // elements.
    staged_ = params.vectorization_factor > 1 || params.unroll_factor_inner > 1 ||
              params.unroll_factor_outer > 1;
    const auto rank = static_cast<int64_t>(analysis.loop_order.size());
    break_point_ = params.break_point > 0 && params.break_point < rank ? params.break_point : 0;
  }

  void run() {
    chooseVectorized();
    declareAligned();
    tensors_.rewrite(staged_);
    stageInBulk();
    scheduleReference();
    tensors_.propagate();
    vectorizeAccesses();
    bindBulkCopies();
    inlineAll();
  }

 private:
  void chooseVectorized() {
    if (params_.vectorization_factor <= 1) {
      return;
    }
    for (const TensorAccess& access : tensorAccesses(fusion_, analysis_)) {
      const bool excluded = std::find(params_.not_vectorized.begin(), params_.not_vectorized.end(),
                                      access.number) != params_.not_vectorized.end();
      const bool fits = params_.vectorization_factor * dataTypeSizeBits(access.tv->dtype()) <= 128;
      if (!excluded && fits &&
          isVectorizable(analysis_, *access.version, innerAxes(analysis_, break_point_))) {
        tensors_.of(*access.version).vectorize = true;
      }
    }
  }

  void declareAligned() {
    for (const int64_t position : params_.aligned_inputs) {
      const auto at = static_cast<size_t>(position);
      NVF_CHECK(position >= 0 && at < fusion_->inputs().size() && fusion_->inputs()[at]->isTensor(),
                "aligned_inputs: ", position, " is no position of a tensor among the inputs");
      fusion_->declareAligned(fusion_->inputs()[at]->as<TensorView>());
    }
  }

  void stageInBulk() {
    for (const TensorAccess& access : tensorAccesses(fusion_, analysis_)) {
      if (std::find(params_.bulk_loads.begin(), params_.bulk_loads.end(), access.position) ==
          params_.bulk_loads.end()) {
        continue;
      }
      NVF_CHECK(access.tv->isFusionInput() && tensors_.of(*access.version).vectorize &&
                    analysis_.versionsOf(access.tv).size() == 1,
                "bulk_loads: ", access.tv->toString(),
                " is not an input that is read in one way and by vectors");
      tensors_.stageInBulk(*access.version);
    }
  }

  void scheduleReference() {
    TensorView* tv = tensors_.reference();
    if (tv->nDims() == 0) {
      return;
    }
    tv->reorder(analysis_.loop_order);
    if (!params_.tile_axes.empty()) {
      tile(tv);
    }
    if (break_point_ == 0) {
      schedule1D(tv);
    } else {
      schedule2D(tv);
    }
    tv->domain()->setLoopDomain(axes_.order);
  }

  void place(IterDomain* id, ParallelType type = ParallelType::Serial) {
    if (id != nullptr) {
      id->parallelize(type);
      axes_.order.push_back(id);
    }
  }

  // [.., rows, .., columns] to [.., rows / r, .., columns / c, r, c], for rows of several
  // dimensions the first of them outermost.
  void tile(TensorView* tv) const {
    const auto rank = static_cast<int64_t>(analysis_.loop_order.size());
    const std::vector<int64_t>& axes = params_.tile_axes;
    NVF_CHECK(axes.size() == params_.tile_rows.size() && params_.tile_columns > 0 &&
                  params_.tile_columns % params_.vectorization_factor == 0,
              "tile_axes need as many tile_rows, and tile_columns must be whole vectors");
    for (const int64_t axis : axes) {
      NVF_CHECK(axis >= break_point_ && axis < rank && std::ranges::count(axes, axis) == 1,
                "tile_axes: ", axis, " is no dimension inside of the break point, or there twice");
    }
    const int64_t last = std::ranges::max(axes);
    int64_t first = rank; // of the columns
    for (int64_t columns = 1; columns % params_.tile_columns != 0;) {
      const Val* extent = first - 1 > last ? tv->axis(first - 1)->extent() : nullptr;
      NVF_CHECK(extent != nullptr && extent->isConstInt(), "tile_columns: ", params_.tile_columns,
                " do not divide the dimensions inside of tile_axes");
      columns *= extent->intValue();
      --first;
    }
    if (first == rank) {
      return;
    }
    tv->flatten(first, -1);
    std::vector<IterDomain*> loop = tv->getLoopDomain();
    IterDomain* columns = splitOff(loop.back(), params_.tile_columns);
    for (size_t i = 0; i < axes.size(); ++i) {
      loop.push_back(splitOff(loop[static_cast<size_t>(axes[i])], params_.tile_rows[i]));
    }
    loop.push_back(columns);
    tv->domain()->setLoopDomain(loop);
  }

  void schedule1D(TensorView* tv) {
    tv->flatten();
    IterDomain* block = tv->axis(0);
    IterDomain* vector =
        params_.vectorization_factor > 1 ? splitOff(block, params_.vectorization_factor) : nullptr;
    IterDomain* thread = splitOff(block, params_.blockDimX());
    const int64_t unroll = params_.unroll_factor_inner * params_.unroll_factor_outer;
    IterDomain* unrolled = unroll > 1 ? splitOff(block, unroll) : nullptr;
    IterDomain* unswitch = staged_ ? splitOff(block, 1) : nullptr;
    place(block, ParallelType::BIDx);
    placeThreads(nullptr, thread);
    placeInner(unswitch, {unrolled}, vector);
  }

  void schedule2D(TensorView* tv) {
    tv->flatten(0, break_point_ - 1);
    tv->flatten(1, -1);
    IterDomain* row_block = tv->axis(0);
    IterDomain* block = tv->axis(1);
    if (params_.align_rows) {
      NVF_CHECK(params_.vectorization_factor > 1 && params_.unroll_factor_outer == 1,
                "align_rows: only with vectors, and for one row of a thread at once");
      std::tie(row_block, block) =
          IterDomain::align(row_block, block, block->extent(), params_.vectorization_factor);
    }
    IterDomain* vector =
        params_.vectorization_factor > 1 ? splitOff(block, params_.vectorization_factor) : nullptr;
    IterDomain* thread = splitOff(block, params_.blockDimX());
    IterDomain* unrolled =
        params_.unroll_factor_inner > 1 ? splitOff(block, params_.unroll_factor_inner) : nullptr;
    IterDomain* unswitch = staged_ ? splitOff(block, 1) : nullptr;
    IterDomain* row_thread =
        params_.split_block ? splitOff(row_block, params_.blockDimY()) : nullptr;
    IterDomain* rows = params_.unroll_factor_outer > 1
                           ? splitOff(row_block, params_.unroll_factor_outer)
                           : nullptr;
    IterDomain* row_serial = nullptr;
    if (params_.split_grid_y_dim) {
      row_serial = row_block;
      row_block = splitOff(row_serial, 65535);
    }
    place(row_serial);
    place(row_block, params_.flip_grid_binding ? ParallelType::BIDx : ParallelType::BIDy);
    place(block, params_.flip_grid_binding ? ParallelType::BIDy : ParallelType::BIDx);
    placeThreads(row_thread, thread);
    placeInner(unswitch, {rows, unrolled}, vector);
    axes_.rows = rows == nullptr ? -1 : axes_.unswitch + 1;
  }

  void placeThreads(IterDomain* row_thread, IterDomain* thread) {
    axes_.in_block = static_cast<int64_t>(axes_.order.size());
    place(row_thread, ParallelType::TIDy);
    axes_.thread = static_cast<int64_t>(axes_.order.size());
    place(thread, ParallelType::TIDx);
  }

  void placeInner(IterDomain* unswitch, const std::vector<IterDomain*>& unrolled,
                  IterDomain* vector) {
    if (unswitch != nullptr) {
      axes_.unswitch = static_cast<int64_t>(axes_.order.size());
      place(unswitch, ParallelType::Unswitch);
    }
    for (IterDomain* id : unrolled) {
      place(id);
    }
    if (vector != nullptr) {
      axes_.vector = static_cast<int64_t>(axes_.order.size());
      place(vector);
    }
  }

  void vectorizeAccesses() {
    if (axes_.vector < 0) {
      return;
    }
    for (const VersionTensor& t : tensors_.all()) {
      TensorView* tv = t.cache != nullptr ? t.cache : t.stored;
      if (t.vectorize && tv != nullptr) {
        tensors_.vectorize(tv, axes_.vector);
      }
    }
  }

  // One thread copies what a block reads of a row: its axes follow the order of memory, the threads
  // next to the vectors.
  void bindBulkCopies() {
    for (const VersionTensor& t : tensors_.all()) {
      if (t.staged == nullptr) {
        continue;
      }
      const std::vector<int64_t>& axes = tensors_.referenceAxes(t.staged);
      auto axisOf = [&](int64_t position) {
        return static_cast<int64_t>(std::find(axes.begin(), axes.end(), position) - axes.begin());
      };
      for (size_t i = 0; i < axes.size(); ++i) {
        if (axes[i] >= axes_.thread) {
          const bool outside = axes[i] == axes_.rows || axes[i] == axes_.unswitch;
          t.staged->axis(static_cast<int64_t>(i))
              ->parallelize(outside ? ParallelType::Serial : ParallelType::Bulk);
        }
      }
      t.staged->reorder(
          std::unordered_map<int64_t, int64_t>{{axisOf(axes_.thread), axisOf(axes_.vector) - 1}});
    }
  }

  void inlineAll() {
    const MaxPosCalculator calculator(fusion_);
    const auto& tensors = calculator.graph().tensors();
    std::unordered_set<const TensorView*> batched;
    std::unordered_set<const TensorView*> in_bulk;
    if (staged_) {
      for (const VersionTensor& t : tensors_.all()) {
        if (t.staged != nullptr) {
          in_bulk.insert(t.staged);
        }
        if (t.cache != nullptr) {
          batched.insert(t.cache);
        }
        if (t.stored != nullptr && t.stored == t.computed) {
          insertComputed(t.stored->definition()->input(0), batched);
        } else if (t.stored != nullptr) {
          batched.insert(t.computed);
        }
      }
    }
    std::unordered_map<TensorView*, int64_t> positions;
    for (TensorView* tv : tensors) {
      if (tv->isFusionInput()) {
        continue; // not computed; one that is only looked up has no loops at all
      }
      positions[tv] = in_bulk.count(tv) != 0   ? tensors_.sharedAxes(tv, axes_.in_block)
                      : batched.count(tv) == 0 ? tensors_.axesToLastShared(tv)
                                               : tensors_.sharedAxes(tv, axes_.unswitch + 1);
    }
    inlineTensors(calculator, positions);
  }

  // What a scatter stores, if it is no scalar and is not read from memory.
  static void insertComputed(const Val* source, std::unordered_set<const TensorView*>& to) {
    if (source->isTensor() && !source->isFusionInput()) {
      to.insert(source->as<TensorView>());
    }
  }

  Fusion* fusion_;
  const PointwiseAnalysis& analysis_;
  const PointwiseParams& params_;
  VersionTensors tensors_;
  bool staged_ = false;
  int64_t break_point_ = 0;
  Axes axes_;
};

} // namespace
} // namespace pointwise

std::string PointwiseScheduler::whyNot(Fusion* fusion) const {
  std::string why;
  PointwiseAnalysis::run(fusion, &why);
  return why;
}

ChosenParams PointwiseScheduler::computeHeuristics(Fusion* fusion, SchedulerRuntimeInfo& info,
                                                   HeuristicCache* cache) const {
  const auto analysis = analysisOf<PointwiseAnalysis>(fusion, type(), cache);
  return pointwise::chooseParams(fusion, *analysis, info);
}

void PointwiseScheduler::schedule(Fusion* fusion, const HeuristicParams& params) const {
  const auto* pointwise_params = dynamic_cast<const PointwiseParams*>(&params);
  NVF_CHECK(pointwise_params != nullptr, "The pointwise scheduler needs PointwiseParams");
  NVF_CHECK(pointwise_params->vectorization_factor >= 1 &&
                pointwise_params->unroll_factor_inner >= 1 &&
                pointwise_params->unroll_factor_outer >= 1,
            "Vectorization and unroll factors must be at least 1");
  FusionGuard guard(fusion);
  const auto analysis = analysisOf<PointwiseAnalysis>(fusion, type());
  pointwise::PointwiseSchedule(fusion, *analysis, *pointwise_params).run();
}

} // namespace nvfuser
