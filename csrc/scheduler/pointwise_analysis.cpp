// SPDX-License-Identifier: BSD-3-Clause
// Relating every tensor of a fusion to a reference output.
#include <scheduler/pointwise_analysis.h>

#include <base/error.h>
#include <ir/exprs.h>
#include <ir/logical_map.h>
#include <ir/op_traits.h>
#include <ir/visitor.h>
#include <transform/replay.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

namespace {

using Ids = std::vector<IterDomain*>;

// Dimensions as consumers see them.
int64_t numConcreteDims(const TensorView* tv) {
  const auto& ids = tv->getLogicalDomain();
  return std::count_if(ids.begin(), ids.end(), [](const IterDomain* id) {
    return !id->isBroadcast() && !id->isReduction();
  });
}

// Every dimension of the producer is the consumer's dimension at the same position.
bool isPositional(const TensorView* consumer) {
  switch (consumer->definition()->kind()) {
    case ExprKind::ElementwiseOp:
    case ExprKind::LoadStoreOp:
    case ExprKind::ExpandOp:
    case ExprKind::CatOp:
      return !consumer->hasRoot();
    default:
      return false;
  }
}

// For each dimension of the consumer, its term over the producer's dimensions.
std::vector<AxisTerms::Id> consumerOverProducer(AxisTerms& terms, const TensorView* consumer,
                                                const TensorView* producer) {
  std::unordered_map<const Val*, int64_t> position;
  const Ids p_dims = logicalIds(producer);
  for (size_t i = 0; i < p_dims.size(); ++i) {
    position[p_dims[i]] = static_cast<int64_t>(i);
  }
  std::unordered_map<const Val*, AxisTerms::Id> term;
  for (const auto& [p, c] : PairwiseLogicalMap(producer, consumer).pairs()) {
    term[c] = terms.dimension(position.at(p));
  }
  for (Expr* e : transformsBetween(consumer->getMaybeRootDomain(), consumer->getLogicalDomain())) {
    switch (e->kind()) {
      case ExprKind::Merge:
        term[e->output(0)] = terms.merge(term[e->input(0)], term[e->input(1)]);
        break;
      case ExprKind::Split: {
        auto* s = static_cast<Split*>(e);
        const AxisTerms::Id in = term[s->in()];
        term[s->outer()] = terms.splitPart(in, s->factor(), s->innerSplit(), false);
        term[s->inner()] = terms.splitPart(in, s->factor(), s->innerSplit(), true);
        break;
      }
      case ExprKind::Resize: {
        auto* r = static_cast<Resize*>(e);
        term[r->out()] = terms.resize(term[r->in()], r->left(), r->right());
        break;
      }
      default:
        break; // stays missing
    }
  }
  std::vector<AxisTerms::Id> out;
  for (const IterDomain* id : logicalIds(consumer)) {
    auto it = term.find(id);
    out.push_back(it == term.end() ? AxisTerms::kMissing : it->second);
  }
  return out;
}

// Copies of computed tensors that one kernel may hold, so that recomputing stays cheaper than
// another pass over memory [hand, see machine.h].
constexpr size_t kMaxCopies = 48;
// Outputs that are tried as reference: planning takes time for each [hand].
constexpr size_t kMaxCandidates = 6;

} // namespace

const std::vector<int>& PointwiseAnalysis::versionsOf(const TensorView* tv) const {
  static const std::vector<int> none;
  auto it = versions_of_.find(tv);
  return it == versions_of_.end() ? none : it->second;
}

const TensorVersion* PointwiseAnalysis::firstVersion(const TensorView* tv) const {
  const std::vector<int>& all = versionsOf(tv);
  return all.empty() ? nullptr : &versions[static_cast<size_t>(all[0])];
}

bool PointwiseAnalysis::hasAxis(const TensorVersion& version, int64_t axis) const {
  const Ids dims = logicalIds(version.tv);
  std::vector<int64_t> contained;
  terms.dimensionsOf(version.view[static_cast<size_t>(axis)], contained);
  return std::any_of(contained.begin(), contained.end(),
                     [&](int64_t d) { return !dims[static_cast<size_t>(d)]->isBroadcast(); });
}

