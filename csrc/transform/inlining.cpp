// SPDX-License-Identifier: BSD-3-Clause
// Maximal inlining positions, and the operations that set positions.
#include <transform/inlining.h>

#include <base/error.h>
#include <id_model/id_model.h>
#include <ir/describe.h>
#include <ir/exprs.h>
#include <transform/propagate.h>
#include <transform/reentered_dims.h>
#include <transform/replay.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

namespace nvfuser {

namespace {

// What a broadcast becomes in the tensors that read it.
struct Concretization {
  // Kept: it stays what it is in an output. Empty: its loop never runs, unless it is padded further
  // on.
  enum Kind { None, Kept, Squeezed, Empty, One, Many } kind = None;
  // A dimension, or the broadcast that a view transform makes something else of.
  const IterDomain* to = nullptr;
  bool also_squeezed = false; // by another consumer than the one that gives it iterations

  void add(const Concretization& other, const IdGraph& dimensions) {
    also_squeezed = also_squeezed || other.also_squeezed;
    if (other.kind == None || (other.kind == kind && isSameAs(other, dimensions))) {
      return;
    }
    if (kind == None || (kind == Kept && other.kind != Empty)) {
      kind = other.kind;
      to = other.to;
    } else if (kind == Squeezed && other.kind == One) {
      kind = One;
      to = other.to;
      also_squeezed = true;
    } else if (kind == One && other.kind == Squeezed) {
      also_squeezed = true;
    } else if (other.kind != Kept || kind == Empty) {
      kind = Many;
    }
  }

