// SPDX-License-Identifier: BSD-3-Clause
// Replay of loop transforms between neighbours.
#include <transform/replay.h>

#include <base/error.h>
#include <id_model/domain_match.h>
#include <ir/builder.h>
#include <ir/describe.h>
#include <ir/exprs.h>
#include <ir/logical_map.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

namespace {

using Ids = std::vector<IterDomain*>;
using IdUses = std::unordered_map<const IterDomain*, Expr*>;
using IdSet = std::unordered_set<const IterDomain*>;

IterDomain* idAt(const std::vector<Val*>& vals, size_t i) {
  return static_cast<IterDomain*>(vals[i]);
}

IdUses usesIn(const std::vector<Expr*>& exprs) {
  IdUses uses;
  for (Expr* e : exprs) {
    for (Val* v : e->inputs()) {
      uses[static_cast<IterDomain*>(v)] = e;
    }
  }
  return uses;
}

// Made by a transform of a reshape's definition, not of a factored reduction's.
bool isOfReshape(const IterDomain* id) {
  return id->isRfactorProduct() && !id->isReduction();
}

} // namespace

PairwiseLogicalMap::PairwiseLogicalMap(const TensorView* producer, const TensorView* consumer)
    : pairs_(producerConsumerPairs(producer, consumer)) {}

IterDomainMap PairwiseLogicalMap::producerToConsumer() const {
  return IterDomainMap(pairs_.begin(), pairs_.end());
}

IterDomainMap PairwiseLogicalMap::consumerToProducer() const {
  IterDomainMap out;
  for (const auto& [p, c] : pairs_) {
    out[c] = p;
  }
  return out;
}

LoopAxisMap mapLoopAxes(const TensorView* producer, const TensorView* consumer) {
  const DomainMatch match(producer, consumer);
  LoopAxisMap out;
  out.producer_to_consumer = match.producerToConsumerAxes();
  out.consumer_to_producer.assign(consumer->getLoopDomain().size(), -1);
  for (size_t i = 0; i < out.producer_to_consumer.size(); ++i) {
    const int64_t at = out.producer_to_consumer[i];
    if (at >= 0) {
      out.consumer_to_producer[static_cast<size_t>(at)] = static_cast<int64_t>(i);
    }
  }
  for (const IterDomain* id : producer->getLoopDomain()) {
    out.producer_shared.push_back(match.only_producer.count(id) == 0);
  }
  for (const IterDomain* id : consumer->getLoopDomain()) {
    out.consumer_shared.push_back(match.only_consumer.count(id) == 0);
  }
  return out;
}

namespace {

// The shortest prefix of one tensor's axes that holds exactly the other's first `pos` axes and axes
// that the other knows nothing of; -1 if there is none.
int64_t alignedPrefix(int64_t pos, const std::vector<int64_t>& this_to_other,
                      const std::vector<bool>& this_shared,
                      const std::vector<int64_t>& other_to_this) {
  int64_t needed = 0;
  for (int64_t i = 0; i < pos; ++i) {
    needed = std::max(needed, other_to_this[static_cast<size_t>(i)] + 1);
  }
  int64_t last = -1;
  for (int64_t i = 0; i < needed; ++i) {
    const int64_t partner = this_to_other[static_cast<size_t>(i)];
    if (partner < 0 ? this_shared[static_cast<size_t>(i)] : partner >= pos || partner < last) {
      return -1;
    }
    last = std::max(last, partner);
  }
  return needed;
}

} // namespace

int64_t LoopAxisMap::producerPosition(int64_t consumer_pos) const {
  // Every shared consumer axis of the prefix must have its partner.
  int64_t n = 0;
  for (; n < consumer_pos; ++n) {
    const auto i = static_cast<size_t>(n);
    if (consumer_shared[i] && consumer_to_producer[i] < 0) {
      break;
    }
  }
  for (; n > 0; --n) {
    const int64_t p = alignedPrefix(n, producer_to_consumer, producer_shared, consumer_to_producer);
    if (p >= 0) {
      return p;
    }
  }
  return 0;
}

int64_t LoopAxisMap::consumerPosition(int64_t producer_pos) const {
  for (int64_t i = 0; i < producer_pos; ++i) {
    if (producer_to_consumer[static_cast<size_t>(i)] < 0) {
      return -1;
    }
  }
  return alignedPrefix(producer_pos, consumer_to_producer, consumer_shared, producer_to_consumer);
}

