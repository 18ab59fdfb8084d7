// SPDX-License-Identifier: BSD-3-Clause
// See loop_model.h. Tensors are visited consumers first, so that a producer finds the loops it
// joins.
#include <id_model/loop_model.h>

#include <base/error.h>
#include <fusion.h>
#include <id_model/domain_match.h>
#include <ir/builder.h>
#include <ir/describe.h>
#include <ir/visitor.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

namespace nvfuser {

namespace {

// Loop variables are named after what the loop is for: u unrolled, s unswitch, j serial.
Val* indexOf(const Loop& loop) {
  if (loop.extent->isOneInt()) {
    return IrBuilder::index(0);
  }
  if (isParallelTypeThread(loop.type)) {
    return IrBuilder::create<NamedScalar>(std::string(parallelTag(loop.type)), DataType::Index);
  }
  // A vector or a box is accessed at its first element.
  if (loop.type == ParallelType::Vectorize || loop.type == ParallelType::Bulk) {
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
    // The results of one op have the same loops: those of the first, inlined as far as all may be.
    const std::vector<TensorView*> outs = tensorOutputs(*it);
    if (outs.empty()) {
      continue;
    }
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
    place(outs.front(), readers);
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
  // All domains first: groups may still be joined on the way.
  for (Loop& loop : loops_) {
    loop.domain = domains_.domain(loop.owner->getLoopDomain()[loop.axis]);
  }
  for (const auto& [tv, loops] : tensors_) {
    checkAxesDiffer(tv);
  }
  for (Loop& loop : loops_) {
    finish(loop);
  }
}

// A broadcast may be in a loop over the very dimension that another axis of the tensor is: two
// loops then run over one iteration, and no index says which element is meant.
void LoopModel::checkAxesDiffer(const TensorView* tv) {
  const auto& logical = tv->getLogicalDomain();
  for (IterDomain* id : logical) {
    if (!id->isBroadcast()) {
      continue;
    }
    const IterDomain* wide = domains_.domain(id);
    const bool is_another =
        !wide->isBroadcast() &&
        std::any_of(logical.begin(), logical.end(), [&](const IterDomain* other) {
          return !other->isBroadcast() && ids_.exact().same(wide, other);
        });
    NVF_CHECK(!is_another, describeLoops(tv), " is inlined so that its broadcast axis ",
              id->toString(), " runs over the same iterations as another of its axes");
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
  // Bound to threads it would leave all but the first without a value, while a consumer may run
  // over what was broadcast in the same threads: each computes its own copy.
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

void LoopModel::place(const TensorView* tv, const std::vector<Reader>& readers) {
  TensorLoops& mine = tensors_[tv];
  const size_t n = static_cast<size_t>(tv->nDims());
  size_t k = readers.empty() ? 0 : n;
  for (const Reader& r : readers) {
    k = std::min(k, static_cast<size_t>(r.producer->getComputeAtPosition()));
  }
  NVF_CHECK(k <= n, describeLoops(tv), ": compute-at position ", k, " is beyond its loop axes");
  if (k > 0) {
    for (const Reader& r : readers) {
      joinConsumer(r.producer, mine, k, r.consumer);
    }
    for (size_t i = 0; i < k; ++i) {
      // The producer's own parallelization must agree with the loop it joins.
      Loop* loop = find(mine.own[i]);
      const ParallelType type = tv->getLoopDomain()[i]->parallelType();
      if (loop->type == ParallelType::Serial) {
        loop->type = type;
      }
      NVF_CHECK(type == ParallelType::Serial || type == loop->type, describeLoops(tv),
                ": loop axis ", i, " is bound to ", type,
                " but the loop it is inlined into is bound to ", loop->type);
    }
  }
  mine.shared = mine.path.size();
  for (size_t i = k; i < n; ++i) {
    Loop* loop = newLoop(tv, i);
    mine.own.push_back(loop);
    mine.path.push_back(loop);
  }
  for (const Reader& r : readers) {
    widenThreads(r.producer, k, r.consumer);
  }
}

// The tensor's first `k` axes are loops of the consumer.
void LoopModel::joinConsumer(const TensorView* tv, TensorLoops& mine, size_t k,
                             const TensorView* consumer) {
  const TensorLoops& theirs = tensors_.at(consumer);
  const DomainMatch match(tv, consumer);
  const std::vector<int64_t> axes = match.producerToConsumerAxes();
  int64_t last = -1;
  for (size_t i = 0; i < k; ++i) {
    NVF_CHECK(axes[i] > last, describeLoops(tv), " is inlined at position ", k,
              ", but its loop axis ", i, " has no counterpart in that order in its consumer ",
              describeLoops(consumer));
    last = axes[i];
    domains_.join(tv->getLoopDomain()[i], consumer->getLoopDomain()[static_cast<size_t>(axes[i])]);
  }
  const auto& loop = tv->getLoopDomain();
  joinFollowers(match, tv, {loop.begin(), loop.begin() + static_cast<int64_t>(k)});
  const auto end =
      std::find(theirs.path.begin(), theirs.path.end(), theirs.own[static_cast<size_t>(last)]);
  const std::vector<Loop*> path(theirs.path.begin(), end + 1);
  if (mine.path.empty()) {
    mine.path = path;
    for (size_t i = 0; i < k; ++i) {
      mine.own.push_back(theirs.own[static_cast<size_t>(axes[i])]);
    }
    return;
  }
  NVF_CHECK(path.size() == mine.path.size(), describeLoops(tv), " is inlined at position ", k,
            " into consumers that stand in different loops, ", describeLoops(consumer),
            " and another one");
  // One producer computed in the loops of two consumers: those loops are one.
  for (size_t i = 0; i < path.size(); ++i) {
    const bool has_axis =
        std::find(mine.own.begin(), mine.own.end(), mine.path[i]) != mine.own.end();
    unify(mine.path[i], path[i], tv, has_axis);
  }
}

// The domains that hang together with these axes through transforms of the schedule follow where
// those lead.
void LoopModel::joinFollowers(const DomainMatch& match, const TensorView* producer,
                              const std::vector<IterDomain*>& axes) {
  const auto domains = domainsBetween(producer->getLogicalDomain(), axes);
  const std::unordered_set<const IterDomain*> followers(domains.begin(), domains.end());
  for (const auto& [p, c] : match.pairs) {
    if (followers.count(p) != 0) {
      domains_.join(p, c);
    }
  }
}

// The tensor stays in registers until the consumer's loops. Where these are bound to threads and
// run over more, every thread needs a value of its own.
void LoopModel::widenThreads(const TensorView* tv, size_t k, const TensorView* consumer) {
  if (tv->getMemoryType() != MemoryType::Local) {
    return;
  }
  const auto& loop = tv->getLoopDomain();
  std::vector<IterDomain*> axes;
  std::optional<DomainMatch> match;
  std::vector<int64_t> partners;
  for (size_t i = k; i < loop.size(); ++i) {
    if (!isParallelTypeThread(loop[i]->parallelType()) || loop[i]->isBroadcast() ||
        loop[i]->isReduction()) {
      continue;
    }
    if (!match.has_value()) {
      match.emplace(tv, consumer);
      partners = match->producerToConsumerAxes();
    }
    if (partners[i] < 0) {
      continue;
    }
    const Loop* theirs = find(tensors_.at(consumer).own[static_cast<size_t>(partners[i])]);
    IterDomain* wide = theirs->owner->getLoopDomain()[theirs->axis];
    const bool is_wider = !ids_.exact().same(wide, loop[i]) || widened_.count(wide) != 0;
    if (is_wider && theirs->type == loop[i]->parallelType()) {
      domains_.join(loop[i], wide);
      widened_.insert(loop[i]);
      axes.push_back(loop[i]);
    }
  }
  if (!axes.empty()) {
    joinFollowers(*match, tv, axes);
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
      describeLoops(tv), " is inlined into two consumers that bind the same loop to ", a->type,
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
