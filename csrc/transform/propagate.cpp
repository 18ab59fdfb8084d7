// SPDX-License-Identifier: BSD-3-Clause
// Walks over the graph that replay or copy a reference's schedule.
#include <transform/propagate.h>

#include <base/error.h>
#include <id_model/domain_match.h>
#include <ir/describe.h>
#include <transform/replay.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <queue>
#include <tuple>
#include <utility>

namespace nvfuser {

namespace {

// For each logical dimension of a tensor, the set of the reference's dimensions (by position,
// modulo 64) that it carries.
using Info = std::vector<uint64_t>;

// How many of the reference's dimensions are carried: those that have iterations, then all of them.
// Dimensions of size 1 say little: a broadcast of a statistic has just as many as a row has.
using InfoCount = std::pair<int, int>;

InfoCount infoCount(const Info& info, uint64_t with_iterations) {
  uint64_t all = 0;
  for (uint64_t bits : info) {
    all |= bits;
  }
  return {std::popcount(all & with_iterations), std::popcount(all)};
}

using IdBits = std::unordered_map<const Val*, uint64_t>;

Info gather(const std::vector<IterDomain*>& ids, const IdBits& bits) {
  Info out;
  for (const IterDomain* id : ids) {
    auto it = bits.find(id);
    out.push_back(it == bits.end() ? 0 : it->second);
  }
  return out;
}

void spread(const std::vector<Val*>& from, const std::vector<Val*>& to, IdBits& bits) {
  uint64_t all = 0;
  for (const Val* v : from) {
    all |= bits[v];
  }
  for (const Val* v : to) {
    bits[v] |= all;
  }
}

Info infoOfProducer(const TensorView* producer, const TensorView* consumer, const Info& known) {
  IdBits bits;
  const auto& logical = consumer->getLogicalDomain();
  for (size_t i = 0; i < logical.size(); ++i) {
    bits[logical[i]] = known[i];
  }
  const auto exprs = transformsBetween(consumer->getMaybeRootDomain(), logical);
  for (auto it = exprs.rbegin(); it != exprs.rend(); ++it) {
    spread((*it)->outputs(), (*it)->inputs(), bits);
  }
  IdBits producer_bits;
  for (const auto& [p, c] : PairwiseLogicalMap(producer, consumer).pairs()) {
    producer_bits[p] = bits[c];
  }
  return gather(producer->getLogicalDomain(), producer_bits);
}

Info infoOfConsumer(const TensorView* consumer, const TensorView* producer, const Info& known,
                    uint64_t with_iterations) {
  IdBits producer_bits;
  const auto& p_logical = producer->getLogicalDomain();
  for (size_t i = 0; i < p_logical.size(); ++i) {
    producer_bits[p_logical[i]] = known[i];
  }
  // What one consumer broadcasts a dimension to says nothing of what another one does, nor of what
  // another one's broadcast becomes further on.
  IdBits bits;
  for (const auto& [p, c] : PairwiseLogicalMap(producer, consumer).pairs()) {
    const uint64_t passed = c->isBroadcast() ? ~with_iterations : 0;
    bits[c] = p->isBroadcast() ? producer_bits[p] & passed : producer_bits[p];
  }
  for (Expr* e : transformsBetween(consumer->getMaybeRootDomain(), consumer->getLogicalDomain())) {
    spread(e->inputs(), e->outputs(), bits);
  }
  return gather(consumer->getLogicalDomain(), bits);
}

struct Candidate {
  InfoCount info;
  bool from_computed; // not from a fusion input
  bool backward;
  int64_t order;
  PropagationStep step;
  Info known;

