// SPDX-License-Identifier: BSD-3-Clause
// Applying a transpose schedule.
//
// Every block computes one tile. The loops are
//   [BIDx, Unswitch, rows, TIDy, TIDx, vector]
// where Unswitch is left out of loops in which one thread runs a block.
// For the first group's tensors and everything computed, rows * TIDy run along dimension 2 and
// TIDx * vector along dimension 1; for the second group's copies, the vector runs along dimension 2
// and the rest of the tile is merged (tile_exchange.h).
#include <scheduler/transpose.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/exprs.h>
#include <scheduler/tile_exchange.h>
#include <scheduler/version_tensors.h>
#include <transform/inlining.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

namespace {

// Positions of the axes that all tensors have in common before they are split any further.
enum Axis : uint8_t { kBlock, kDimension2, kDimension1 };

class TransposeSchedule {
 public:
  TransposeSchedule(Fusion* fusion, const TransposeAnalysis& analysis,
                    const TransposeParams& params)
      : fusion_(fusion),
        analysis_(analysis),
        params_(params),
        tensors_(fusion, *analysis.pointwise) {
    exchange_.tile_1 = params.tile_1;
    exchange_.tile_2 = params.tile_2;
    exchange_.vector_1 = params.vectorization_1;
    exchange_.vector_2 = params.vectorization_2;
    exchange_.threads_x = params.blockDimX();
    exchange_.threads_y = params.blockDimY();
    exchange_.unswitch = !params.threads_in_loops;
    exchange_.threads_in_loops = params.threads_in_loops;
  }

  void run() {
    std::vector<bool> exchanged(analysis_.pointwise->versions.size());
    for (const pointwise::TensorAccess& access : analysis_.group_2) {
      exchanged[static_cast<size_t>(access.version - analysis_.pointwise->versions.data())] = true;
    }
    chooseVectorized(analysis_.group_1, analysis_.order_1, params_.merged_1,
                     params_.vectorization_1);
    chooseVectorized(analysis_.group_2, analysis_.order_2, params_.merged_2,
                     params_.vectorization_2);
    tensors_.rewrite(/*staged=*/true, exchanged);
    tile(tensors_.reference());
    tensors_.propagate();
    for (const TensorVersion& version : analysis_.pointwise->versions) {
      if (tensors_.of(version).shared != nullptr) {
        scheduleExchange(version);
      }
    }
    scheduleFirstGroup(tensors_.reference());
    tensors_.propagate([&](const TensorView* tv) { return second_.count(tv) != 0; });
    vectorizeFirstGroup();
    inlineAll();
  }

 private:
  void chooseVectorized(const std::vector<pointwise::TensorAccess>& group,
                        const std::vector<int64_t>& order, int64_t merged, int64_t width) {
    const std::vector<int64_t> axes = TransposeAnalysis::tileAxes(order, merged);
    for (const pointwise::TensorAccess& access : group) {
      const auto& excluded = params_.not_vectorized;
      if (width > 1 &&
          std::find(excluded.begin(), excluded.end(), access.position) == excluded.end() &&
          width * dataTypeSizeBits(access.tv->dtype()) <= 8 * kVectorBytes &&
          pointwise::isVectorizable(*analysis_.pointwise, *access.version, axes)) {
        tensors_.of(*access.version).vectorize = true;
      }
    }
  }

  // Merges the axes into [block, dimension 2 of the tile, dimension 1 of the tile].
  void tile(TensorView* tv) {
    const std::vector<int64_t> axes_1 =
        TransposeAnalysis::tileAxes(analysis_.order_1, params_.merged_1);
    const std::vector<int64_t> axes_2 =
        TransposeAnalysis::tileAxes(analysis_.order_2, params_.merged_2);
    const std::vector<IterDomain*>& loop = tv->getLoopDomain();
    auto merged = [&](const std::vector<int64_t>& axes) {
      IterDomain* id = loop[static_cast<size_t>(axes.front())];
      for (size_t i = 1; i < axes.size(); ++i) {
        id = IterDomain::merge(id, loop[static_cast<size_t>(axes[i])]);
      }
      return id;
    };
    IterDomain* outer_1 = merged(axes_1);
    IterDomain* outer_2 = merged(axes_2);
    IterDomain* inner_1 = splitOff(outer_1, params_.tile_1);
    IterDomain* inner_2 = splitOff(outer_2, params_.tile_2);
    IterDomain* block = nullptr;
    auto add = [&](IterDomain* id) {
      block = block == nullptr ? id : IterDomain::merge(block, id);
    };
    for (int64_t axis : analysis_.order_1) {
      if (std::find(axes_1.begin(), axes_1.end(), axis) == axes_1.end() &&
          std::find(axes_2.begin(), axes_2.end(), axis) == axes_2.end()) {
        add(loop[static_cast<size_t>(axis)]);
      }
    }
    add(params_.blocks_along_2 ? outer_1 : outer_2);
    add(params_.blocks_along_2 ? outer_2 : outer_1);
    block->parallelize(ParallelType::BIDx);
    tv->domain()->setLoopDomain({block, inner_2, inner_1});
  }

  void scheduleFirstGroup(TensorView* tv) {
    IterDomain* block = tv->axis(kBlock);
    IterDomain* rows = tv->axis(kDimension2);
    IterDomain* thread_x = tv->axis(kDimension1);
    IterDomain* vector = splitOff(thread_x, params_.vectorization_1);
    IterDomain* thread_y = splitOff(rows, params_.blockDimY());
    setLoops(tv, block, rows, thread_y, thread_x, vector);
  }

