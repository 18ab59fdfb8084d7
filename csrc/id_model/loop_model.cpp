// See loop_model.h. Tensors are visited consumers first, so that a producer finds the loops it
// joins.
#include <id_model/loop_model.h>

#include <base/error.h>
#include <fusion.h>
#include <ir/logical_map.h>
#include <ir/builder.h>
#include <ir/visitor.h>

#include <algorithm>
#include <numeric>
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

} // namespace

std::vector<int> matchLoopAxes(const TensorView* producer, const TensorView* consumer) {
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

namespace {

// Loop axes of a tensor that descend from a common transform get the same number.
std::vector<int> connectedAxes(const TensorView* tv) {
  const auto& loop = tv->getLoopDomain();
  std::vector<int> component(loop.size());
  std::iota(component.begin(), component.end(), 0);
  std::unordered_map<const Expr*, int> reached;
  for (size_t i = 0; i < loop.size(); ++i) {
    std::vector<const Val*> stack{loop[i]};
    std::unordered_set<const Val*> seen;
    while (!stack.empty()) {
      const Val* id = stack.back();
      stack.pop_back();
      const Expr* def = id->definition();
      if (def == nullptr || !seen.insert(id).second) {
        continue;
      }
      auto [it, fresh] = reached.try_emplace(def, component[i]);
      if (!fresh && it->second != component[i]) {
        const int from = component[i];
        const int to = it->second;
        for (int& x : component) {
          x = x == from ? to : x;
        }
        for (auto& [e, x] : reached) {
          x = x == from ? to : x;
        }
      }
      stack.insert(stack.end(), def->inputs().begin(), def->inputs().end());
    }
  }
  return component;
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

LoopModel::LoopModel(Fusion* fusion, const IdModel& ids) : ids_(ids) {
  // Each round either ends or fixes the effective domain of at least one more axis.
  const size_t limit = 2 + 16 * fusion->allTvs().size();
  for (size_t round = 0; !build(fusion); ++round) {
    NVF_CHECK(round < limit, "the inlined loops of this schedule can't be made consistent");
  }
  for (Loop& loop : loops_) {
    loop.index = indexOf(loop);
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

bool LoopModel::build(Fusion* fusion) {
  loops_.clear();
  parent_.clear();
  tensors_.clear();
  again_ = false;
  const auto& exprs = fusion->exprs();
  std::unordered_set<const Expr*> live(exprs.begin(), exprs.end());
  for (auto it = exprs.rbegin(); it != exprs.rend(); ++it) {
    // The results of one op have the same loops: those of the first, inlined as far as all may be.
    const std::vector<TensorView*> outs = tensorOutputs(*it);
    std::vector<Reader> readers;
    for (TensorView* tv : outs) {
      for (const Expr* use : tv->uses()) {
        if (live.count(use) != 0) {
          for (TensorView* c : tensorOutputs(use)) {
            readers.push_back({tv, c});
          }
        }
      }
    }
    if (outs.empty()) {
      continue;
    }
    place(outs.front(), readers);
    if (again_) {
      return false;
    }
    for (TensorView* tv : outs) {
      tensors_[tv] = tensors_.at(outs.front());
    }
  }
  for (auto& [tv, loops] : tensors_) {
    for (auto* list : {&loops.path, &loops.own}) {
      for (Loop*& l : *list) {
        l = find(l);
      }
    }
  }
  for (Loop& l : loops_) {
    dropTrivial(l);
  }
  return true;
}

// A loop over nothing but broadcasts runs once. Bound to threads it would leave all but the first
// without a value, while a consumer may run over what was broadcast in the same threads: each
// computes its own copy.
void LoopModel::dropTrivial(Loop& loop) const {
  if (loop.domain->isBroadcast()) {
    loop.extent = IrBuilder::index(1);
  }
  if (loop.extent->isOneInt() && isParallelTypeThread(loop.type)) {
    loop.type = ParallelType::Serial;
  }
}

Loop* LoopModel::newLoop(const TensorView* tv, size_t axis, IterDomain* domain) {
  Loop loop;
  loop.id = static_cast<int>(loops_.size());
  loop.domain = domain;
  loop.group = ids_.exact().group(domain);
  loop.extent = ids_.extent(loop.group);
  loop.type = tv->getLoopDomain()[axis]->parallelType();
  loop.owner = tv;
  loop.axis = axis;
  loops_.push_back(loop);
  parent_.push_back(&loops_.back());
  return &loops_.back();
}

void LoopModel::place(const TensorView* tv, const std::vector<Reader>& readers) {
  TensorLoops& mine = tensors_[tv];
  const size_t n = static_cast<size_t>(tv->nDims());
  size_t k = readers.empty() ? 0 : n;
  for (const Reader& r : readers) {
    k = std::min(k, static_cast<size_t>(r.producer->getComputeAtPosition()));
  }
  NVF_CHECK(k <= n, tv->toString(), ": compute-at position ", k, " is beyond its loop axes");
  std::vector<IterDomain*> effective(tv->getLoopDomain());
  const auto& forced = forced_[tv];
  for (auto [axis, domain] : forced) {
    effective[axis] = domain;
  }
  const TensorView* chosen = nullptr;
  if (k > 0) {
    const std::vector<int> component = connectedAxes(tv);
    std::vector<int> chosen_match;
    for (const auto& [producer, c] : readers) {
      const std::vector<int> match = matchLoopAxes(producer, c);
      const TensorLoops& theirs = tensors_.at(c);
      int last = -1;
      for (size_t i = 0; i < k; ++i) {
        NVF_CHECK(match[i] > last, tv->toString(), " is inlined at position ", k,
                  ", but its loop axis ", i, " has no counterpart in that order in its consumer ",
                  c->toString());
        last = match[i];
      }
      const size_t depth = static_cast<size_t>(
          std::find(theirs.path.begin(), theirs.path.end(), theirs.own[static_cast<size_t>(last)]) -
          theirs.path.begin() + 1);
      if (chosen == nullptr) {
        chosen = c;
        chosen_match = match;
        mine.path.assign(theirs.path.begin(),
                         theirs.path.begin() + static_cast<std::ptrdiff_t>(depth));
        for (size_t i = 0; i < k; ++i) {
          mine.own.push_back(theirs.own[static_cast<size_t>(match[i])]);
        }
        continue;
      }
      NVF_CHECK(depth == mine.path.size(), tv->toString(), " is inlined at position ", k,
                " into consumers that stand in different loops: ", chosen->toString(), " and ",
                c->toString());
      // One producer computed in the loops of two consumers: those loops are one.
      for (size_t i = 0; i < depth; ++i) {
        unify(mine.path[i], theirs.path[i], tv);
        if (again_) {
          return;
        }
      }
    }
    // Promotion: what the loops we joined iterate over, and what hangs together with it.
    std::unordered_set<int> promoted;
    for (size_t i = 0; i < k; ++i) {
      const Loop* loop = find(mine.own[i]);
      if (loop->group != ids_.exact().group(effective[i])) {
        promoted.insert(component[i]);
      }
    }
    const TensorLoops& theirs = tensors_.at(chosen);
    for (size_t i = k; i < n; ++i) {
      if (promoted.count(component[i]) != 0 && forced.count(i) == 0) {
        NVF_CHECK(chosen_match[i] >= 0, tv->toString(), ": loop axis ", i,
                  " can't follow the axes that are inlined into ", chosen->toString());
        effective[i] = find(theirs.own[static_cast<size_t>(chosen_match[i])])->domain;
      }
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
    Loop* loop = newLoop(tv, i, effective[i]);
    mine.own.push_back(loop);
    mine.path.push_back(loop);
  }
}

void LoopModel::unify(Loop* a, Loop* b, const TensorView* tv) {
  a = find(a);
  b = find(b);
  if (a == b) {
    return;
  }
  NVF_CHECK(
      a->type == b->type || a->type == ParallelType::Serial || b->type == ParallelType::Serial,
      tv->toString(), " is inlined into two consumers that bind the same loop to ", a->type,
      " and ", b->type);
  if (a->group != b->group) {
    // One of them must come from a broadcast that the other consumer made concrete: it iterates
    // over the other's domain.
    auto covers = [&](const Loop* x, const Loop* y) {
      std::unordered_set<IdGroup> leaves_x = leafGroups(x->group);
      std::unordered_set<IdGroup> leaves_y = leafGroups(y->group);
      return std::all_of(leaves_y.begin(), leaves_y.end(),
                         [&](IdGroup g) { return leaves_x.count(g) != 0; });
    };
    Loop* narrow = covers(a, b) ? b : covers(b, a) ? a : nullptr;
    NVF_CHECK(narrow != nullptr, tv->toString(),
              " is inlined into two consumers whose loops differ: ", a->domain->toString(), " and ",
              b->domain->toString());
    const Loop* wide = narrow == a ? b : a;
    auto& forced = forced_[narrow->owner];
    NVF_CHECK(forced.count(narrow->axis) == 0, "the inlined loops of ", narrow->owner->toString(),
              " can't be made consistent");
    forced[narrow->axis] = wide->domain;
    promoteInnerAxes(*narrow, *wide);
    again_ = true;
    return;
  }
  Loop* keep = a->id < b->id ? a : b;
  Loop* drop = keep == a ? b : a;
  if (keep->type == ParallelType::Serial) {
    keep->type = drop->type;
  }
  parent_[static_cast<size_t>(drop->id)] = keep;
}

// The axes further in that hang together with a promoted one follow the tensor that it was promoted
// to.
void LoopModel::promoteInnerAxes(const Loop& narrow, const Loop& wide) {
  auto& forced = forced_[narrow.owner];
  const auto& followed = forced_[wide.owner];
  const std::vector<int> component = connectedAxes(narrow.owner);
  const auto& mine = narrow.owner->getLoopDomain();
  const auto& theirs = wide.owner->getLoopDomain();
  for (size_t i = narrow.axis + 1; i < mine.size(); ++i) {
    const size_t j = wide.axis + (i - narrow.axis);
    if (component[i] != component[narrow.axis] || forced.count(i) != 0 || j >= theirs.size()) {
      continue;
    }
    auto it = followed.find(j);
    forced[i] = it != followed.end() ? it->second : theirs[j];
  }
}

// The concrete groups without definition that a group descends from.
std::unordered_set<IdGroup> LoopModel::leafGroups(IdGroup g) const {
  std::unordered_set<IdGroup> leaves;
  std::unordered_set<IdGroup> seen;
  std::vector<IdGroup> stack{g};
  const IdGraph& graph = ids_.exact();
  while (!stack.empty()) {
    const IdGroup top = stack.back();
    stack.pop_back();
    if (!seen.insert(top).second) {
      continue;
    }
    if (graph.definitions(top).empty()) {
      const auto& ids = graph.members(top);
      if (!std::all_of(ids.begin(), ids.end(), [](auto* id) { return id->isBroadcast(); })) {
        leaves.insert(top);
      }
      continue;
    }
    for (const Expr* def : graph.definitions(top)) {
      for (const Val* in : def->inputs()) {
        stack.push_back(graph.group(in->as<IterDomain>()));
      }
    }
  }
  return leaves;
}

} // namespace nvfuser