  bool operator<(const Candidate& other) const {
    return std::tuple(info, from_computed, backward, -order) <
           std::tuple(other.info, other.from_computed, other.backward, -other.order);
  }
};

int64_t wrapPosition(const TensorView* tv, int64_t pos) {
  const int64_t n = tv->nDims();
  const int64_t wrapped = pos < 0 ? pos + n + 1 : pos;
  NVF_CHECK(wrapped >= 0 && wrapped <= n, "Position ", pos, " is out of range for ",
            describeLoops(tv), ", which has ", n, " loop axes");
  return wrapped;
}

} // namespace

std::vector<PropagationStep> maxInfoSpanningTree(const TensorGraph& graph, TensorView* reference,
                                                 const std::unordered_set<TensorView*>& selected) {
  std::vector<PropagationStep> steps;
  std::unordered_set<TensorView*> reached;
  std::priority_queue<Candidate> queue;
  int64_t order = 0;
  uint64_t with_iterations = 0;
  auto visit = [&](TensorView* tv, const Info& known) {
    reached.insert(tv);
    auto offer = [&](TensorView* to, bool backward) {
      if (reached.count(to) != 0 || (!selected.empty() && selected.count(to) == 0)) {
        return;
      }
      Info info =
          backward ? infoOfProducer(to, tv, known) : infoOfConsumer(to, tv, known, with_iterations);
      queue.push({infoCount(info, with_iterations),
                  !tv->isFusionInput(),
                  backward,
                  order++,
                  {tv, to, backward},
                  std::move(info)});
    };
    for (TensorView* p : graph.producersOf(tv)) {
      offer(p, true);
    }
    for (TensorView* c : graph.consumersOf(tv)) {
      offer(c, false);
    }
    for (TensorView* version : graph.versionsOf(tv)) {
      if (reached.count(version) == 0 && (selected.empty() || selected.count(version) != 0)) {
        queue.push({infoCount(known, with_iterations),
                    !tv->isFusionInput(),
                    false,
                    order++,
                    {tv, version, false, true},
                    known});
      }
    }
  };
  Info own;
  const auto& dims = reference->getLogicalDomain();
  for (size_t i = 0; i < dims.size(); ++i) {
    own.push_back(uint64_t{1} << (i % 64));
    with_iterations |= dims[i]->isBroadcast() ? 0 : own.back();
  }
  visit(reference, own);
  while (!queue.empty()) {
    Candidate best = queue.top();
    queue.pop();
    if (reached.count(best.step.to) == 0) {
      steps.push_back(best.step);
      visit(best.step.to, best.known);
    }
  }
  return steps;
}

void transformLike(TensorView* reference, const std::vector<TensorView*>& selected) {
  transformLike(TensorGraph(reference->fusion()), reference, selected);
}

void transformLike(const TensorGraph& graph, TensorView* reference,
                   const std::vector<TensorView*>& selected) {
  std::unordered_map<TensorView*, int64_t> position{{reference, reference->nDims()}};
  for (const PropagationStep& step :
       maxInfoSpanningTree(graph, reference, {selected.begin(), selected.end()})) {
    const int64_t from_pos = position.at(step.from);
    position[step.to] = step.is_version ? replayAsVersion(step.to, step.from, from_pos)
                        : step.backward ? replayProducerAsConsumer(step.to, step.from, from_pos)
                                        : replayConsumerAsProducer(step.to, step.from, from_pos);
  }
}

void boundedTransformBackward(TensorView* from, int64_t pos, const std::vector<TensorView*>& to,
                              bool propagate_parallel_type) {
  const TensorGraph graph(from->fusion());
  std::unordered_map<TensorView*, int64_t> position{{from, wrapPosition(from, pos)}};
  // With `to`, only what lies between: tensors that depend on one of them and are none of them.
  const std::unordered_set<TensorView*> bounds(to.begin(), to.end());
  std::unordered_set<TensorView*> between;
  for (TensorView* tv : graph.tensors()) {
    for (TensorView* producer : graph.producersOf(tv)) {
      if (bounds.count(tv) == 0 && (bounds.count(producer) != 0 || between.count(producer) != 0)) {
        between.insert(tv);
      }
    }
  }
  std::vector<TensorView*> changed;
  // Consumers before producers, so that each tensor is complete before it is passed on.
  const auto& order = graph.tensors();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    auto known = position.find(*it);
    if (known == position.end()) {
      continue;
    }
    const int64_t n = known->second;
    for (TensorView* producer : graph.producersOf(*it)) {
      if (position.count(producer) == 0 && (to.empty() || between.count(producer) != 0)) {
        position[producer] = replayProducerAsConsumer(producer, *it, n);
        changed.push_back(producer);
      }
    }
  }
  if (propagate_parallel_type) {
    scheduler_utils::parallelizeAllLike(from, pos, changed);
  }
}