 private:
  bool isSameAs(const Concretization& other, const IdGraph& dimensions) const {
    if (to == other.to) {
      return true;
    }
    if (to->isBroadcast() || other.to->isBroadcast()) {
      // What equal transforms make of one and the same is the same iteration: two pads by as much.
      return to->isBroadcast() && other.to->isBroadcast() &&
             dimensions.same(madeOf(to), madeOf(other.to));
    }
    // Nothing may connect dimensions of different tensors, but their loops may be one.
    return dimensions.same(to, other.to) ||
           (kind == One && sizeOf(to, dimensions)->sameAs(sizeOf(other.to, dimensions)));
  }
  static const IterDomain* madeOf(const IterDomain* broadcast) {
    return broadcast->uses().front()->output(0)->as<IterDomain>();
  }
  static Val* sizeOf(const IterDomain* id, const IdGraph& dimensions) {
    const IdGroup group = dimensions.group(id);
    return group < 0 ? id->extent() : dimensions.oldest(group)->extent();
  }
};

using Concretizations = std::unordered_map<const IterDomain*, Concretization>;

// What the broadcast of a producer becomes in a consumer, where it is `partner` (null: nothing).
Concretization concretizationIn(const TensorView* consumer, const IterDomain* partner,
                                const Concretizations& further) {
  if (partner == nullptr) {
    return {Concretization::Squeezed};
  }
  if (partner->extent()->isZeroInt()) {
    // No place for what something else needs once.
    return {Concretization::Empty, partner};
  }
  const auto& logical = consumer->getLogicalDomain();
  if (partner->isBroadcast() &&
      std::find(logical.begin(), logical.end(), partner) != logical.end()) {
    return further.at(partner);
  }
  // A dimension, or part of a view transform: it becomes whatever that makes. The loop over one
  // that is sliced or padded further on is that over the part.
  while (!partner->isBroadcast() && !partner->uses().empty() &&
         partner->uses().front()->kind() == ExprKind::Resize &&
         !partner->uses().front()->output(0)->as<IterDomain>()->isBroadcast()) {
    partner = partner->uses().front()->output(0)->as<IterDomain>();
  }
  return {Concretization::One, partner};
}

} // namespace

MaxPosCalculator::MaxPosCalculator(const Fusion* fusion,
                                   std::unordered_set<const IterDomain*> uninlinable)
    : graph_(fusion), uninlinable_(std::move(uninlinable)) {
  findUnmappable(fusion);
}

void MaxPosCalculator::findUnmappable(const Fusion* fusion) {
  const auto& order = graph_.tensors();
  if (std::none_of(order.begin(), order.end(), [](auto* tv) { return tv->hasBroadcast(); })) {
    return;
  }
  const IdGraph dimensions = buildDimensionGraph(fusion, IdMappingMode::Exact);
  std::set<IdGroup> squeezed;
  std::set<IdGroup> reduced;
  Concretizations becomes;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const TensorView* tv = *it;
    // Of one that was factored out of another reduction its consumers see but the parts.
    for (const auto* ids : {&tv->getLogicalDomain(), &tv->getMaybeRootDomain()}) {
      for (const IterDomain* id : *ids) {
        if (id->isReduction()) {
          reduced.insert(dimensions.group(id));
        }
      }
    }
    if (!tv->hasBroadcast()) {
      continue;
    }
    TensorDomain::Ids broadcasts = tv->getLogicalDomain();
    std::erase_if(broadcasts, [](const IterDomain* id) { return !id->isBroadcast(); });
    if (graph_.consumersOf(tv).empty() || tv->isFusionOutput()) {
      for (const IterDomain* id : broadcasts) {
        becomes[id].kind = Concretization::Kept;
      }
    }
    for (const TensorView* consumer : graph_.consumersOf(tv)) {
      const IterDomainMap p2c = PairwiseLogicalMap(tv, consumer).producerToConsumer();
      for (IterDomain* id : broadcasts) {
        auto partner = p2c.find(id);
        if (partner == p2c.end()) {
          squeezed.insert(dimensions.group(id));
        }
        becomes[id].add(
            concretizationIn(consumer, partner == p2c.end() ? nullptr : partner->second, becomes),
            dimensions);
      }
    }
    for (const IterDomain* id : broadcasts) {
      const Concretization& what = becomes[id];
      if (what.kind == Concretization::One) {
        iterates_.insert(id);
      }
      if (what.kind == Concretization::Many) {
        unmappable_.insert(id);
        has_unmappable_.insert(tv);
      } else if (what.also_squeezed) {
        // What was squeezed has no such loop; one of several dimensions together it has.
        reentered_.insert(id);
        has_unmappable_.insert(tv);
      }
    }
  }
  if (!reduced.empty()) {
    findSummed();
  }
  const auto reenter = [&](std::unordered_set<const IterDomain*>& found, IdGroup group,
                           bool is_broadcast) {
    const auto is_dim = [&](const IterDomain* id) {
      return id->isBroadcast() == is_broadcast && dimensions.group(id) == group;
    };
    for (const auto& [tv, id] : reenteredDims(graph_, is_dim)) {
      found.insert(id);
      has_unmappable_.insert(tv);
    }
  };
  for (const IdGroup group : squeezed) {
    reenter(reentered_, group, true);
  }
  for (const IdGroup group : reduced) {
    reenter(unmappable_, group, false);
  }
}

namespace {

// An axis of the tensor with all that it is made of.
std::vector<const IterDomain*> partsOf(const TensorView* tv, IterDomain* axis) {
  std::vector<const IterDomain*> parts{axis};
  for (const Expr* e : transformsBetween(tv->getLogicalDomain(), {axis})) {
    for (const Val* in : e->inputs()) {
      parts.push_back(in->as<IterDomain>());
    }
  }
  return parts;
}

} // namespace

// Would a sum be added up in a loop that is none of its own? A broadcast of the producer becomes a
// loop where another consumer needs it to; in a consumer that keeps it a broadcast and has begun to
// reduce outside of it, each iteration would add the same.
bool MaxPosCalculator::repeatsReduction(const TensorView* producer, int64_t axis,
                                        const TensorView* consumer, int64_t at) const {
  const std::vector<IterDomain*>& loop = consumer->getLoopDomain();
  if (!consumer->axis(at)->isBroadcast() ||
      std::none_of(loop.begin(), loop.begin() + at,
                   [](const IterDomain* id) { return id->isReduction(); })) {
    return false;
  }
  const std::vector<const IterDomain*> parts = partsOf(producer, producer->axis(axis));
  return std::any_of(parts.begin(), parts.end(),
                     [&](const IterDomain* id) { return iterates_.count(id) != 0; });
}

