// See loop_model.h. Tensors are visited consumers first, so that a producer finds the loops it
// joins.
#include <id_model/loop_model.h>

#include <base/error.h>
#include <fusion.h>
#include <id_model/logical_map.h>
#include <ir/builder.h>
#include <ir/visitor.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

namespace {

const Resize* padOf(const IterDomain* id) {
  for (const Expr* use : id->uses()) {
    const auto* resize = dynamic_cast<const Resize*>(use);
    if (resize != nullptr && !resize->out()->isBroadcast()) {
      return resize;
    }
  }
  return nullptr;
}

IterDomain* padded(IterDomain* id) {
  while (const Resize* pad = padOf(id)) {
    id = pad->out();
  }
  return id;
}

// What a producer's dimension meets in the consumer. A pad makes an iteration of a broadcast, as an
// op with a concrete operand does, unless the producer's loops are padded themselves.
IterDomain* counterpart(const IterDomain* producer, IterDomain* root) {
  return producer->isBroadcast() && padOf(producer) == nullptr ? padded(root) : root;
}

// An iteration of the consumer that the producer knows nothing of: merges with it are, for the
// producer, the other operand.
void ignoreAxis(IterDomain* id, std::unordered_set<const IterDomain*>& ignored, IdGraph& graph) {
  ignored.insert(id);
  for (const Expr* use : id->uses()) {
    const auto* merge = dynamic_cast<const Merge*>(use);
    if (merge == nullptr) {
      continue;
    }
    IterDomain* other = merge->outer() == id ? merge->inner() : merge->outer();
    if (ignored.count(other) != 0) {
      ignoreAxis(merge->out(), ignored, graph);
    } else {
      graph.map(merge->out(), other);
    }
  }
}

// Which domains of a producer and a consumer are the same iteration when broadcasts count as what they
// are broadcast to.
struct PairMatch {
  // For each loop axis of the producer the consumer's, or -1.
  std::vector<int> axes;
  // (producer, consumer), each domain at most once. Of several that are the same, because transforms
  // between them change nothing, the last ones are paired, then those before them.
  std::vector<std::pair<IterDomain*, IterDomain*>> ids;
};

std::vector<int> matchAxes(const IdGraph& graph, const TensorView* producer,
                           const TensorView* consumer) {
  std::vector<int> out;
  int next = 0;
  const auto& c = consumer->getLoopDomain();
  for (const IterDomain* id : producer->getLoopDomain()) {
    int found = -1;
    // In order where possible; a consumer may have the same axes in another order, which then is
    // not inlinable but still matches.
    for (size_t k = 0; k < c.size() && found < 0; ++k) {
      const size_t j = (static_cast<size_t>(next) + k) % c.size();
      if (graph.same(id, c[j])) {
        found = static_cast<int>(j);
      }
    }
    out.push_back(found);
    if (found >= 0) {
      next = found + 1;
    }
  }
  return out;
}

// The domains of a tensor by group, inputs of transforms before their outputs.
std::unordered_map<IdGroup, std::vector<IterDomain*>> idsByGroup(const IdGraph& graph,
                                                                 const TensorView* tv) {
  std::unordered_map<IdGroup, std::vector<IterDomain*>> out;
  for (IterDomain* id : tv->domain()->allIds()) {
    out[graph.group(id)].push_back(id);
  }
  return out;
}

PairMatch matchPair(const TensorView* producer, const TensorView* consumer) {
  IdGraph graph;
  std::unordered_set<const IterDomain*> known;
  for (auto [p, c] : producerConsumerPairs(producer, consumer)) {
    graph.map(p, counterpart(p, c));
    known.insert(c);
  }
  // The consumer first: a broadcast of the producer that became concrete there must not look
  // trivial.
  graph.addTensor(consumer);
  graph.addTensor(producer);
  std::unordered_set<const IterDomain*> ignored;
  for (IterDomain* c : consumer->getMaybeRootDomain()) {
    if (known.count(c) == 0 && c->isBroadcast()) {
      ignoreAxis(padded(c), ignored, graph);
    }
  }
  PairMatch out;
  out.axes = matchAxes(graph, producer, consumer);
  const auto theirs = idsByGroup(graph, consumer);
  for (const auto& [group, ids] : idsByGroup(graph, producer)) {
    auto it = theirs.find(group);
    for (size_t i = 1; it != theirs.end() && i <= std::min(ids.size(), it->second.size()); ++i) {
      out.ids.emplace_back(ids[ids.size() - i], it->second[it->second.size() - i]);
    }
  }
  std::sort(out.ids.begin(), out.ids.end(),
            [](const auto& a, const auto& b) { return a.first->name() < b.first->name(); });
  return out;
}

// The domains that hang together with the first `count` loop axes through transforms of the
// schedule: they follow where those lead.
std::unordered_set<const IterDomain*> connectedIds(const TensorView* tv, size_t count) {
  const auto& logical = tv->getLogicalDomain();
  const auto& loop = tv->getLoopDomain();
  std::unordered_set<const IterDomain*> reached;
  std::vector<const IterDomain*> stack(loop.begin(),
                                       loop.begin() + static_cast<std::ptrdiff_t>(count));
  while (!stack.empty()) {
    const IterDomain* id = stack.back();
    stack.pop_back();
    if (!reached.insert(id).second) {
      continue;
    }
    const Expr* def = id->definition();
    if (def == nullptr || std::find(logical.begin(), logical.end(), id) != logical.end()) {
      continue;
    }
    for (const std::vector<Val*>* vals : {&def->inputs(), &def->outputs()}) {
      for (const Val* v : *vals) {
        stack.push_back(v->as<IterDomain>());
      }
    }
  }
  return reached;
}

// Loop variables are named after what the loop is for: u unrolled, s unswitch, j serial.
Val* indexOf(const Loop& loop) {
  if (loop.extent->isOneInt()) {
    return IrBuilder::index(0);
  }
  if (isParallelTypeThread(loop.type)) {
    return IrBuilder::create<NamedScalar>(std::string(parallelTag(loop.type)), DataType::Index);
  }
  // A vector is accessed at its first element.
  if (loop.type == ParallelType::Vectorize) {
    return IrBuilder::index(0);
  }
  const char* prefix = loop.type == ParallelType::Unroll     ? "u"
                       : loop.type == ParallelType::Unswitch ? "s"
                                                             : "j";
  return IrBuilder::create<NamedScalar>(prefix + std::to_string(loop.id), DataType::Index);
}

} // namespace

