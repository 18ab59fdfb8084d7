// SPDX-License-Identifier: BSD-3-Clause
// See domain_match.h.
#include <id_model/domain_match.h>

#include <ir/logical_map.h>

namespace nvfuser {

namespace {

using Ids = std::vector<IterDomain*>;
using IdSet = std::unordered_set<const IterDomain*>;

IterDomain* idAt(const std::vector<Val*>& vals, size_t i) {
  return static_cast<IterDomain*>(vals[i]);
}

// One of the two tensors: its transforms towards the loops, and what the other one lacks.
struct Side {
  IdSet missing;
  std::unordered_map<const IterDomain*, const Expr*> uses;
  // Operand of a merge whose other operand is missing -> the merge's result; the rows or the
  // elements of an alignment whose other operand is missing -> its result.
  std::unordered_map<const IterDomain*, IterDomain*> forward;

  Side(const Ids& start, const Ids& loop, const IdSet& partnered) {
    for (const IterDomain* id : start) {
      if (partnered.count(id) == 0) {
        missing.insert(id);
      }
    }
    for (const Expr* e : transformsBetween(start, loop)) {
      add(e);
    }
  }

  IterDomain* advance(IterDomain* id) const {
    for (auto it = forward.find(id); it != forward.end(); it = forward.find(id)) {
      id = it->second;
    }
    return id;
  }

  // Where the other tensor has the same element everywhere, it has no resize.
  IterDomain* afterResizes(IterDomain* id) const {
    if (id->isBroadcast()) {
      return id;
    }
    for (const Expr* use = useOf(id); use != nullptr && use->kind() == ExprKind::Resize;
         use = useOf(id)) {
      id = advance(idAt(use->outputs(), 0));
    }
    return id;
  }

  const Expr* useOf(const IterDomain* id) const {
    auto it = uses.find(id);
    return it == uses.end() ? nullptr : it->second;
  }

 private:
  void add(const Expr* e) {
    size_t lacking = 0;
    for (Val* v : e->inputs()) {
      lacking += missing.count(static_cast<IterDomain*>(v));
      uses[static_cast<IterDomain*>(v)] = e;
    }
    if (lacking == e->inputs().size()) {
      for (Val* v : e->outputs()) {
        missing.insert(static_cast<IterDomain*>(v));
      }
    } else if (lacking == 1 && e->kind() == ExprKind::Merge) {
      const bool first = missing.count(idAt(e->inputs(), 0)) != 0;
      forward[idAt(e->inputs(), first ? 1 : 0)] = idAt(e->outputs(), 0);
    } else if (lacking == 1 && e->kind() == ExprKind::Align) {
      const size_t lost = missing.count(idAt(e->inputs(), 0)) != 0 ? 0 : 1;
      missing.insert(idAt(e->outputs(), lost));
      forward[idAt(e->inputs(), 1 - lost)] = idAt(e->outputs(), 1 - lost);
    }
  }
};

} // namespace

DomainMatch::DomainMatch(const TensorView* producer, const TensorView* consumer)
    : DomainMatch(producer, consumer, consumer->getMaybeRootDomain(),
                  producerConsumerPairs(producer, consumer)) {}

DomainMatch DomainMatch::ofVersions(const TensorView* tv, const TensorView* version) {
  const Ids& dims = tv->getLogicalDomain();
  const Ids& same = version->getLogicalDomain();
  std::vector<std::pair<IterDomain*, IterDomain*>> pairs_of_dims;
  for (size_t i = 0; i < dims.size(); ++i) {
    pairs_of_dims.emplace_back(dims[i], same[i]);
  }
  return {tv, version, same, pairs_of_dims};
}

DomainMatch::DomainMatch(const TensorView* producer, const TensorView* consumer,
                         const Ids& dims_of_consumer,
                         const std::vector<std::pair<IterDomain*, IterDomain*>>& pairs_of_dims)
    : producer_(producer), consumer_(consumer) {
  IdSet p_partnered;
  IdSet c_partnered;
  for (const auto& [p, c] : pairs_of_dims) {
    p_partnered.insert(p);
    c_partnered.insert(c);
  }
  Side p_side(producer->getLogicalDomain(), producer->getLoopDomain(), p_partnered);
  Side c_side(dims_of_consumer, consumer->getLoopDomain(), c_partnered);
  std::unordered_map<const IterDomain*, const IterDomain*> partner;
  std::vector<std::pair<IterDomain*, IterDomain*>> work(pairs_of_dims.rbegin(),
                                                        pairs_of_dims.rend());
  while (!work.empty()) {
    IterDomain* p = p_side.advance(work.back().first);
    IterDomain* c = c_side.advance(work.back().second);
    if (p->isBroadcast()) {
      c = c_side.afterResizes(c);
    }
    work.pop_back();
    partner[p] = c;
    pairs.emplace_back(p, c);
    const Expr* p_use = p_side.useOf(p);
    const Expr* c_use = c_side.useOf(c);
    if (p_use == nullptr || c_use == nullptr || !p_use->sameFields(c_use)) {
      continue;
    }
    bool inputs_agree = true;
    for (size_t i = 0; i < p_use->inputs().size() && inputs_agree; ++i) {
      auto it = partner.find(idAt(p_use->inputs(), i));
      inputs_agree = it != partner.end() && it->second == idAt(c_use->inputs(), i);
    }
    for (size_t i = 0; i < p_use->outputs().size() && inputs_agree; ++i) {
      work.emplace_back(idAt(p_use->outputs(), i), idAt(c_use->outputs(), i));
    }
  }
  only_producer = std::move(p_side.missing);
  only_consumer = std::move(c_side.missing);
}

std::vector<int64_t> DomainMatch::producerToConsumerAxes() const {
  std::unordered_map<const IterDomain*, const IterDomain*> partner(pairs.begin(), pairs.end());
  std::unordered_map<const IterDomain*, int64_t> position;
  for (const IterDomain* id : consumer_->getLoopDomain()) {
    position.emplace(id, static_cast<int64_t>(position.size()));
  }
  std::vector<int64_t> out;
  for (const IterDomain* id : producer_->getLoopDomain()) {
    auto it = partner.find(id);
    auto at = it == partner.end() ? position.end() : position.find(it->second);
    out.push_back(at == position.end() ? -1 : at->second);
  }
  return out;
}

} // namespace nvfuser