namespace {

// Applies transforms of a reference to the leaves of a target.
class Replayer {
 public:
  // `history`: transforms of the target that exist already; where the reference does the same, its
  // results are these.
  Replayer(IterDomainMap map, Ids leaves, const std::vector<Expr*>& history,
           bool copy_parallel_types)
      : map_(std::move(map)),
        leaves_(std::move(leaves)),
        is_leaf_(leaves_.begin(), leaves_.end()),
        history_(usesIn(history)),
        copy_parallel_types_(copy_parallel_types) {}

  void replay(const std::vector<Expr*>& exprs) {
    for (Expr* e : exprs) {
      replayOne(e);
    }
  }

  IterDomain* mapped(IterDomain* reference) const {
    auto it = map_.find(reference);
    return it == map_.end() ? nullptr : it->second;
  }

  // Counterparts of the reference's axes in its order, then the other leaves. The count of the
  // former goes to `num_mapped`.
  Ids loopDomain(const Ids& reference_axes, int64_t* num_mapped) const {
    Ids loop;
    IdSet placed;
    for (IterDomain* axis : reference_axes) {
      IterDomain* id = mapped(axis);
      if (id != nullptr && is_leaf_.count(id) != 0 && placed.insert(id).second) {
        loop.push_back(id);
      }
    }
    *num_mapped = static_cast<int64_t>(loop.size());
    for (IterDomain* id : leaves_) {
      if (is_leaf_.count(id) != 0 && placed.insert(id).second) {
        loop.push_back(id);
      }
    }
    return loop;
  }

 private:
  void replayOne(Expr* e) {
    Ids in;
    for (size_t i = 0; i < e->inputs().size(); ++i) {
      if (IterDomain* id = mapped(idAt(e->inputs(), i))) {
        in.push_back(id);
      }
    }
    if (in.empty()) {
      return;
    }
    if (in.size() < e->inputs().size()) {
      // A merge with a dimension that is not there is the other operand; a swizzle with one, or
      // rows that are aligned where there are none, is none.
      for (size_t i = 0; i < e->outputs().size(); ++i) {
        if (e->kind() == ExprKind::Merge || mapped(idAt(e->inputs(), i)) != nullptr) {
          map_[idAt(e->outputs(), i)] =
              e->kind() == ExprKind::Merge ? in[0] : mapped(idAt(e->inputs(), i));
          narrowed_.insert(in[0]);
        }
      }
      return;
    }
    const bool sized = std::any_of(e->inputs().begin(), e->inputs().end(), [&](Val* v) {
      const auto* id = static_cast<const IterDomain*>(v);
      return !id->isBroadcast() || same_everywhere_.count(id) != 0;
    });
    if (sized && in[0]->isBroadcast()) {
      same_everywhere_.insert(e->outputs().begin(), e->outputs().end());
      if (e->kind() == ExprKind::Resize) {
        // A pad or a slice of what is the same everywhere.
        map_[idAt(e->outputs(), 0)] = in[0];
        return;
      }
    }
    const bool free =
        std::all_of(in.begin(), in.end(), [&](IterDomain* id) { return is_leaf_.count(id) != 0; });
    const Ids out = free ? apply(e, in) : follow(e, in);
    for (size_t i = 0; i < out.size(); ++i) {
      map_[idAt(e->outputs(), i)] = out[i];
    }
  }

  Ids follow(Expr* e, const Ids& in) const {
    auto it = history_.find(in[0]);
    if (it == history_.end() || !it->second->sameFields(e)) {
      return {};
    }
    for (size_t i = 0; i < in.size(); ++i) {
      if (idAt(it->second->inputs(), i) != in[i]) {
        return {};
      }
    }
    Ids out;
    for (size_t i = 0; i < it->second->outputs().size(); ++i) {
      out.push_back(idAt(it->second->outputs(), i));
    }
    return out;
  }