// The consumer's axes that run over dimensions that the producer is broadcast along, or lacks.
std::unordered_set<IterDomain*> MaxPosCalculator::widerAxes(const TensorView* producer,
                                                            const TensorView* consumer) const {
  std::unordered_set<const IterDomain*> dims;
  for (const IterDomain* id : consumer->getMaybeRootDomain()) {
    if (!id->isBroadcast() || iterates_.count(id) != 0) {
      dims.insert(id);
    }
  }
  for (const auto& [p, c] : PairwiseLogicalMap(producer, consumer).pairs()) {
    if (!p->isBroadcast()) {
      dims.erase(c);
    }
  }
  std::unordered_set<IterDomain*> axes;
  if (dims.empty()) {
    return axes;
  }
  for (IterDomain* axis : consumer->getLoopDomain()) {
    const std::vector<const IterDomain*> parts = partsOf(consumer, axis);
    if (std::any_of(parts.begin(), parts.end(),
                    [&](const IterDomain* id) { return dims.count(id) != 0; })) {
      axes.insert(axis);
    }
  }
  return axes;
}

void MaxPosCalculator::findSummed() {
  const auto& order = graph_.tensors();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const TensorView* tv = *it;
    for (const TensorView* consumer : graph_.consumersOf(tv)) {
      std::unordered_set<const IterDomain*> in_wider;
      for (IterDomain* axis : widerAxes(tv, consumer)) {
        const std::vector<const IterDomain*> parts = partsOf(consumer, axis);
        in_wider.insert(parts.begin(), parts.end());
      }
      for (const auto& [p, c] : PairwiseLogicalMap(tv, consumer).pairs()) {
        if (!p->isReduction() && in_wider.count(c) == 0 &&
            (c->isReduction() || summed_.count(c) != 0)) {
          summed_.insert(p);
        }
      }
    }
    // What the parts of a view are made of.
    const auto view = transformsBetween(tv->getMaybeRootDomain(), tv->getLogicalDomain());
    for (auto e = view.rbegin(); e != view.rend(); ++e) {
      const auto& out = (*e)->outputs();
      if (std::any_of(out.begin(), out.end(),
                      [&](const Val* v) { return summed_.count(v->as<IterDomain>()) != 0; })) {
        for (const Val* in : (*e)->inputs()) {
          summed_.insert(in->as<IterDomain>());
        }
      }
    }
  }
}

// Would another consumer add up in a loop that is wider than its own? The consumer broadcasts the
// producer along what its axis is merged with: each element would be added for all of that.
bool MaxPosCalculator::widensSum(const TensorView* producer, int64_t axis,
                                 const TensorView* consumer, int64_t at) const {
  const std::vector<TensorView*>& consumers = graph_.consumersOf(producer);
  auto isWider = [&](const TensorView* tv, int64_t i) {
    return widerAxes(producer, tv).count(tv->axis(i)) != 0;
  };
  if (consumers.size() < 2 || summed_.empty() || !isWider(consumer, at)) {
    return false;
  }
  return std::any_of(consumers.begin(), consumers.end(), [&](const TensorView* other) {
    if (other == consumer) {
      return false;
    }
    const int64_t i = mapLoopAxes(producer, other).producer_to_consumer[static_cast<size_t>(axis)];
    if (i < 0 || isWider(other, i)) {
      return false;
    }
    const std::vector<const IterDomain*> parts = partsOf(other, other->axis(i));
    return std::any_of(parts.begin(), parts.end(), [&](const IterDomain* id) {
      return id->isReduction() || summed_.count(id) != 0;
    });
  });
}