int64_t PointwiseAnalysis::placeOf(AxisTerms::Id axis,
                                   const std::vector<size_t>& dimensions) const {
  std::vector<int64_t> contained;
  terms.dimensionsOf(axis, contained);
  int64_t place = -1;
  for (const int64_t d : contained) {
    const auto it = std::find(dimensions.begin(), dimensions.end(), static_cast<size_t>(d));
    place = std::max<int64_t>(place, it == dimensions.end() ? -1 : it - dimensions.begin());
  }
  return place;
}

// In one order, whichever way led to them. Those that elements were cut out of stay in the order in
// which they come: x[i] * x[j] at one i and one j reads x in two ways.
void PointwiseAnalysis::sortOthers(View& view) const {
  const auto first = view.begin() + static_cast<std::ptrdiff_t>(num_axes);
  const auto first_cut = std::stable_partition(first, view.end(), [&](AxisTerms::Id t) {
    return !terms.contains(t, AxisTerms::Kind::Resize);
  });
  std::sort(first, first_cut);
}

View PointwiseAnalysis::viewOfProducer(const TensorView* producer, const TensorView* consumer,
                                       const View& view) {
  if (isPositional(consumer)) {
    return view;
  }
  View out = terms.substitute(view, consumerOverProducer(terms, consumer, producer));
  out.erase(std::remove(out.begin() + static_cast<std::ptrdiff_t>(num_axes), out.end(),
                        AxisTerms::kMissing),
            out.end());
  // Dimensions that nothing contains stand for themselves.
  std::vector<int64_t> contained;
  for (AxisTerms::Id t : out) {
    terms.dimensionsOf(t, contained);
  }
  const auto rank = static_cast<int64_t>(logicalIds(producer).size());
  for (int64_t i = 0; i < rank; ++i) {
    if (std::find(contained.begin(), contained.end(), i) == contained.end()) {
      out.push_back(terms.dimension(i));
    }
  }
  sortOthers(out);
  return out;
}

std::optional<View> PointwiseAnalysis::viewOfConsumer(const TensorView* consumer,
                                                      const TensorView* producer,
                                                      const View& view) {
  if (isPositional(consumer)) {
    return view;
  }
  const std::vector<AxisTerms::Id> over = consumerOverProducer(terms, consumer, producer);
  std::unordered_map<AxisTerms::Id, int64_t> dimensions;
  for (size_t i = 0; i < over.size(); ++i) {
    if (over[i] != AxisTerms::kMissing) {
      dimensions[over[i]] = static_cast<int64_t>(i);
    }
  }
  // Squeezed dimensions of the producer are not there any more.
  std::vector<AxisTerms::Id> keep;
  const Ids p_dims = logicalIds(producer);
  const IterDomainMap p2c = PairwiseLogicalMap(producer, consumer).producerToConsumer();
  for (size_t i = 0; i < p_dims.size(); ++i) {
    keep.push_back(p2c.count(p_dims[i]) != 0 ? terms.dimension(static_cast<int64_t>(i))
                                             : AxisTerms::kMissing);
  }
  View out;
  std::vector<int64_t> contained;
  for (const std::optional<AxisTerms::Id>& t :
       terms.abstract(terms.substitute(view, keep), dimensions)) {
    if (!t.has_value()) {
      return std::nullopt;
    }
    if (out.size() < num_axes || *t != AxisTerms::kMissing) {
      out.push_back(*t);
      terms.dimensionsOf(*t, contained);
    }
  }
  for (size_t i = 0; i < over.size(); ++i) {
    if (std::find(contained.begin(), contained.end(), static_cast<int64_t>(i)) == contained.end()) {
      out.push_back(terms.dimension(static_cast<int64_t>(i)));
    }
  }
  sortOthers(out);
  return out;
}

