// Applying a pointwise schedule.
#include <scheduler/pointwise.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/exprs.h>
#include <transform/cache.h>
#include <transform/inlining.h>
#include <transform/replay.h>

#include <algorithm>
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
        out.push_back({tv, position, &analysis.versions[static_cast<size_t>(i)]});
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

namespace {

// A term from its innermost part to its outermost.
void flattenTerm(const ViewTerms& terms, ViewTerms::Id id, std::vector<ViewTerms::Id>& out) {
  if (terms[id].kind == ViewTerms::Kind::Merge) {
    flattenTerm(terms, terms[id].b, out);
    flattenTerm(terms, terms[id].a, out);
  } else {
    out.push_back(id);
  }
}

} // namespace

ContiguousRun contiguousRun(
    const PointwiseAnalysis& analysis,
    const TensorVersion& version,
    size_t first_axis) {
  using Kind = ViewTerms::Kind;
  const ViewTerms& terms = analysis.terms;
  const TensorView* tv = version.tv;
  const auto dims = TensorDomain::noReductions(tv->getLogicalDomain());
  // Memory order, innermost first, without broadcasts.
  std::vector<std::pair<IterDomain*, bool>> memory;
  const auto& allocation = tv->getMaybeAllocationDomain();
  for (size_t i = allocation.size(); i-- > 0;) {
    const std::optional<bool>& contiguous = tv->getContiguity()[i];
    if (!allocation[i]->isBroadcast() && !allocation[i]->isReduction()) {
      memory.emplace_back(allocation[i], contiguous.value_or(false));
    }
  }
  std::vector<ViewTerms::Id> parts;
  for (size_t i = analysis.loop_order.size(); i-- > first_axis;) {
    const auto axis = static_cast<size_t>(analysis.loop_order[i]);
    const bool trivial = analysis.reference->getLogicalDomain()[axis]->isBroadcast();
    if (version.view[axis] == ViewTerms::kMissing) {
      if (trivial) {
        continue;
      }
      break;
    }
    flattenTerm(terms, version.view[axis], parts);
  }
  ContiguousRun run;
  size_t next = 0; // in `memory`
  for (size_t i = 0; i < parts.size(); ++i) {
    const ViewTerms::Node& node = terms[parts[i]];
    const bool inner_part = node.kind == Kind::SplitInner && terms[node.a].kind == Kind::Dimension;
    if (node.kind != Kind::Dimension && !inner_part) {
      break;
    }
    IterDomain* dim = dims[static_cast<size_t>(inner_part ? terms[node.a].a : node.a)];
    if (dim->isBroadcast()) {
      break;
    }
    if (next >= memory.size() || memory[next].first != dim || !memory[next].second) {
      break;
    }
    run.dims.push_back(dim);
    ++next;
    if (inner_part) {
      // Whole if the outer part follows.
      if (i + 1 < parts.size()) {
        const ViewTerms::Node& outer = terms[parts[i + 1]];
        if (outer.kind == Kind::SplitOuter && outer.a == node.a && outer.v0 == node.v0 &&
            outer.inner_split == node.inner_split) {
          ++i;
          continue;
        }
      }
      // With an outer split the factor is the other part's extent: nothing is known of this one.
      if (!node.inner_split) {
        run.dims.pop_back();
      } else {
        run.partial = node.v0;
      }
      break;
    }
  }
  return run;
}

bool isVectorizable(
    const PointwiseAnalysis& analysis,
    const TensorVersion& version,
    size_t first_axis) {
  const auto dims = TensorDomain::noReductions(version.tv->getLogicalDomain());
  for (size_t i = first_axis; i < analysis.loop_order.size(); ++i) {
    const auto axis = static_cast<size_t>(analysis.loop_order[i]);
    if (analysis.reference->getLogicalDomain()[axis]->isBroadcast()) {
      continue;
    }
    std::vector<int64_t> contained;
    analysis.terms.dimensionsOf(version.view[axis], contained);
    const bool there = std::any_of(contained.begin(), contained.end(), [&](int64_t d) {
      return !dims[static_cast<size_t>(d)]->isBroadcast();
    });
    if (!there || analysis.terms.contains(version.view[axis], ViewTerms::Kind::Resize)) {
      return false;
    }
  }
  return !contiguousRun(analysis, version, first_axis).dims.empty();
}

namespace {

// The tensors of a version once the fusion has been rewritten.
struct Placed {
  TensorView* computed = nullptr; // holds the definition, or the input itself
  TensorView* cache = nullptr; // registers that an input is loaded into
  TensorView* stored = nullptr; // output that `computed` is copied to
  bool vectorize = false; // the access to global memory