std::unordered_map<TensorView*, std::vector<int64_t>> mapAxesToReference(const TensorGraph& graph,
                                                                         TensorView* reference) {
  std::unordered_map<TensorView*, std::vector<int64_t>> axes;
  std::vector<int64_t>& own = axes[reference];
  for (int64_t i = 0; i < reference->nDims(); ++i) {
    own.push_back(i);
  }
  std::deque<TensorView*> queue{reference};
  while (!queue.empty()) {
    TensorView* tv = queue.front();
    queue.pop_front();
    const std::vector<int64_t> known = axes.at(tv);
    auto offer = [&](TensorView* other, const std::vector<int64_t>& tv_to_other) {
      std::vector<int64_t>& theirs = axes[other];
      theirs.resize(static_cast<size_t>(other->nDims()), -1);
      bool changed = false;
      for (size_t i = 0; i < known.size(); ++i) {
        // The first answer stands: it came along a shortest path.
        if (known[i] >= 0 && tv_to_other[i] >= 0 &&
            theirs[static_cast<size_t>(tv_to_other[i])] == -1 &&
            std::find(theirs.begin(), theirs.end(), known[i]) == theirs.end()) {
          theirs[static_cast<size_t>(tv_to_other[i])] = known[i];
          changed = true;
        }
      }
      if (changed) {
        queue.push_back(other);
      }
    };
    for (TensorView* p : graph.producersOf(tv)) {
      offer(p, mapLoopAxes(p, tv).consumer_to_producer);
    }
    for (TensorView* c : graph.consumersOf(tv)) {
      offer(c, mapLoopAxes(tv, c).producer_to_consumer);
    }
    for (TensorView* version : graph.versionsOf(tv)) {
      offer(version, DomainMatch::ofVersions(tv, version).producerToConsumerAxes());
    }
  }
  return axes;
}

namespace scheduler_utils {

void parallelizeAllLike(TensorView* reference, int64_t pos,
                        const std::vector<TensorView*>& selected_tensors,
                        const std::unordered_set<ParallelType>& selected_parallel_types,
                        bool /*propagate_padding*/) {
  parallelizeAllLike(TensorGraph(reference->fusion()), reference, pos, selected_tensors,
                     selected_parallel_types);
}

void parallelizeAllLike(const TensorGraph& graph, TensorView* reference, int64_t pos,
                        const std::vector<TensorView*>& selected_tensors,
                        const std::unordered_set<ParallelType>& selected_parallel_types) {
  const int64_t num_axes = wrapPosition(reference, pos);
  const auto axes = mapAxesToReference(graph, reference);
  const std::vector<TensorView*>& tensors =
      selected_tensors.empty() ? graph.tensors() : selected_tensors;
  for (TensorView* tv : tensors) {
    auto it = axes.find(tv);
    if (tv == reference || tv->isFusionInput() || it == axes.end()) {
      continue;
    }
    for (size_t i = 0; i < it->second.size(); ++i) {
      const int64_t axis = it->second[i];
      if (axis < 0 || axis >= num_axes) {
        continue;
      }
      const ParallelType type = reference->axis(axis)->parallelType();
      if (type != ParallelType::Serial &&
          (selected_parallel_types.empty() || selected_parallel_types.count(type) != 0)) {
        IterDomain* id = tv->axis(static_cast<int64_t>(i));
        if (reference->axis(axis)->isClustered()) {
          id->parallelizeCluster(type);
        } else {
          id->parallelize(type);
        }
      }
    }
  }
}

} // namespace scheduler_utils

} // namespace nvfuser