// The part of a consumer's view that follows for certain. A broadcast of the producer that is
// concrete in the consumer may have become something else there than in the reference; so may one
// that the consumer transforms while the reference has expanded it before, and then the sizes tell.
View PointwiseAnalysis::sureViewOfConsumer(const TensorView* consumer, const TensorView* producer,
                                           View view) const {
  // By which of the consumer's dimensions that is.
  std::unordered_set<const Val*> unsure;
  std::unordered_set<const Val*> transformed;
  for (const auto& [p, c] : PairwiseLogicalMap(producer, consumer).pairs()) {
    if (p->isBroadcast()) {
      (c->isBroadcast() ? transformed : unsure).insert(c);
    }
  }
  if (unsure.empty() && transformed.empty()) {
    return view;
  }
  for (const Expr* e :
       transformsBetween(consumer->getMaybeRootDomain(), consumer->getLogicalDomain())) {
    for (auto* set : {&unsure, &transformed}) {
      if (std::any_of(e->inputs().begin(), e->inputs().end(),
                      [&](const Val* in) { return set->count(in) != 0; })) {
        set->insert(e->outputs().begin(), e->outputs().end());
      }
    }
  }
  const Ids dims = logicalIds(consumer);
  auto isSure = [&](AxisTerms::Id t, size_t axis, const IterDomain* dim) {
    if (unsure.count(dim) != 0) {
      return false;
    }
    const bool may_be_larger = transformed.count(dim) != 0 && !dim->isBroadcast();
    return !may_be_larger || (terms[t].kind == AxisTerms::Kind::Dimension &&
                              dim->extent()->sameAs(logicalIds(reference)[axis]->extent()));
  };
  for (size_t axis = 0; axis < num_axes; ++axis) {
    std::vector<int64_t> contained;
    terms.dimensionsOf(view[axis], contained);
    if (!std::all_of(contained.begin(), contained.end(), [&](int64_t d) {
          return isSure(view[axis], axis, dims[static_cast<size_t>(d)]);
        })) {
      view[axis] = AxisTerms::kMissing;
    }
  }
  return view;
}

bool PointwiseAnalysis::coversForWriting(const TensorView* tv, const View& view) const {
  // Of a tensor of one element, the loops may come to another element of what it is padded to.
  if (std::any_of(view.begin(), view.end(),
                  [&](AxisTerms::Id axis) { return terms.cutsDimensions(axis); })) {
    return false;
  }
  const std::vector<AxisTerms::Id> axes(view.begin(),
                                        view.begin() + static_cast<std::ptrdiff_t>(num_axes));
  const std::unordered_set<int64_t> whole = terms.wholeDimensions(axes);
  const Ids dims = logicalIds(tv);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i]->isBroadcast() && whole.count(static_cast<int64_t>(i)) == 0) {
      return false;
    }
  }
  return true;
}

int PointwiseAnalysis::demand(TensorView* tv, View view, int parent, TensorVersion::Parent kind) {
  std::vector<int>& known = versions_of_[tv];
  for (int v : known) {
    if (versions[static_cast<size_t>(v)].view == view) {
      return v;
    }
  }
  const int id = static_cast<int>(versions.size());
  if (!known.empty() && !tv->isFusionInput()) {
    ++num_copies_;
  }
  known.push_back(id);
  versions.push_back({tv, std::move(view), {}, parent, kind});
  if (tv->definition() != nullptr && !tv->isFusionInput()) {
    pending_.emplace(-position_.at(tv), id);
  }
  return id;
}

bool PointwiseAnalysis::demandProducers(size_t max_versions) {
  while (!pending_.empty()) {
    const int v = pending_.begin()->second;
    pending_.erase(pending_.begin());
    // By index: versions grows.
    TensorView* tv = versions[static_cast<size_t>(v)].tv;
    const Expr* def = tv->definition();
    std::vector<int> inputs;
    for (Val* in : def->inputs()) {
      // What is looked up is read where it is, by no loops of its own.
      if (!in->isTensor() || in == lookedUpTensor(def)) {
        inputs.push_back(-1);
        continue;
      }
      auto* producer = static_cast<TensorView*>(in);
      View view = viewOfProducer(producer, tv, versions[static_cast<size_t>(v)].view);
      inputs.push_back(demand(producer, std::move(view), v, TensorVersion::Parent::Consumer));
      if (num_copies_ > max_versions) {
        conflicts.push_back(producer);
        return false;
      }
    }
    versions[static_cast<size_t>(v)].inputs = std::move(inputs);
  }
  return true;
}

// The dimensions of more than one element, as memory has them. Empty: it is made of other ones.
static std::vector<size_t> sizedDimsInMemory(const TensorView* tv) {
  const Ids dims = logicalIds(tv);
  std::vector<size_t> out = tv->domain()->memoryOrder();
  std::erase_if(out, [&](size_t d) { return dims[d]->isBroadcast(); });
  return out;
}