  // The target's domains are what the reference's are: so are the results, and no scalars are made
  // for their extents, which would contain those of every transform before.
  static bool isLikeReference(const Expr* e, const Ids& in) {
    for (size_t i = 0; i < in.size(); ++i) {
      const IterDomain* reference = idAt(e->inputs(), i);
      if (in[i]->extent() != reference->extent() ||
          in[i]->expandedExtent() != reference->expandedExtent() ||
          in[i]->iterType() != reference->iterType() || in[i]->isDeviceDim() ||
          reference->isDeviceDim()) {
        return false;
      }
    }
    // A factored reduction gives the results of a split types of their own.
    const bool keeps_type =
        std::all_of(e->outputs().begin(), e->outputs().end(), [&](const Val* out) {
          return static_cast<const IterDomain*>(out)->iterType() == in[0]->iterType();
        });
    return e->kind() == ExprKind::Resize ||
           (keeps_type && (e->kind() == ExprKind::Split || e->kind() == ExprKind::Merge));
  }

  static Ids applyAlike(const Expr* e, const Ids& in, bool whole) {
    Ids out;
    for (Val* v : e->outputs()) {
      const auto* reference = static_cast<IterDomain*>(v);
      out.push_back(
          IterDomainBuilder(reference)
              .parallelType(ParallelType::Serial)
              .isRfactor(isOfReshape(reference) && (whole || e->kind() == ExprKind::Resize))
              .build());
    }
    IrContainer* container = in[0]->container();
    if (e->kind() == ExprKind::Split) {
      const auto* s = static_cast<const Split*>(e);
      IrBuilder::createIn<Split>(container, out[0], out[1], in[0], s->factor(), s->innerSplit());
    } else if (e->kind() == ExprKind::Merge) {
      IrBuilder::createIn<Merge>(container, out[0], in[0], in[1]);
    } else {
      const auto* r = static_cast<const Resize*>(e);
      IrBuilder::createIn<Resize>(container, out[0], in[0], r->left(), r->right());
    }
    return out;
  }

  // The results are part of a reshape's definition, as those of the reference are: a split that a
  // reshape made divides here as well.
  static bool makesReshape(const Expr* e, const Ids& in, bool whole) {
    if (const auto* split = tryAs<Split>(e)) {
      return whole && split->isOfReshape();
    }
    return isOfReshape(idAt(e->outputs(), 0)) &&
           (e->kind() == ExprKind::Resize ? !in[0]->isBroadcast() : whole);
  }

  Ids apply(Expr* e, const Ids& in) {
    // Merging an axis with itself would repeat it; it happens when both operands were reduced to
    // one.
    if (in.size() == 2 && in[0] == in[1]) {
      return {};
    }
    // The same iterations as in the reference, not just what is left of them without a missing
    // dimension.
    bool whole = true;
    for (size_t i = 0; i < in.size(); ++i) {
      const bool is_broadcast = in[i]->isBroadcast() && !idAt(e->inputs(), i)->isBroadcast();
      whole = whole && narrowed_.count(in[i]) == 0 && !is_broadcast;
    }
    const Ids out = isLikeReference(e, in)
                        ? applyAlike(e, in, whole)
                        : IterDomain::transformedLike(e, in, makesReshape(e, in, whole));
    for (IterDomain* id : in) {
      is_leaf_.erase(id);
    }
    for (size_t i = 0; i < out.size(); ++i) {
      leaves_.push_back(out[i]);
      is_leaf_.insert(out[i]);
      if (!whole) {
        narrowed_.insert(out[i]);
      }
      if (copy_parallel_types_) {
        out[i]->parallelize(idAt(e->outputs(), i)->parallelType());
      }
    }
    return out;
  }

  IterDomainMap map_;
  Ids leaves_;
  IdSet is_leaf_;
  // Stand for a merge of which the target lacks a part.
  IdSet narrowed_;
  // Domains of the reference that stand for a broadcast of the target, whatever their sizes.
  std::unordered_set<const Val*> same_everywhere_;
  IdUses history_;
  bool copy_parallel_types_;
};

void checkNotInlined(const TensorView* tv) {
  NVF_CHECK(std::max(tv->getComputeAtPosition(), tv->getMaxProducerPosition()) == 0,
            "The loops of ", describeLoops(tv),
            " are shared with other tensors (inlined) and cannot be transformed any more: "
            "transform before "
            "inlining");
}

Ids prefix(const Ids& ids, int64_t n) {
  return Ids(ids.begin(), ids.begin() + n);
}

} // namespace