  // What consumers read.
  TensorView* source() const {
    return cache != nullptr ? cache : computed;
  }
};

// The reference's loop axes by role; null where there is none.
struct Axes {
  std::vector<IterDomain*> order;
  int64_t unswitch = -1; // position
  int64_t vector = -1; // position
};

class PointwiseSchedule {
 public:
  PointwiseSchedule(Fusion* fusion, const PointwiseAnalysis& analysis, const PointwiseParams& params)
      : fusion_(fusion), analysis_(analysis), params_(params), placed_(analysis.versions.size()) {
    // Loads are issued in batches, and stores come in vectors, only if a thread has several elements.
    staged_ = params.vectorization_factor > 1 || params.unroll_factor_inner > 1 ||
        params.unroll_factor_outer > 1;
    const auto rank = static_cast<int64_t>(analysis.loop_order.size());
    break_point_ = params.break_point > 0 && params.break_point < rank ? params.break_point : 0;
  }

  void run() {
    chooseVectorized();
    rewrite();
    separateOutputs();
    Placed& reference = placed_[0];
    reference_ = reference.stored != nullptr ? reference.stored : reference.computed;
    scheduleReference();
    propagate();
    vectorizeAccesses();
    inlineAll();
  }

 private:
  void chooseVectorized() {
    if (params_.vectorization_factor <= 1) {
      return;
    }
    for (const TensorAccess& access : tensorAccesses(fusion_, analysis_)) {
      const bool excluded = std::find(
                                params_.not_vectorized.begin(),
                                params_.not_vectorized.end(),
                                access.position) != params_.not_vectorized.end();
      const bool fits =
          params_.vectorization_factor * dataTypeSizeBits(access.tv->dtype()) <= 128;
      if (!excluded && fits &&
          isVectorizable(analysis_, *access.version, static_cast<size_t>(break_point_))) {
        placed_[static_cast<size_t>(access.version - analysis_.versions.data())].vectorize = true;
      }
    }
  }

  // Gives each version a tensor: copies of computed ones, caches of inputs.
  void rewrite() {
    const TensorGraph graph(fusion_);
    for (TensorView* tv : graph.tensors()) {
      const std::vector<int>& own = analysis_.versionsOf(tv);
      for (size_t i = 0; i < own.size(); ++i) {
        const auto v = static_cast<size_t>(own[i]);
        const TensorVersion& version = analysis_.versions[v];
        if (tv->isFusionInput()) {
          placed_[v].computed = tv;
          if (staged_ && mayCache(version)) {
            placed_[v].cache = newTensorLike(tv);
            IrBuilder::createIn<LoadStoreOp>(
                fusion_, LoadStoreOpType::Set, placed_[v].cache, tv);
          }
          continue;
        }
        placed_[v].computed = rewriteDefinition(tv, version, i == 0);
      }
    }
  }

  // An input that is read through a slice or a pad is read by that op: a cache would hold other elements.
  bool mayCache(const TensorVersion& version) const {
    return std::none_of(version.view.begin(), version.view.end(), [&](ViewTerms::Id t) {
      return analysis_.terms.contains(t, ViewTerms::Kind::Resize);
    });
  }

  TensorView* rewriteDefinition(TensorView* tv, const TensorVersion& version, bool original) {
    Expr* def = tv->definition();
    std::vector<Val*> inputs = def->inputs();
    bool changed = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (version.inputs[i] >= 0) {
        TensorView* source = placed_[static_cast<size_t>(version.inputs[i])].source();
        changed = changed || source != inputs[i];
        inputs[i] = source;
      }
    }
    if (!original) {
      return recompute(tv, inputs);
    }
    if (changed) {
      std::unordered_map<Val*, Val*> replacements;
      for (size_t i = 0; i < inputs.size(); ++i) {
        replacements[def->inputs()[i]] = inputs[i];
      }
      copyExprWith(fusion_, def, replacements);
    }
    return tv;
  }

  // Outputs that are read again are computed in registers and copied; so are all when stores are staged.
  void separateOutputs() {
    std::unordered_set<Val*> done;
    const std::vector<Val*> outputs = fusion_->outputs();
    for (Val* v : outputs) {
      auto* out = v->as<TensorView>();
      if (out->isFusionInput() || !done.insert(out).second) {
        continue;
      }
      Placed& place = placed_[static_cast<size_t>(analysis_.versionsOf(out)[0])];
      if (!fusion_->liveUses(out).empty()) {
        place.stored = out->cacheFork();
      } else if (staged_) {
        place.computed = out->cacheBefore();
        place.stored = out;
      }
    }
  }