bool MaxPosCalculator::mayInline(const TensorView* tv, IterDomain* id, bool best_effort,
                                 bool as_producer) const {
  if (uninlinable_.count(id) != 0 || (as_producer && id->isReduction())) {
    return false;
  }
  switch (id->parallelType()) {
    case ParallelType::Vectorize:
    case ParallelType::Group:
    case ParallelType::Bulk:
    case ParallelType::Mma:
      return false;
    case ParallelType::Unroll:
      if (best_effort) {
        return false;
      }
      break;
    default:
      break;
  }
  if (as_producer && has_unmappable_.count(tv) != 0) {
    // Made of an unmappable dimension? A squeezed one leaves a loop that it shares with others as
    // it is.
    bool reentered = false;
    bool shared = false;
    for (const IterDomain* domain : partsOf(tv, id)) {
      if (unmappable_.count(domain) != 0) {
        return false;
      }
      reentered = reentered || reentered_.count(domain) != 0;
      shared = shared || !domain->isBroadcast();
    }
    if (reentered && !shared) {
      return false;
    }
  }
  return true;
}

int64_t MaxPosCalculator::maxPosition(const TensorView* producer, const TensorView* consumer,
                                      bool best_effort) const {
  const LoopAxisMap axes = mapLoopAxes(producer, consumer);
  // Consumer axes after one that may not be inlined into are out of reach.
  int64_t consumer_limit = 0;
  while (consumer_limit < consumer->nDims() &&
         mayInline(consumer, consumer->axis(consumer_limit), best_effort, false)) {
    ++consumer_limit;
  }
  int64_t pos = 0;
  for (int64_t i = 0; i < producer->nDims(); ++i) {
    const int64_t at = axes.producer_to_consumer[static_cast<size_t>(i)];
    if (at < 0 || at >= consumer_limit ||
        !mayInline(producer, producer->axis(i), best_effort, true) ||
        repeatsReduction(producer, i, consumer, at) || widensSum(producer, i, consumer, at)) {
      break;
    }
    // The consumer's axes up to there must be this prefix and what the producer lacks. A later axis
    // may complete a prefix that is out of order now, so go on.
    if (axes.consumerPosition(i + 1) >= 0 && axes.consumerPosition(i + 1) <= consumer_limit) {
      pos = i + 1;
    }
  }
  return pos;
}

int64_t MaxPosCalculator::maxPosition(const TensorView* tv, bool best_effort) const {
  return maxPosition(
      tv, best_effort, tv->nDims(), [](const std::vector<LoopAxisMap>& maps, int64_t pos) {
        return std::all_of(maps.begin(), maps.end(), [&](const LoopAxisMap& m) {
          return std::equal(m.producer_to_consumer.begin(), m.producer_to_consumer.begin() + pos,
                            maps[0].producer_to_consumer.begin());
        });
      });
}

int64_t MaxPosCalculator::maxPosition(
    const TensorView* tv, bool best_effort, int64_t limit,
    const std::function<bool(const std::vector<LoopAxisMap>&, int64_t)>& agree) const {
  const std::vector<TensorView*>& consumers = graph_.consumersOf(tv);
  int64_t pos = tv->nDims();
  for (const TensorView* consumer : consumers) {
    pos = std::min(pos, maxPosition(tv, consumer, best_effort));
  }
  if (consumers.empty() || (consumers.size() == 1 && pos <= limit)) {
    return std::min(pos, limit);
  }
  pos = std::min(pos, limit);
  std::vector<LoopAxisMap> maps;
  for (const TensorView* consumer : consumers) {
    maps.push_back(mapLoopAxes(tv, consumer));
  }
  auto legalForEach = [&] {
    return std::all_of(maps.begin(), maps.end(),
                       [&](const LoopAxisMap& m) { return m.consumerPosition(pos) >= 0; });
  };
  while (pos > 0 && !(legalForEach() && agree(maps, pos))) {
    --pos;
  }
  return pos;
}

namespace {

void setInlinePosition(const MaxPosCalculator& calculator, TensorView* tv, int64_t pos) {
  if (calculator.graph().consumersOf(tv).empty() || pos <= tv->getComputeAtPosition()) {
    return;
  }
  std::vector<int64_t> consumer_positions;
  for (const TensorView* consumer : calculator.graph().consumersOf(tv)) {
    const int64_t at = mapLoopAxes(tv, consumer).consumerPosition(pos);
    NVF_CHECK(at >= 0, "Invalid inline position ", pos, " for ", describeLoops(tv),
              ": the loops of its consumer ", describeLoops(consumer), " are in another order");
    consumer_positions.push_back(at);
  }
  tv->setComputeAtPosition(pos);
  for (size_t i = 0; i < consumer_positions.size(); ++i) {
    TensorView* consumer = calculator.graph().consumersOf(tv)[i];
    consumer->setMaxProducerPosition(
        std::max(consumer->getMaxProducerPosition(), consumer_positions[i]));
  }
}

} // namespace