  void setLoops(TensorView* tv, IterDomain* block, IterDomain* rows, IterDomain* thread_y,
                IterDomain* thread_x, IterDomain* vector) const {
    thread_y->parallelize(ParallelType::TIDy);
    thread_x->parallelize(ParallelType::TIDx);
    // The copies of the second group have the same block axis, so that a tile is of one iteration.
    std::vector<IterDomain*> loop{block};
    if (exchange_.unswitch) {
      IterDomain* guarded = TileExchange::unswitched(loop);
      loop.push_back(guarded);
    }
    loop[0]->parallelize(ParallelType::BIDx);
    loop.insert(loop.end(), {rows, thread_y, thread_x, vector});
    tv->domain()->setLoopDomain(loop);
  }

  // The tensor's axes by their position in the reference, which it has all of.
  TileAxes tileAxes(const TensorView* tv) const {
    std::vector<IterDomain*> axes(kDimension1 + 1, nullptr);
    const std::vector<int64_t>& positions = tensors_.referenceAxes(tv);
    TileAxes out;
    for (size_t i = 0; i < positions.size(); ++i) {
      IterDomain* id = tv->axis(static_cast<int64_t>(i));
      if (positions[i] >= 0) {
        axes[static_cast<size_t>(positions[i])] = id;
      } else {
        out.others.push_back(id);
      }
    }
    NVF_ERROR(std::find(axes.begin(), axes.end(), nullptr) == axes.end(), tv->toString(),
              " lacks an axis of the tiles");
    axes[kBlock]->parallelize(ParallelType::BIDx);
    out.leading = {axes[kBlock]};
    out.dimension_2 = axes[kDimension2];
    out.dimension_1 = axes[kDimension1];
    return out;
  }

  void scheduleExchange(const TensorVersion& version) {
    const VersionTensor& t = tensors_.of(version);
    t.shared->setMemoryType(MemoryType::Shared);
    exchange_.allocate(t.shared, tileAxes(t.shared));
    const bool is_input = t.cache != nullptr;
    TensorView* in_global = is_input ? t.cache : t.stored; // copied from or to
    TensorView* in_shared = is_input ? t.shared : t.exchanged;
    for (TensorView* tv : {in_global, in_shared}) {
      second_.insert(tv);
      exchange_.scheduleCopy(tv, tileAxes(tv));
    }
    if (t.vectorize) {
      in_global->axis(-1)->parallelize(ParallelType::Vectorize);
    }
    // A slice or a pad may end within a vector where global memory is not accessed by vectors.
    const bool is_whole = VersionTensors::isReadWhole(*analysis_.pointwise, version);
    if (params_.vectorization_2 > 1 && (t.vectorize || is_whole)) {
      in_shared->axis(-1)->parallelize(ParallelType::Vectorize);
    }
  }

  void vectorizeFirstGroup() {
    for (const VersionTensor& t : tensors_.all()) {
      TensorView* tv = t.cache != nullptr ? t.cache : t.stored;
      if (t.vectorize && tv != nullptr && t.shared == nullptr) {
        tensors_.vectorize(tv, tensors_.reference()->nDims() - 1);
      }
    }
  }

  // Loads are batched before the barrier, if they can be under way together; results are computed
  // and stored vector by vector after it.
  void inlineAll() {
    std::unordered_map<TensorView*, int64_t> positions;
    for (TensorView* tv : TensorGraph(fusion_).tensors()) {
      positions[tv] = -1;
    }
    for (const VersionTensor& t : tensors_.all()) {
      if (t.cache != nullptr) {
        positions[t.cache] = params_.threads_in_loops ? -1
                             : t.shared != nullptr    ? 1
                                                      : tensors_.sharedAxes(t.cache, 1);
      }
      if (t.shared != nullptr) {
        positions[t.shared] = 1;
      }
      if (t.stored != nullptr && t.exchanged != nullptr) {
        positions[t.exchanged] = t.exchanged->nDims() - 1;
      } else if (t.stored != nullptr) {
        // An output may lack dimensions of the tiles, and with them the vectors.
        positions[t.computed] = tensors_.sharedAxes(t.computed, tensors_.reference()->nDims() - 1);
      }
    }
    inlineTensors(MaxPosCalculator(fusion_), positions);
  }

  Fusion* fusion_;
  const TransposeAnalysis& analysis_;
  const TransposeParams& params_;
  VersionTensors tensors_;
  TileExchange exchange_;
  // Tensors in the loops of the second group.
  std::unordered_set<const TensorView*> second_;
};

} // namespace

std::string TransposeScheduler::whyNot(Fusion* fusion) const {
  std::string why;
  TransposeAnalysis::run(fusion, &why);
  return why;
}

ChosenParams TransposeScheduler::computeHeuristics(Fusion* fusion, SchedulerRuntimeInfo& info,
                                                   HeuristicCache* cache) const {
  const auto analysis = analysisOf<TransposeAnalysis>(fusion, type(), cache);
  return pointwise::chooseTransposeParams(*analysis, info);
}

void TransposeScheduler::schedule(Fusion* fusion, const HeuristicParams& params) const {
  const auto* transpose_params = dynamic_cast<const TransposeParams*>(&params);
  NVF_CHECK(transpose_params != nullptr, "The transpose scheduler needs TransposeParams");
  FusionGuard guard(fusion);
  const auto analysis = analysisOf<TransposeAnalysis>(fusion, type());
  transpose_params->check();
  TransposeSchedule(fusion, *analysis, *transpose_params).run();
}

} // namespace nvfuser