// Nothing tells how the tensor follows from what the reference is computed of, but it may run
// through the same loops if these come to both in the order of memory.
std::optional<View> PointwiseAnalysis::viewOfSameSizes(const TensorView* tv) {
  const std::vector<size_t> own = sizedDimsInMemory(tv);
  const std::vector<size_t> axes = sizedDimsInMemory(reference);
  const Ids dims = logicalIds(tv);
  const Ids reference_dims = logicalIds(reference);
  if (!tv->fusion()->sharesLoops() || static_cast<size_t>(numConcreteDims(tv)) != own.size() ||
      !std::ranges::equal(own, axes, [&](size_t d, size_t axis) {
        return dims[d]->extent()->sameAs(reference_dims[axis]->extent());
      })) {
    return std::nullopt;
  }
  View view(num_axes, AxisTerms::kMissing);
  for (size_t i = 0; i < own.size(); ++i) {
    view[axes[i]] = terms.dimension(static_cast<int64_t>(own[i]));
  }
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d]->isBroadcast()) {
      view.push_back(terms.dimension(static_cast<int64_t>(d)));
    }
  }
  return view;
}

// All that the tensor is computed of under the view has this one already, or none yet; but inputs
// may be read in several ways.
bool PointwiseAnalysis::needsNoCopies(const TensorView* tv, const View& view) {
  std::vector<std::pair<const TensorView*, View>> to_do{{tv, view}};
  std::unordered_map<const TensorView*, View> seen;
  while (!to_do.empty()) {
    const auto [each, its_view] = std::move(to_do.back());
    to_do.pop_back();
    const Expr* def = each->definition();
    const std::vector<int>& known = versionsOf(each);
    if (each->isFusionInput() || std::ranges::any_of(known, [&](int v) {
          return versions[static_cast<size_t>(v)].view == its_view;
        })) {
      continue;
    }
    const auto [it, is_new] = seen.emplace(each, its_view);
    if (!known.empty() || (!is_new && it->second != its_view)) {
      return false;
    }
    for (const Val* in : def->inputs()) {
      if (is_new && in->isTensor() && in != lookedUpTensor(def)) {
        const auto* producer = static_cast<const TensorView*>(in);
        to_do.emplace_back(producer, viewOfProducer(producer, each, its_view));
      }
    }
  }
  return true;
}

// Finds a view for an output that the reference does not depend on, along producers that have one.
bool PointwiseAnalysis::adoptOutput(const TensorGraph& graph, TensorView* out) {
  struct Tentative {
    View view;
    TensorView* from = nullptr; // tentative producer, or null and
    int version = -1;           // a version of a producer
  };
  // The output and its ancestors up to those that have a view.
  std::unordered_set<const TensorView*> seen{out};
  std::vector<TensorView*> ancestors{out};
  for (size_t i = 0; i < ancestors.size(); ++i) {
    if (versionsOf(ancestors[i]).empty()) {
      for (TensorView* p : graph.producersOf(ancestors[i])) {
        if (seen.insert(p).second) {
          ancestors.push_back(p);
        }
      }
    }
  }
  std::sort(ancestors.begin(), ancestors.end(), [&](const TensorView* a, const TensorView* b) {
    return position_.at(a) < position_.at(b);
  });
  std::unordered_map<const TensorView*, Tentative> tentative;
  for (TensorView* tv : ancestors) {
    if (!versionsOf(tv).empty()) {
      continue;
    }
    struct Option {
      Tentative tentative;
      View sure;
    };
    std::vector<Option> options;
    auto offer = [&](TensorView* producer, const View& view, TensorView* from, int version) {
      if (std::optional<View> mine = viewOfConsumer(tv, producer, view)) {
        View sure = sureViewOfConsumer(tv, producer, *mine);
        options.push_back({{std::move(*mine), from, version}, std::move(sure)});
      }
    };
    for (TensorView* producer : graph.producersOf(tv)) {
      const std::vector<int> known = versionsOf(producer);
      for (int v : known) {
        const View view = versions[static_cast<size_t>(v)].view;
        offer(producer, view, nullptr, v);
      }
      if (auto found = tentative.find(producer); found != tentative.end()) {
        const View view = found->second.view;
        offer(producer, view, producer, -1);
      }
    }
    // What one producer only claims (it is broadcast there) another one must know.
    for (Option& option : options) {
      bool sure = coversForWriting(tv, option.tentative.view);
      for (size_t axis = 0; axis < num_axes && sure; ++axis) {
        sure = std::any_of(options.begin(), options.end(), [&](const Option& other) {
          return other.sure[axis] == option.tentative.view[axis];
        });
      }
      if (sure) {
        tentative[tv] = std::move(option.tentative);
        break;
      }
    }
  }
  auto it = tentative.find(out);
  if (it == tentative.end()) {
    if (std::optional<View> view = viewOfSameSizes(out); view && needsNoCopies(out, *view)) {
      demand(out, std::move(*view), 0, TensorVersion::Parent::OfSameSizes);
      return true;
    }
    // What separates the output from the reference.
    std::copy_if(
        ancestors.begin(), ancestors.end(), std::back_inserter(conflicts),
        [&](const TensorView* tv) { return !versionsOf(tv).empty() && !tv->isFusionInput(); });
    return false;
  }
  std::vector<TensorView*> path;
  for (TensorView* tv = out; tv != nullptr; tv = tentative.at(tv).from) {
    path.push_back(tv);
  }
  int parent = tentative.at(path.back()).version;
  for (auto tv = path.rbegin(); tv != path.rend(); ++tv) {
    parent = demand(*tv, tentative.at(*tv).view, parent, TensorVersion::Parent::Producer);
  }
  return true;
}