void inlineTensorAt(const MaxPosCalculator& calculator, TensorView* tv, int64_t pos,
                    bool best_effort) {
  if (tv->isFusionInput()) {
    return;
  }
  const int64_t max_pos = calculator.maxPosition(tv, best_effort);
  if (pos < 0) {
    pos += tv->nDims() + 1;
  }
  if (best_effort) {
    pos = std::min(pos, max_pos);
  }
  NVF_CHECK(pos >= 0 && pos <= max_pos, "Invalid inline position ", pos, " for ", describeLoops(tv),
            ": the deepest legal position is ", max_pos);
  setInlinePosition(calculator, tv, pos);
}

namespace {

// Which tensors are computed in common loops, level by level, while tensors are inlined from the
// last one on. Loops of one level are run one after the other, so that no loop may be needed both
// before and after another one: two consumers share no loop if one of them needs, through what is
// computed in between, the whole of what the other one's loop computes. A loop over nothing but
// broadcasts runs once, in all threads. Whoever reads its results outside of it counts on that: it
// does not share a loop that iterates and is bound to threads.
class CommonLoops {
 public:
  explicit CommonLoops(const TensorGraph& graph) : graph_(graph) {
    for (const TensorView* tv : graph.tensors()) {
      number_.emplace(tv, number_.size());
    }
    shared_.resize(number_.size());
  }

  // Whether the consumers of one tensor can have the first `count` loops in common.
  bool mayShare(const std::vector<TensorView*>& consumers, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const Level& level = levelAt(i);
      std::unordered_set<size_t> groups;
      for (const TensorView* consumer : consumers) {
        groups.insert(level.group[number_.at(consumer)]);
      }
      if (groups.size() > 1 &&
          (anyLeadsToAnother(level, i, groups) || leavesOneThatIterates(level, i, groups))) {
        return false;
      }
    }
    return true;
  }

  // What the tensor's own axis is at that depth.
  void place(const TensorView* tv, int64_t depth, const IterDomain* axis) {
    Level& level = levelAt(depth);
    const size_t group = level.group[number_.at(tv)];
    level.iterates[group] = level.iterates[group] || !axis->isBroadcast();
    level.in_threads[group] = level.in_threads[group] || isParallelTypeThread(axis->parallelType());
  }

  // The tensor has the first `count` loops of its consumers.
  void share(const TensorView* tv, int64_t count) {
    const size_t own = number_.at(tv);
    shared_[own] = count;
    for (int64_t i = 0; i < count; ++i) {
      for (const TensorView* consumer : graph_.consumersOf(tv)) {
        join(levelAt(i), own, number_.at(consumer));
      }
    }
  }

 private:
  struct Level {
    std::vector<size_t> group; // by tensor
    // By group:
    std::vector<std::vector<size_t>> members;
    std::vector<bool> iterates;
    std::vector<bool> in_threads;
  };

  Level& levelAt(int64_t i) {
    while (static_cast<int64_t>(levels_.size()) <= i) {
      Level& level = levels_.emplace_back();
      level.members.resize(number_.size());
      level.iterates.resize(number_.size());
      level.in_threads.resize(number_.size());
      for (size_t t = 0; t < number_.size(); ++t) {
        level.group.push_back(t);
        level.members[t].push_back(t);
      }
    }
    return levels_[static_cast<size_t>(i)];
  }

  static void join(Level& level, size_t a, size_t b) {
    size_t into = level.group[a];
    size_t from = level.group[b];
    if (into == from) {
      return;
    }
    if (level.members[into].size() < level.members[from].size()) {
      std::swap(into, from);
    }
    for (const size_t t : level.members[from]) {
      level.group[t] = into;
      level.members[into].push_back(t);
    }
    level.members[from].clear();
    level.iterates[into] = level.iterates[into] || level.iterates[from];
    level.in_threads[into] = level.in_threads[into] || level.in_threads[from];
  }

