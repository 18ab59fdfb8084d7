// SPDX-License-Identifier: BSD-3-Clause
// Rewriting a fusion by versions, and propagating the reference's loops.
#include <scheduler/version_tensors.h>

#include <ir/builder.h>
#include <ir/exprs.h>
#include <ir/logical_map.h>
#include <transform/cache.h>
#include <transform/replay.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

VersionTensors::VersionTensors(Fusion* fusion, const PointwiseAnalysis& analysis)
    : fusion_(fusion), analysis_(analysis), tensors_(analysis.versions.size()) {}

VersionTensor& VersionTensors::of(const TensorVersion& version) {
  return tensors_[static_cast<size_t>(&version - analysis_.versions.data())];
}

bool VersionTensors::isReadWhole(const PointwiseAnalysis& analysis, const TensorVersion& version) {
  return std::none_of(version.view.begin(), version.view.end(),
                      [&](AxisTerms::Id t) { return analysis.terms.cutsDimensions(t); });
}

TensorView* VersionTensors::copyOf(TensorView* tv) {
  TensorView* copy = newTensorLike(tv);
  IrBuilder::createIn<LoadStoreOp>(fusion_, LoadStoreOpType::Set, copy, tv);
  return copy;
}

void VersionTensors::stageInBulk(const TensorVersion& version) {
  VersionTensor& t = of(version);
  t.staged = t.computed->cacheAfter(LoadStoreOpType::CpAsyncBulk);
  t.staged->setMemoryType(MemoryType::Shared);
}

void VersionTensors::rewrite(bool staged, const std::vector<bool>& exchanged) {
  const TensorGraph graph(fusion_);
  for (TensorView* tv : graph.tensors()) {
    const std::vector<int>& own = analysis_.versionsOf(tv);
    for (size_t i = 0; i < own.size(); ++i) {
      const auto v = static_cast<size_t>(own[i]);
      const TensorVersion& version = analysis_.versions[v];
      VersionTensor& t = tensors_[v];
      if (!tv->isFusionInput()) {
        t.computed = rewriteDefinition(tv, version, i == 0);
        continue;
      }
      t.computed = tv;
      if (staged) {
        t.cache = copyOf(tv);
        if (!exchanged.empty() && exchanged[v]) {
          t.shared = copyOf(t.cache);
          t.exchanged = copyOf(t.shared);
        }
      }
    }
  }
  separateOutputs(staged, exchanged);
  const VersionTensor& first = tensors_[0];
  const bool is_stored = first.stored != nullptr && first.exchanged == nullptr;
  reference_ = is_stored ? first.stored : first.computed;
}

TensorView* VersionTensors::rewriteDefinition(TensorView* tv, const TensorVersion& version,
                                              bool original) {
  Expr* def = tv->definition();
  std::vector<Val*> inputs = def->inputs();
  bool changed = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (version.inputs[i] >= 0) {
      TensorView* source = tensors_[static_cast<size_t>(version.inputs[i])].source();
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

void VersionTensors::separateOutputs(bool staged, const std::vector<bool>& exchanged) {
  std::unordered_set<Val*> done;
  const std::vector<Val*> outputs = fusion_->outputs();
  const std::unordered_set<const Val*> read = fusion_->outputsWithLiveUses();
  for (Val* val : outputs) {
    auto* out = val->as<TensorView>();
    if (out->isFusionInput() || !done.insert(out).second) {
      continue;
    }
    const auto v = static_cast<size_t>(analysis_.versionsOf(out)[0]);
    VersionTensor& t = tensors_[v];
    if (out->definition()->kind() == ExprKind::ScatterStoreOp) {
      t.stored = staged ? out : nullptr; // a copy of its source to where the index says
    } else if (read.count(out) != 0) {
      t.stored = out->cacheFork();
    } else if (staged) {
      t.computed = out->cacheBefore();
      t.stored = out;
    }
    if (t.stored != nullptr && !exchanged.empty() && exchanged[v]) {
      t.exchanged = t.stored->cacheBefore();
      t.shared = t.exchanged->cacheBefore();
    }
  }
}

// Makes `tv` follow `neighbour` and remembers which of the reference's axes its axes are.
void VersionTensors::follow(TensorView* tv, TensorView* neighbour, Kind kind) {
  const std::vector<int64_t>& known = reference_axes_.at(neighbour);
  std::vector<int64_t> partner;
  if (reference_axes_.count(tv) != 0) {
    // An input that is read in another way as well. Where the neighbour has no loop that it could
    // follow, those of the other way would stay.
    tv->domain()->setLoopDomain(tv->getLogicalDomain());
  }
  if (kind == Kind::Consumer) {
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
  setReferenceAxes(tv, std::move(own));
}

// Makes what nothing connects with the reference run through its loops, as the view says.
void VersionTensors::followReference(TensorView* tv, const View& view) {
  const std::vector<IterDomain*> dims = logicalIds(tv);
  const std::vector<IterDomain*> axes = logicalIds(reference_);
  IterDomainMap map;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (view[i] != AxisTerms::kMissing) {
      map[axes[i]] = dims[static_cast<size_t>(analysis_.terms[view[i]].a)];
    }
  }
  setReferenceAxes(tv, replayAs(tv, reference_, std::move(map)));
}

void VersionTensors::setReferenceAxes(TensorView* tv, std::vector<int64_t> own) {
  if (!tv->isFusionInput()) {
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i] >= 0) {
        tv->axis(static_cast<int64_t>(i))->parallelize(reference_->axis(own[i])->parallelType());
      }
    }
  }
  reference_axes_[tv] = std::move(own);
}