bool PointwiseAnalysis::analyze(Fusion* fusion, const TensorGraph& graph, TensorView* candidate,
                                size_t max_versions) {
  reference = candidate;
  num_axes = logicalIds(candidate).size();
  View own;
  for (size_t i = 0; i < num_axes; ++i) {
    own.push_back(terms.dimension(static_cast<int64_t>(i)));
  }
  for (const TensorView* tv : graph.tensors()) {
    position_.emplace(tv, static_cast<int64_t>(position_.size()));
  }
  demand(candidate, std::move(own), -1, TensorVersion::Parent::Consumer);
  if (!demandProducers(max_versions)) {
    return false;
  }
  bool ok = true;
  for (Val* v : fusion->outputs()) {
    auto* out = v->as<TensorView>();
    if (out->isFusionInput()) {
      continue; // returned as it is
    }
    if (versionsOf(out).empty()) {
      if (!adoptOutput(graph, out)) {
        ok = false;
        continue;
      }
      if (!demandProducers(max_versions)) {
        return false;
      }
    }
  }
  // An output itself is the version that is whole; others are copies.
  for (Val* v : fusion->outputs()) {
    auto* out = v->as<TensorView>();
    if (out->isFusionInput() || versionsOf(out).empty()) {
      continue;
    }
    std::vector<int>& own_versions = versions_of_[out];
    auto whole = std::find_if(own_versions.begin(), own_versions.end(), [&](int i) {
      return coversForWriting(out, versions[static_cast<size_t>(i)].view);
    });
    if (whole == own_versions.end()) {
      conflicts.push_back(out);
      ok = false;
    } else {
      std::rotate(own_versions.begin(), whole, whole + 1);
    }
  }
  return ok;
}

std::vector<int64_t> PointwiseAnalysis::axesInMemory(const TensorView* tv) const {
  const TensorVersion* version = firstVersion(tv);
  if (version == nullptr) {
    return {};
  }
  const Ids dims = logicalIds(tv);
  const std::vector<size_t> memory = tv->domain()->memoryOrder();
  if (memory.size() < dims.size()) {
    return {};
  }
  std::vector<std::pair<int64_t, int64_t>> keys; // (place in memory, axis)
  for (size_t axis = 0; axis < num_axes; ++axis) {
    std::vector<int64_t> contained;
    terms.dimensionsOf(version->view[axis], contained);
    const bool has_axis =
        !contained.empty() && !dims[static_cast<size_t>(contained.back())]->isBroadcast();
    if (!has_axis && !reference->getLogicalDomain()[axis]->isBroadcast()) {
      return {};
    }
    keys.emplace_back(placeOf(version->view[axis], memory), static_cast<int64_t>(axis));
  }
  std::sort(keys.begin(), keys.end());
  std::vector<int64_t> order;
  for (const auto& [place, axis] : keys) {
    order.push_back(axis);
  }
  return order;
}