LoopModel::LoopModel(Fusion* fusion, IdModel& ids) : ids_(ids), domains_(ids) {
  const auto& exprs = fusion->exprs();
  std::unordered_set<const Expr*> live(exprs.begin(), exprs.end());
  for (auto it = exprs.rbegin(); it != exprs.rend(); ++it) {
    for (TensorView* tv : tensorOutputs(*it)) {
      std::vector<TensorView*> consumers;
      for (const Expr* use : tv->uses()) {
        if (live.count(use) != 0) {
          for (TensorView* c : tensorOutputs(use)) {
            consumers.push_back(c);
          }
        }
      }
      place(tv, consumers);
    }
  }
  for (auto& [tv, loops] : tensors_) {
    for (auto* list : {&loops.path, &loops.own}) {
      for (Loop*& l : *list) {
        l = find(l);
      }
    }
  }
  // All domains first: groups may still be joined on the way.
  for (Loop& loop : loops_) {
    loop.domain = domains_.domain(loop.owner->getLoopDomain()[loop.axis]);
  }
  for (Loop& loop : loops_) {
    finish(loop);
  }
}

const TensorLoops& LoopModel::loops(const TensorView* tv) const {
  auto it = tensors_.find(tv);
  NVF_ERROR(it != tensors_.end(), "no loops known for ", tv->toString());
  return it->second;
}

Loop* LoopModel::find(Loop* loop) const {
  while (parent_[static_cast<size_t>(loop->id)] != loop) {
    loop = parent_[static_cast<size_t>(loop->id)];
  }
  return loop;
}

// What follows from the domain.
void LoopModel::finish(Loop& loop) {
  loop.group = ids_.exact().group(loop.domain);
  // A loop over nothing but broadcasts runs once.
  loop.extent = loop.domain->isBroadcast() ? IrBuilder::index(1) : ids_.extent(loop.group);
  // Bound to threads it would leave all but the first without a value, while a consumer may run over
  // what was broadcast in the same threads: each computes its own copy.
  if (loop.extent->isOneInt() && isParallelTypeThread(loop.type)) {
    loop.type = ParallelType::Serial;
  }
  loop.index = indexOf(loop);
}