  // The groups' loops, made one, would be shared out to threads, while results of one of them that
  // runs once are read outside of it.
  bool leavesOneThatIterates(const Level& level, int64_t i,
                             const std::unordered_set<size_t>& groups) const {
    auto any = [&](const std::vector<bool>& is) {
      return std::any_of(groups.begin(), groups.end(), [&](size_t group) { return is[group]; });
    };
    return any(level.iterates) && any(level.in_threads) &&
           std::any_of(groups.begin(), groups.end(), [&](size_t group) {
             return !level.iterates[group] &&
                    std::any_of(level.members[group].begin(), level.members[group].end(),
                                [&](size_t t) {
                                  return shared_[t] <= i &&
                                         !graph_.consumersOf(graph_.tensors()[t]).empty();
                                });
           });
  }

  // Along what is not shared at this level, from one of the groups to another of them.
  bool anyLeadsToAnother(const Level& level, int64_t i,
                         const std::unordered_set<size_t>& groups) const {
    std::unordered_set<size_t> seen = groups;
    std::vector<size_t> stack(groups.begin(), groups.end());
    while (!stack.empty()) {
      const size_t from = stack.back();
      stack.pop_back();
      for (const size_t t : level.members[from]) {
        if (shared_[t] > i) {
          continue;
        }
        for (const TensorView* consumer : graph_.consumersOf(graph_.tensors()[t])) {
          const size_t to = level.group[number_.at(consumer)];
          if (groups.count(to) != 0) {
            return true;
          }
          if (seen.insert(to).second) {
            stack.push_back(to);
          }
        }
      }
    }
    return false;
  }

  const TensorGraph& graph_;
  std::unordered_map<const TensorView*, size_t> number_;
  std::vector<int64_t> shared_; // by tensor: loops in common with its consumers
  std::vector<Level> levels_;
};

} // namespace

void inlineTensors(const MaxPosCalculator& calculator,
                   const std::unordered_map<TensorView*, int64_t>& positions) {
  const TensorGraph& graph = calculator.graph();
  CommonLoops common(graph);
  // For each loop axis of a tensor, how many loops are around it.
  std::unordered_map<const TensorView*, std::vector<int64_t>> depths;
  // The same for the axes that a tensor shares with a consumer when inlined at `pos`.
  auto sharedDepths = [&](const LoopAxisMap& axes, const TensorView* consumer, int64_t pos) {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < pos; ++i) {
      const int64_t at = axes.producer_to_consumer[static_cast<size_t>(i)];
      out.push_back(at < 0 ? -1 : depths.at(consumer)[static_cast<size_t>(at)]);
    }
    return out;
  };
  const auto& order = graph.tensors();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    TensorView* tv = *it;
    const std::vector<TensorView*>& consumers = graph.consumersOf(tv);
    auto wanted = positions.find(tv);
    if (wanted != positions.end() && !tv->isFusionInput() && !consumers.empty()) {
      const int64_t limit = wanted->second < 0 ? tv->nDims() : wanted->second;
      const int64_t pos = calculator.maxPosition(
          tv, true, limit, [&](const std::vector<LoopAxisMap>& maps, int64_t at) {
            const std::vector<int64_t> first = sharedDepths(maps[0], consumers[0], at);
            for (size_t i = 1; i < maps.size(); ++i) {
              if (sharedDepths(maps[i], consumers[i], at) != first) {
                return false;
              }
            }
            return first.empty() || common.mayShare(consumers, first.back() + 1);
          });
      setInlinePosition(calculator, tv, pos);
    }
    const int64_t shared =
        tv->isFusionInput() || consumers.empty() ? 0 : tv->getComputeAtPosition();
    std::vector<int64_t> own;
    if (shared > 0) {
      own = sharedDepths(mapLoopAxes(tv, consumers[0]), consumers[0], shared);
    }
    int64_t next = own.empty() ? 0 : own.back() + 1;
    common.share(tv, next);
    for (int64_t i = shared; i < tv->nDims(); ++i) {
      own.push_back(next++);
    }
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i] >= 0) {
        common.place(tv, own[i], tv->axis(static_cast<int64_t>(i)));
      }
    }
    depths[tv] = std::move(own);
  }
}