void PointwiseAnalysis::chooseLoopOrder(Fusion* fusion) {
  // Each input and output that has all axes votes for the order of its own memory. What is read in
  // pieces comes from a cache the next time, what is written in pieces does not wait for the rest.
  std::vector<std::pair<std::vector<int64_t>, int64_t>> votes;
  auto vote = [&](const TensorView* tv, int64_t weight) {
    std::vector<int64_t> order = axesInMemory(tv);
    auto known = std::find_if(votes.begin(), votes.end(),
                              [&](const auto& each) { return each.first == order; });
    if (known != votes.end()) {
      known->second += weight;
    } else if (!order.empty()) {
      votes.emplace_back(std::move(order), weight);
    }
  };
  for (Val* out : fusion->outputs()) {
    vote(out->as<TensorView>(), 4 * dataTypeSizeBits(out->dtype()) + 1);
  }
  for (Val* in : fusion->inputs()) {
    if (in->isTensor()) {
      vote(in->as<TensorView>(), 2 * dataTypeSizeBits(in->dtype()));
    }
  }
  auto best = std::max_element(votes.begin(), votes.end(),
                               [](const auto& a, const auto& b) { return a.second < b.second; });
  if (best != votes.end()) {
    loop_order = best->first;
    return;
  }
  for (size_t i = 0; i < num_axes; ++i) {
    loop_order.push_back(static_cast<int64_t>(i));
  }
}

// What the most operations lead to, one after the other, is computed of most of the others: it is
// tried as the last of the first `count`, if it is not among them.
static void putLatestAmong(std::vector<TensorView*>& candidates, size_t count,
                           const std::vector<Expr*>& exprs) {
  if (candidates.size() <= count) {
    return;
  }
  std::unordered_map<const TensorView*, int> depth;
  for (const Expr* e : exprs) {
    int most = 0;
    for (const TensorView* in : tensorInputs(e)) {
      most = std::max(most, depth[in]);
    }
    for (const TensorView* out : tensorOutputs(e)) {
      depth[out] = most + 1;
    }
  }
  const auto latest = std::max_element(candidates.begin(), candidates.end(),
                                       [&](auto* a, auto* b) { return depth[a] < depth[b]; });
  const auto last = candidates.begin() + static_cast<std::ptrdiff_t>(count) - 1;
  if (latest > last) {
    std::rotate(last, latest, latest + 1);
  }
}

std::unique_ptr<PointwiseAnalysis> PointwiseAnalysis::run(Fusion* fusion, std::string* why_not) {
  auto fail = [&](std::string why) {
    if (why_not != nullptr) {
      *why_not = std::move(why);
    }
  };
  auto result = std::make_unique<PointwiseAnalysis>();
  for (const Expr* e : fusion->exprs()) {
    if (!isPointwise(e) || isBoundary(e)) {
      fail("cannot find reference tensor");
      return result;
    }
    TensorView* looked_up = lookedUpTensor(e);
    if (looked_up != nullptr && !looked_up->isFusionInput()) {
      result->conflicts.push_back(looked_up);
      fail(looked_up->toString() + " is computed, but " + e->opName() +
           " reads it at any position");
      return result;
    }
  }
  for (const TensorView* tv : fusion->allTvs()) {
    if (tv->hasReduction()) {
      fail("cannot find reference tensor");
      return result;
    }
  }
  std::vector<TensorView*> candidates;
  for (Val* v : fusion->outputs()) {
    if (v->definition() != nullptr &&
        std::find(candidates.begin(), candidates.end(), v) == candidates.end()) {
      candidates.push_back(v->as<TensorView>());
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const TensorView* a, const TensorView* b) {
                     return std::pair(numConcreteDims(a), a->getLogicalDomain().size()) >
                            std::pair(numConcreteDims(b), b->getLogicalDomain().size());
                   });
  if (candidates.empty()) {
    fail("nothing is computed");
    return result;
  }
  putLatestAmong(candidates, kMaxCandidates, fusion->exprs());
  const TensorGraph graph(fusion);
  // The failure with the fewest conflicts tells best where to cut.
  std::unique_ptr<PointwiseAnalysis> best_failure;
  for (size_t i = 0; i < std::min(candidates.size(), kMaxCandidates); ++i) {
    auto attempt = std::make_unique<PointwiseAnalysis>();
    if (attempt->analyze(fusion, graph, candidates[i], kMaxCopies)) {
      attempt->conflicts.clear();
      attempt->chooseLoopOrder(fusion);
      return attempt;
    }
    if (best_failure == nullptr || attempt->conflicts.size() < best_failure->conflicts.size()) {
      best_failure = std::move(attempt);
    }
  }
  fail("cannot find reference tensor");
  best_failure->reference = nullptr;
  return best_failure;
}

} // namespace nvfuser