  void scheduleReference() {
    TensorView* tv = reference_;
    if (tv->nDims() == 0) {
      return;
    }
    tv->reorder(analysis_.loop_order);
    if (break_point_ == 0) {
      schedule1D(tv);
    } else {
      schedule2D(tv);
    }
    tv->domain()->setLoopDomain(axes_.order);
  }

  static IterDomain* splitOff(IterDomain*& id, int64_t factor) {
    auto [outer, inner] =
        IterDomain::split(id, IrBuilder::createIn<Val>(id->container(), factor, DataType::Index), true);
    id = outer;
    return inner;
  }

  void place(IterDomain* id, ParallelType type = ParallelType::Serial) {
    if (id != nullptr) {
      id->parallelize(type);
      axes_.order.push_back(id);
    }
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
    place(thread, ParallelType::TIDx);
    placeInner(unswitch, {unrolled}, vector);
  }

  void schedule2D(TensorView* tv) {
    tv->flatten(0, break_point_ - 1);
    tv->flatten(1, -1);
    IterDomain* row_block = tv->axis(0);
    IterDomain* block = tv->axis(1);
    IterDomain* vector =
        params_.vectorization_factor > 1 ? splitOff(block, params_.vectorization_factor) : nullptr;
    IterDomain* thread = splitOff(block, params_.blockDimX());
    IterDomain* unrolled =
        params_.unroll_factor_inner > 1 ? splitOff(block, params_.unroll_factor_inner) : nullptr;
    IterDomain* unswitch = staged_ ? splitOff(block, 1) : nullptr;
    IterDomain* row_thread = params_.split_block ? splitOff(row_block, params_.blockDimY()) : nullptr;
    IterDomain* rows =
        params_.unroll_factor_outer > 1 ? splitOff(row_block, params_.unroll_factor_outer) : nullptr;
    IterDomain* row_serial = nullptr;
    if (params_.split_grid_y_dim) {
      row_serial = row_block;
      row_block = splitOff(row_serial, 65535);
    }
    place(row_serial);
    place(row_block, params_.flip_grid_binding ? ParallelType::BIDx : ParallelType::BIDy);
    place(block, params_.flip_grid_binding ? ParallelType::BIDy : ParallelType::BIDx);
    place(row_thread, ParallelType::TIDy);
    place(thread, ParallelType::TIDx);
    placeInner(unswitch, {rows, unrolled}, vector);
  }