namespace {

Fusion* activeFusion() {
  Fusion* fusion = FusionGuard::getCurFusion();
  NVF_CHECK(fusion != nullptr, "Inlining needs an active fusion: make a FusionGuard");
  return fusion;
}

template <class Range>
void inlineMostOf(const Range& tensors, const std::unordered_set<const IterDomain*>& uninlinable) {
  if (tensors.begin() == tensors.end()) {
    return;
  }
  const MaxPosCalculator calculator((*tensors.begin())->fusion(), uninlinable);
  std::unordered_map<TensorView*, int64_t> positions;
  for (TensorView* tv : tensors) {
    positions[tv] = -1;
  }
  inlineTensors(calculator, positions);
}

// Positions that correspond to the reference's first `pos` loop axes.
std::unordered_map<TensorView*, int64_t> correspondingPositions(const TensorGraph& graph,
                                                                TensorView* reference,
                                                                int64_t pos) {
  const int64_t n = reference->nDims();
  const int64_t wrapped = pos < 0 ? pos + n + 1 : pos;
  NVF_CHECK(wrapped >= 0 && wrapped <= n, "Position ", pos, " is out of range for ",
            describeLoops(reference), ", which has ", n, " loop axes");
  std::unordered_map<TensorView*, int64_t> out{{reference, wrapped}};
  for (const PropagationStep& step : maxInfoSpanningTree(graph, reference)) {
    const int64_t from = out.at(step.from);
    if (step.backward) {
      out[step.to] = mapLoopAxes(step.to, step.from).producerPosition(from);
    } else {
      const LoopAxisMap axes = mapLoopAxes(step.from, step.to);
      int64_t at = -1;
      for (int64_t p = from; p >= 0 && at < 0; --p) {
        at = axes.consumerPosition(p);
      }
      out[step.to] = at;
    }
  }
  return out;
}

void inlineAtPositions(const std::unordered_set<TensorView*>* selected, TensorView* reference,
                       int64_t pos, bool best_effort,
                       const std::unordered_set<const IterDomain*>& uninlinable) {
  const MaxPosCalculator calculator(reference->fusion(), uninlinable);
  const auto positions = correspondingPositions(calculator.graph(), reference, pos);
  for (TensorView* tv : calculator.graph().tensors()) {
    auto it = positions.find(tv);
    if (it != positions.end() && (selected == nullptr || selected->count(tv) != 0)) {
      inlineTensorAt(calculator, tv, it->second, best_effort);
    }
  }
}

} // namespace

void inlineMost(const std::unordered_set<const IterDomain*>& uninlinable) {
  inlineMostOf(activeFusion()->allTvs(), uninlinable);
}

void inlineMost(const std::vector<TensorView*>& selected,
                const std::unordered_set<const IterDomain*>& uninlinable) {
  inlineMostOf(selected, uninlinable);
}

void inlineMost(const std::unordered_set<TensorView*>& selected,
                const std::unordered_set<const IterDomain*>& uninlinable) {
  inlineMostOf(selected, uninlinable);
}

void inlineAllAt(TensorView* reference, int64_t pos, bool best_effort,
                 const std::unordered_set<const IterDomain*>& uninlinable) {
  inlineAtPositions(nullptr, reference, pos, best_effort, uninlinable);
}

void inlineSelectedAt(const std::unordered_set<TensorView*>& selected, TensorView* reference,
                      int64_t pos, bool best_effort,
                      const std::unordered_set<const IterDomain*>& uninlinable) {
  inlineAtPositions(&selected, reference, pos, best_effort, uninlinable);
}

void TensorView::inlineAt(int64_t position, bool best_effort) {
  inlineTensorAt(MaxPosCalculator(fusion()), this, position, best_effort);
}

} // namespace nvfuser