int64_t replayProducerAsConsumer(TensorView* producer, TensorView* consumer, int64_t consumer_pos) {
  const LoopAxisMap now = mapLoopAxes(producer, consumer);
  bool agrees = true;
  int64_t last = -1;
  for (int64_t i = 0; i < consumer_pos && agrees; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t p = now.consumer_to_producer[at];
    agrees = p < 0 ? !now.consumer_shared[at] : p == last + 1;
    last = std::max(last, p);
  }
  if (agrees) {
    return last + 1;
  }
  checkNotInlined(producer);
  const Ids reference = prefix(consumer->getLoopDomain(), consumer_pos);
  Replayer replayer(PairwiseLogicalMap(producer, consumer).consumerToProducer(),
                    producer->getLogicalDomain(), {}, false);
  replayer.replay(transformsBetween(consumer->getMaybeRootDomain(), reference));
  int64_t count = 0;
  producer->domain()->setLoopDomain(replayer.loopDomain(reference, &count));
  return count;
}

int64_t replayConsumerAsProducer(TensorView* consumer, TensorView* producer, int64_t producer_pos) {
  const LoopAxisMap now = mapLoopAxes(producer, consumer);
  bool agrees = true;
  int64_t last = -1;
  for (int64_t i = 0; i < producer_pos && agrees; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t c = now.producer_to_consumer[at];
    if (c < 0) {
      agrees = !now.producer_shared[at];
      continue;
    }
    // Between the partners only axes that the producer lacks may stand.
    agrees = c > last;
    for (int64_t k = last + 1; k < c && agrees; ++k) {
      agrees = !now.consumer_shared[static_cast<size_t>(k)];
    }
    last = c;
  }
  if (agrees) {
    return last + 1;
  }
  checkNotInlined(consumer);
  const Ids reference = prefix(producer->getLoopDomain(), producer_pos);
  Replayer replayer(
      PairwiseLogicalMap(producer, consumer).producerToConsumer(), consumer->getLogicalDomain(),
      transformsBetween(consumer->getMaybeRootDomain(), consumer->getLogicalDomain()), false);
  replayer.replay(transformsBetween(producer->getLogicalDomain(), reference));
  int64_t count = 0;
  consumer->domain()->setLoopDomain(replayer.loopDomain(reference, &count));
  return count;
}

int64_t replayAsVersion(TensorView* version, TensorView* other, int64_t pos) {
  checkNotInlined(version);
  const Ids& theirs = other->getLogicalDomain();
  const Ids& own = version->getLogicalDomain();
  NVF_ERROR(theirs.size() == own.size());
  IterDomainMap map;
  for (size_t i = 0; i < own.size(); ++i) {
    map[theirs[i]] = own[i];
  }
  const Ids reference = prefix(other->getLoopDomain(), pos);
  Replayer replayer(std::move(map), own, {}, false);
  replayer.replay(transformsBetween(theirs, reference));
  int64_t count = 0;
  version->domain()->setLoopDomain(replayer.loopDomain(reference, &count));
  return count;
}

std::vector<int64_t> replayAs(TensorView* tv, const TensorView* reference, IterDomainMap map) {
  checkNotInlined(tv);
  Replayer replayer(std::move(map), tv->getLogicalDomain(), {}, false);
  const Ids& theirs = reference->getLoopDomain();
  replayer.replay(transformsBetween(reference->getMaybeRootDomain(), theirs));
  int64_t count = 0;
  Ids own = replayer.loopDomain(theirs, &count);
  std::vector<int64_t> partner(own.size(), -1);
  for (size_t i = 0; i < theirs.size(); ++i) {
    const auto it = std::find(own.begin(), own.begin() + count, replayer.mapped(theirs[i]));
    if (it != own.begin() + count) {
      partner[static_cast<size_t>(it - own.begin())] = static_cast<int64_t>(i);
    }
  }
  tv->domain()->setLoopDomain(own);
  return partner;
}

std::vector<IterDomain*> replayOnCopy(const std::vector<IterDomain*>& from,
                                      const std::vector<IterDomain*>& loop,
                                      const std::vector<IterDomain*>& onto) {
  NVF_ERROR(from.size() == onto.size());
  IterDomainMap map;
  for (size_t i = 0; i < from.size(); ++i) {
    map[from[i]] = onto[i];
  }
  Replayer replayer(std::move(map), onto, {}, true);
  replayer.replay(transformsBetween(from, loop));
  int64_t count = 0;
  Ids out = replayer.loopDomain(loop, &count);
  NVF_ERROR(count == static_cast<int64_t>(loop.size()));
  return out;
}

} // namespace nvfuser
