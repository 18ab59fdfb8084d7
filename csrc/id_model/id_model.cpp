// Building the exact graph and the table of canonical extents.
#include <id_model/id_model.h>

#include <base/disjoint_set.h>
#include <base/error.h>
#include <fusion.h>
#include <ir/logical_map.h>
#include <ir/builder.h>
#include <ir/simplify.h>
#include <ir/visitor.h>

#include <sstream>
#include <unordered_set>

namespace nvfuser {

IdGraph buildGraph(Fusion* fusion, IdMappingMode mode) {
  const bool permissive = mode == IdMappingMode::Permissive || mode == IdMappingMode::Loop ||
      mode == IdMappingMode::Broadcast;
  IdGraph graph;
  for (const TensorView* tv : fusion->allTvs()) {
    graph.addTensor(tv);
  }
  for (const Expr* e : fusion->exprs()) {
    for (TensorView* out : tensorOutputs(e)) {
      for (TensorView* in : tensorInputs(e)) {
        for (auto [p, c] : producerConsumerPairs(in, out)) {
          if (permissive || p->isBroadcast() == c->isBroadcast()) {
            graph.map(p, c);
          }
        }
      }
    }
  }
  return graph;
}

IdModel::IdModel(Fusion* fusion) {
  const auto& exprs = fusion->exprs();
  const auto tvs = fusion->allTvs();
  for (const Expr* e : exprs) {
    const std::vector<TensorView*> outs = tensorOutputs(e);
    for (TensorView* out : outs) {
      exact_.addTensor(out);
      // Several results of one op (Welford) are computed in the same loops.
      for (size_t i = 0; i < out->getLogicalDomain().size() && out != outs.front(); ++i) {
        exact_.map(outs.front()->getLogicalDomain()[i], out->getLogicalDomain()[i]);
      }
      for (TensorView* in : tensorInputs(e)) {
        if (in->isFusionInput()) {
          continue;
        }
        for (auto [p, c] : producerConsumerPairs(in, out)) {
          if (p->isBroadcast() == c->isBroadcast()) {
            exact_.map(p, c);
          }
        }
      }
    }
  }
  for (const TensorView* tv : tvs) {
    std::unordered_set<IdGroup> seen;
    for (const IterDomain* id : tv->getLogicalDomain()) {
      if (!id->isBroadcast() && exact_.contains(id) && !seen.insert(exact_.group(id)).second) {
        self_mapped_ = tv;
      }
    }
  }
  joinExtents(exprs, tvs);
  for (auto [extent, value] : fusion->assumedExtents()) {
    Val* known = canonical(extent);
    if (!known->isConst()) {
      canonical_[known] = IrBuilder::index(value);
    }
  }
}

// Extents of paired dimensions are equal numbers (checked at launch), whichever axis they are of.
void IdModel::joinExtents(const std::vector<Expr*>& exprs, const std::vector<TensorView*>& tvs) {
  DisjointSets<Val*> equal;
  auto join = [&](const IterDomain* a, const IterDomain* b) {
    if (!a->isBroadcast() && !b->isBroadcast()) {
      equal.mapEntries(a->extent(), b->extent());
    }
  };
  for (const Expr* e : exprs) {
    for (TensorView* out : tensorOutputs(e)) {
      for (TensorView* in : tensorInputs(e)) {
        for (auto [p, c] : producerConsumerPairs(in, out)) {
          join(p, c);
        }
      }
    }
  }
  std::unordered_set<const Val*> of_inputs;
  for (const TensorView* tv : tvs) {
    if (tv->isFusionInput()) {
      for (const IterDomain* id : tv->getLogicalDomain()) {
        of_inputs.insert(id->getMaybeExpandedExtent());
      }
    }
  }
  auto rank = [&](const Val* v) {
    return v->isConst() ? 0 : of_inputs.count(v) != 0 ? 1 : v->definition() == nullptr ? 2 : 3;
  };
  for (const auto& set : equal.disjointSets()) {
    Val* best = nullptr;
    for (Val* v : *set) {
      if (best == nullptr || rank(v) < rank(best) ||
          (rank(v) == rank(best) && v->name() < best->name())) {
        best = v;
      }
    }
    for (Val* v : *set) {
      if (v != best) {
        canonical_[v] = best;
      }
    }
  }
}

Val* IdModel::canonical(Val* v) const {
  if (v->isConst()) {
    return v;
  }
  if (auto it = canonical_.find(v); it != canonical_.end()) {
    return it->second == v ? v : canonical(it->second);
  }
  auto* def = dynamic_cast<ElementwiseOp*>(v->definition());
  if (def == nullptr) {
    return v;
  }
  // Rebuilt only if an operand changes. Marked first: extents cannot be cyclic, but a set of equal
  // extents may contain one that is computed from another.
  canonical_[v] = v;
  std::vector<Val*> in;
  bool changed = false;
  for (Val* x : def->inputs()) {
    in.push_back(canonical(x));
    changed = changed || in.back() != x;
  }
  Val* out = v;
  if (changed) {
    if (in.size() == 2) {
      out = IrBuilder::scalar(def->op(), in[0], in[1]);
    } else if (def->op() == OpType::Where) {
      out = IrBuilder::whereExpr(in[0], in[1], in[2]);
    } else if (def->op() == OpType::Cast) {
      out = IrBuilder::castExpr(v->dtype(), in[0]);
    } else {
      out = v;
    }
  }
  canonical_[v] = out;
  return out;
}

Val* IdModel::extent(const IterDomain* id) const {
  return canonical(id->extent());
}

Val* IdModel::extent(IdGroup g) const {
  Val*& best = group_extents_[g];
  if (best != nullptr) {
    return best;
  }
  for (const IterDomain* id : exact_.members(g)) {
    Val* e = canonical(id->extent());
    if (e->isConst()) {
      return best = e;
    }
    if (best == nullptr || (best->definition() != nullptr && e->definition() == nullptr)) {
      best = e;
    }
  }
  return best;
}

std::string IdModel::toString() const {
  std::ostringstream out;
  for (IdGroup g : exact_.groups()) {
    out << "group " << g << ": {";
    const char* separator = "";
    for (const IterDomain* id : exact_.members(g)) {
      out << separator << id->toString();
      separator = ", ";
    }
    out << "}\n";
  }
  return out.str();
}

} // namespace nvfuser