// Whether `consumer` reads the input itself: it is not cached, or looked up.
bool VersionTensors::readsInput(const TensorView* consumer, const VersionTensor& input) {
  return input.cache == nullptr || lookedUpTensor(consumer->definition()) == input.computed;
}

void VersionTensors::propagate(const std::function<bool(const TensorView*)>& others) {
  reference_axes_.clear();
  std::vector<int64_t>& own = reference_axes_[reference_];
  for (int64_t i = 0; i < reference_->nDims(); ++i) {
    own.push_back(i);
  }
  // Along a chain of copies, as far as it is not for others.
  auto followChain = [&](TensorView* from, const std::vector<TensorView*>& chain, Kind kind) {
    for (TensorView* tv : chain) {
      if (tv == nullptr) {
        continue;
      }
      if (others != nullptr && others(tv)) {
        return;
      }
      if (reference_axes_.count(tv) == 0) {
        follow(tv, from, kind);
      }
      from = tv;
    }
  };
  for (size_t v = 0; v < tensors_.size(); ++v) {
    const VersionTensor& t = tensors_[v];
    const TensorVersion& version = analysis_.versions[v];
    const bool is_input = t.computed->isFusionInput();
    if (v == 0) {
      if (reference_ == t.stored) {
        followChain(reference_, {t.computed}, Kind::Consumer);
      } else {
        followChain(reference_, {t.shared, t.exchanged, t.stored}, Kind::Producer);
      }
      continue;
    }
    const VersionTensor& parent = tensors_[static_cast<size_t>(version.parent)];
    TensorView* neighbour = version.kind == Kind::Consumer ? parent.computed : parent.source();
    if (version.kind == Kind::Producer && parent.computed->isFusionInput() &&
        readsInput(t.computed, parent)) {
      // All versions of an input are one tensor: it has the loops of the last.
      const TensorVersion& input = analysis_.versions[static_cast<size_t>(version.parent)];
      follow(parent.computed,
             parent.cache == nullptr ? tensors_[static_cast<size_t>(input.parent)].computed
                                     : neighbour,
             Kind::Consumer);
      neighbour = parent.computed;
    }
    if (version.kind == Kind::OfSameSizes) {
      followReference(t.source(), version.view);
    } else {
      follow(t.source(), neighbour, version.kind);
    }
    if (is_input) {
      if (t.exchanged != nullptr) {
        followChain(t.exchanged, {t.shared, t.cache, t.computed}, Kind::Consumer);
      } else if (t.cache != nullptr) {
        followChain(t.cache, {t.staged, t.computed}, Kind::Consumer);
      }
    } else {
      followChain(t.computed, {t.shared, t.exchanged, t.stored}, Kind::Producer);
    }
  }
}

int64_t VersionTensors::sharedAxes(const TensorView* tv, int64_t end) const {
  const std::vector<int64_t>& axes = referenceAxes(tv);
  int64_t n = 0;
  while (n < static_cast<int64_t>(axes.size()) && axes[static_cast<size_t>(n)] >= 0 &&
         axes[static_cast<size_t>(n)] < end) {
    ++n;
  }
  return n;
}

int64_t VersionTensors::axesToLastShared(const TensorView* tv) const {
  const std::vector<int64_t>& axes = referenceAxes(tv);
  const auto last =
      std::find_if(axes.rbegin(), axes.rend(), [](int64_t axis) { return axis >= 0; });
  return axes.rend() - last;
}

void VersionTensors::vectorize(TensorView* tv, int64_t axis) {
  std::vector<int64_t>& axes = reference_axes_.at(tv);
  const int64_t vector = axesToLastShared(tv) - 1;
  if (vector < 0 || axes[static_cast<size_t>(vector)] != axis) {
    return;
  }
  tv->reorder(std::unordered_map<int64_t, int64_t>{{vector, -1}});
  std::rotate(axes.begin() + vector, axes.begin() + vector + 1, axes.end());
  tv->axis(-1)->parallelize(ParallelType::Vectorize);
}

} // namespace nvfuser