Loop* LoopModel::newLoop(const TensorView* tv, size_t axis) {
  Loop loop;
  loop.id = static_cast<int>(loops_.size());
  loop.type = tv->getLoopDomain()[axis]->parallelType();
  loop.owner = tv;
  loop.axis = axis;
  loops_.push_back(loop);
  parent_.push_back(&loops_.back());
  return &loops_.back();
}

void LoopModel::place(const TensorView* tv, const std::vector<TensorView*>& consumers) {
  TensorLoops& mine = tensors_[tv];
  const size_t n = static_cast<size_t>(tv->nDims());
  const size_t k = consumers.empty() ? 0 : static_cast<size_t>(tv->getComputeAtPosition());
  NVF_CHECK(k <= n, tv->toString(), ": compute-at position ", k, " is beyond its loop axes");
  if (k > 0) {
    for (const TensorView* c : consumers) {
      joinConsumer(tv, k, c);
    }
    for (size_t i = 0; i < k; ++i) {
      // The producer's own parallelization must agree with the loop it joins.
      Loop* loop = find(mine.own[i]);
      const ParallelType type = tv->getLoopDomain()[i]->parallelType();
      if (loop->type == ParallelType::Serial) {
        loop->type = type;
      }
      NVF_CHECK(type == ParallelType::Serial || type == loop->type, tv->toString(), ": loop axis ",
                i, " is bound to ", type, " but the loop it is inlined into is bound to ",
                loop->type);
    }
  }
  mine.shared = mine.path.size();
  for (size_t i = k; i < n; ++i) {
    Loop* loop = newLoop(tv, i);
    mine.own.push_back(loop);
    mine.path.push_back(loop);
  }
}

// The tensor's first `k` axes are loops of the consumer.
void LoopModel::joinConsumer(const TensorView* tv, size_t k, const TensorView* consumer) {
  TensorLoops& mine = tensors_.at(tv);
  const TensorLoops& theirs = tensors_.at(consumer);
  const PairMatch match = matchPair(tv, consumer);
  int last = -1;
  for (size_t i = 0; i < k; ++i) {
    NVF_CHECK(match.axes[i] > last, tv->toString(), " is inlined at position ", k,
              ", but its loop axis ", i, " has no counterpart in that order in its consumer ",
              consumer->toString());
    last = match.axes[i];
    domains_.join(tv->getLoopDomain()[i],
                  consumer->getLoopDomain()[static_cast<size_t>(match.axes[i])]);
  }
  const std::unordered_set<const IterDomain*> followers = connectedIds(tv, k);
  for (const auto& [p, c] : match.ids) {
    if (followers.count(p) != 0) {
      domains_.join(p, c);
    }
  }
  const auto end = std::find(theirs.path.begin(), theirs.path.end(),
                             theirs.own[static_cast<size_t>(last)]);
  const std::vector<Loop*> path(theirs.path.begin(), end + 1);
  if (mine.path.empty()) {
    mine.path = path;
    for (size_t i = 0; i < k; ++i) {
      mine.own.push_back(theirs.own[static_cast<size_t>(match.axes[i])]);
    }
    return;
  }
  NVF_CHECK(path.size() == mine.path.size(), tv->toString(), " is inlined at position ", k,
            " into consumers that stand in different loops, ", consumer->toString(),
            " and another one");
  // One producer computed in the loops of two consumers: those loops are one.
  for (size_t i = 0; i < path.size(); ++i) {
    const bool has_axis = std::find(mine.own.begin(), mine.own.end(), mine.path[i]) != mine.own.end();
    unify(mine.path[i], path[i], tv, has_axis);
  }
}

void LoopModel::unify(Loop* a, Loop* b, const TensorView* tv, bool has_axis) {
  a = find(a);
  b = find(b);
  if (a == b) {
    return;
  }
  NVF_CHECK(
      a->type == b->type || a->type == ParallelType::Serial || b->type == ParallelType::Serial,
      tv->toString(), " is inlined into two consumers that bind the same loop to ", a->type,
      " and ", b->type);
  if (!has_axis) {
    domains_.joinFamilies(a->owner->getLoopDomain()[a->axis], b->owner->getLoopDomain()[b->axis]);
  }
  Loop* keep = a->id < b->id ? a : b;
  Loop* drop = keep == a ? b : a;
  if (keep->type == ParallelType::Serial) {
    keep->type = drop->type;
  }
  parent_[static_cast<size_t>(drop->id)] = keep;
}

} // namespace nvfuser