  void placeInner(IterDomain* unswitch, const std::vector<IterDomain*>& unrolled, IterDomain* vector) {
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

  // Makes `tv` follow `neighbour` and remembers which of the reference's axes its axes are.
  void follow(TensorView* tv, TensorView* neighbour, bool neighbour_is_consumer) {
    const std::vector<int64_t>& known = reference_axes_.at(neighbour);
    std::vector<int64_t> partner;
    if (neighbour_is_consumer) {
      replayProducerAsConsumer(tv, neighbour, neighbour->nDims());
      partner = mapLoopAxes(tv, neighbour).producer_to_consumer;
    } else {
      replayConsumerAsProducer(tv, neighbour, neighbour->nDims());
      partner = mapLoopAxes(neighbour, tv).consumer_to_producer;
    }
    std::vector<int64_t> own;
    for (int64_t p : partner) {
      own.push_back(p < 0 ? -1 : known[static_cast<size_t>(p)]);
    }
    if (!tv->isFusionInput()) {
      for (size_t i = 0; i < own.size(); ++i) {
        if (own[i] >= 0) {
          tv->axis(static_cast<int64_t>(i))
              ->parallelize(reference_->axis(own[i])->parallelType());
        }
      }
    }
    reference_axes_[tv] = std::move(own);
  }

  void propagate() {
    std::vector<int64_t>& own = reference_axes_[reference_];
    for (int64_t i = 0; i < reference_->nDims(); ++i) {
      own.push_back(i);
    }
    for (size_t v = 0; v < placed_.size(); ++v) {
      const Placed& place = placed_[v];
      const TensorVersion& version = analysis_.versions[v];
      if (v == 0) {
        if (place.computed != reference_) {
          follow(place.computed, reference_, true);
        }
        continue;
      }
      const Placed& parent = placed_[static_cast<size_t>(version.parent)];
      TensorView* neighbour = version.parent_is_consumer ? parent.computed : parent.source();
      if (!version.parent_is_consumer && neighbour->isFusionInput()) {
        // All versions of an input that is not cached are one tensor: it has the loops of the last.
        const TensorVersion& input = analysis_.versions[static_cast<size_t>(version.parent)];
        follow(neighbour, placed_[static_cast<size_t>(input.parent)].computed, true);
      }
      follow(place.source(), neighbour, version.parent_is_consumer);
      if (place.cache != nullptr) {
        if (reference_axes_.count(place.computed) == 0) {
          follow(place.computed, place.cache, true);
        }
      }
      if (place.stored != nullptr) {
        follow(place.stored, place.computed, false);
      }
    }
  }

  void vectorizeAccesses() {
    if (axes_.vector < 0) {
      return;
    }
    for (const Placed& place : placed_) {
      TensorView* tv = place.cache != nullptr ? place.cache : place.stored;
      if (!place.vectorize || tv == nullptr) {
        continue;
      }
      const std::vector<int64_t>& axes = reference_axes_.at(tv);
      if (!axes.empty() && axes.back() == axes_.vector) {
        tv->axis(-1)->parallelize(ParallelType::Vectorize);
      }
    }
  }

  void inlineAll() {
    const MaxPosCalculator calculator(fusion_);
    const auto& tensors = calculator.graph().tensors();
    std::unordered_set<const TensorView*> batched;
    if (staged_) {
      for (const Placed& place : placed_) {
        if (place.cache != nullptr) {
          batched.insert(place.cache);
        }
        if (place.stored != nullptr) {
          batched.insert(place.computed);
        }
      }
      for (const TensorView* tv : tensors) {
        if (readsInputThroughResize(tv)) {
          batched.insert(tv);
        }
      }
    }
    std::unordered_map<TensorView*, int64_t> positions;
    for (TensorView* tv : tensors) {
      const std::vector<int64_t>& axes = reference_axes_.at(tv);
      if (batched.count(tv) == 0) {
        // Dimensions of one element that no axis contains need no common loop, and neighbours in
        // different places may have them.
        const auto last = std::find_if(axes.rbegin(), axes.rend(), [](int64_t axis) { return axis >= 0; });
        positions[tv] = axes.rend() - last;
        continue;
      }
      int64_t pos = 0;
      while (pos < static_cast<int64_t>(axes.size()) && axes[static_cast<size_t>(pos)] >= 0 &&
             axes[static_cast<size_t>(pos)] <= axes_.unswitch) {
        ++pos;
      }
      positions[tv] = pos;
    }
    inlineTensors(calculator, positions);
  }

  static bool readsInputThroughResize(const TensorView* tv) {
    const Expr* def = tv->definition();
    return def != nullptr &&
        (def->kind() == ExprKind::SliceOp || def->kind() == ExprKind::PadOp) &&
        def->input(0)->isFusionInput();
  }

  Fusion* fusion_;
  const PointwiseAnalysis& analysis_;
  const PointwiseParams& params_;
  std::vector<Placed> placed_; // by version
  bool staged_ = false;
  int64_t break_point_ = 0;
  TensorView* reference_ = nullptr;
  Axes axes_;
  // For each loop axis of a tensor, the position of the reference's axis that it is, or -1.
  std::unordered_map<const TensorView*, std::vector<int64_t>> reference_axes_;
};

} // namespace
} // namespace pointwise

std::string PointwiseScheduler::whyNot(Fusion* fusion) const {
  std::string why;
  PointwiseAnalysis::run(fusion, &why);
  return why;
}

std::unique_ptr<HeuristicParams> PointwiseScheduler::computeHeuristics(
    Fusion* fusion,
    SchedulerRuntimeInfo& info,
    HeuristicCache* cache) const {
  std::shared_ptr<const PointwiseAnalysis> analysis;
  if (cache != nullptr && cache->data != nullptr) {
    analysis = std::static_pointer_cast<const PointwiseAnalysis>(cache->data);
  } else {
    std::string why;
    analysis = PointwiseAnalysis::run(fusion, &why);
    NVF_CHECK(why.empty(), "The pointwise scheduler cannot take this fusion: ", why);
    if (cache != nullptr) {
      cache->data = analysis;
    }
  }
  return pointwise::chooseParams(fusion, *analysis, info);
}

void PointwiseScheduler::schedule(Fusion* fusion, const HeuristicParams& params) const {
  const auto* pointwise_params = dynamic_cast<const PointwiseParams*>(&params);
  NVF_CHECK(pointwise_params != nullptr, "The pointwise scheduler needs PointwiseParams");
  NVF_CHECK(
      pointwise_params->vectorization_factor >= 1 && pointwise_params->unroll_factor_inner >= 1 &&
          pointwise_params->unroll_factor_outer >= 1,
      "Vectorization and unroll factors must be at least 1");
  FusionGuard guard(fusion);
  std::string why;
  const std::unique_ptr<PointwiseAnalysis> analysis = PointwiseAnalysis::run(fusion, &why);
  NVF_CHECK(why.empty(), "The pointwise scheduler cannot take this fusion: ", why);
  pointwise::PointwiseSchedule(fusion, *analysis, *pointwise_params).run();
}

} // namespace nvfuser
