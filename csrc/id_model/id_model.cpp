// SPDX-License-Identifier: BSD-3-Clause
// Building the exact graph and the table of canonical extents.
#include <id_model/id_model.h>

#include <algebra/simplify.h>
#include <base/disjoint_set.h>
#include <base/error.h>
#include <definition/extent_constraints.h>
#include <fusion.h>
#include <ir/builder.h>
#include <ir/logical_map.h>
#include <ir/visitor.h>

#include <algorithm>
#include <sstream>
#include <unordered_set>

namespace nvfuser {

namespace {

void mapNeighbours(const Fusion* fusion, IdMappingMode mode, IdGraph& graph) {
  const bool permissive = mode == IdMappingMode::Permissive || mode == IdMappingMode::Loop ||
                          mode == IdMappingMode::Broadcast;
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
}

} // namespace

IdGraph buildGraph(const Fusion* fusion, IdMappingMode mode) {
  IdGraph graph;
  for (const TensorView* tv : fusion->allTvs()) {
    graph.addTensor(tv);
  }
  mapNeighbours(fusion, mode, graph);
  return graph;
}

IdGraph buildDimensionGraph(const Fusion* fusion, IdMappingMode mode) {
  IdGraph graph;
  for (const TensorView* tv : fusion->allTvs()) {
    for (const auto* ids : {&tv->getMaybeRootDomain(), &tv->getLogicalDomain()}) {
      for (IterDomain* id : *ids) {
        graph.add(id);
      }
    }
  }
  mapNeighbours(fusion, mode, graph);
  return graph;
}

IdModel::IdModel(Fusion* fusion) : tensors_(fusion->allTvs()) {
  const auto& exprs = fusion->exprs();
  for (const Expr* e : exprs) {
    addCuts(e);
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
  findSelfMapped();
  joinExtents(fusion);
  for (auto [extent, value] : fusion->assumedExtents()) {
    Val* known = canonical(extent);
    if (!known->isConst()) {
      canonical_[known] = IrBuilder::index(value);
      assumed_.push_back(known);
    }
  }
}

namespace {

// Null if the value is no product.
const ElementwiseOp* productOf(const Val* v) {
  const auto* op = tryAs<ElementwiseOp>(v->definition());
  return op != nullptr && op->op() == OpType::Mul ? op : nullptr;
}

void addFactors(Val* v, std::vector<Val*>& factors) {
  const ElementwiseOp* product = productOf(v);
  if (product == nullptr) {
    factors.push_back(v);
    return;
  }
  addFactors(product->in(0), factors);
  addFactors(product->in(1), factors);
}

// What two equal products have beside their common factors, if that is one factor each.
std::optional<std::pair<Val*, Val*>> otherFactors(Val* a, Val* b, const DisjointSets<Val*>& equal) {
  std::vector<Val*> left;
  std::vector<Val*> right;
  addFactors(a, left);
  addFactors(b, right);
  std::erase_if(left, [&](Val* x) {
    auto same = std::find_if(right.begin(), right.end(), [&](Val* y) {
      return x->sameAs(y) || equal.permissiveAreMapped(x, y);
    });
    if (same == right.end()) {
      return false;
    }
    right.erase(same);
    return true;
  });
  if (left.size() != 1 || right.size() != 1) {
    return std::nullopt;
  }
  return std::pair{left.front(), right.front()};
}

// a * b == a * c, of which none is zero: b == c.
void joinFactors(DisjointSets<Val*>& equal) {
  std::vector<std::pair<Val*, Val*>> found;
  do {
    found.clear();
    for (const auto& set : equal.disjointSets()) {
      Val* first = nullptr;
      for (Val* v : *set) {
        if (productOf(v) == nullptr) {
          continue;
        }
        if (first == nullptr) {
          first = v;
        } else if (const auto others = otherFactors(first, v, equal)) {
          found.push_back(*others);
        }
      }
    }
    std::erase_if(found, [&](const auto& pair) {
      return equal.permissiveAreMapped(pair.first, pair.second);
    });
    for (const auto& [a, b] : found) {
      equal.mapEntries(a, b);
    }
  } while (!found.empty());
}

} // namespace

// Extents of paired dimensions are equal numbers (checked at launch), whichever axis they are of,
// and however often a broadcast is repeated.
void IdModel::joinExtents(const Fusion* fusion) {
  DisjointSets<Val*> equal;
  for (const ExtentConstraint& pair : extentConstraints(*fusion)) {
    if (pair.relation == ExtentConstraint::Relation::Equal) {
      equal.mapEntries(pair.producer_extent, pair.consumer_extent);
    }
  }
  if (fusion->hasElements()) {
    joinFactors(equal);
  }
  std::unordered_set<const Val*> of_inputs;
  for (const TensorView* tv : tensors_) {
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

void IdModel::addCuts(const Expr* e) {
  if (e->kind() != ExprKind::SliceOp) {
    return;
  }
  for (const IterDomain* id : e->output(0)->as<TensorView>()->getLogicalDomain()) {
    if (const auto* resize = tryAs<Resize>(id->definition())) {
      cuts_.insert(resize->left());
      cuts_.insert(resize->right());
    }
  }
}

bool IdModel::mayGrow(Val* width) const {
  return cuts_.count(width) == 0 && rangeOf(canonical(width)).max.value_or(1) > 0;
}

void IdModel::findSelfMapped() {
  auto repeats = [&](const std::vector<IterDomain*>& domain) {
    std::unordered_set<IdGroup> seen;
    return std::any_of(domain.begin(), domain.end(), [&](const IterDomain* id) {
      return !id->isBroadcast() && !id->extent()->isOneInt() && exact_.contains(id) &&
             !seen.insert(exact_.group(id)).second;
    });
  };
  for (const TensorView* tv : tensors_) {
    if (repeats(tv->getMaybeRootDomain()) || repeats(tv->getLogicalDomain())) {
      self_mapped_ = tv;
    }
  }
}

bool IdModel::identify(IterDomain* a, IterDomain* b) {
  exact_.map(a, b);
  findSelfMapped();
  return self_mapped_ == nullptr;
}

std::vector<IterDomain*> IdModel::repeat(const Expr* transform,
                                         const std::vector<IterDomain*>& inputs) {
  for (const Expr* use : exact_.uses(exact_.group(inputs.front()))) {
    bool equal = use->kind() == transform->kind() && use->sameFields(transform);
    for (size_t i = 0; i < inputs.size() && equal; ++i) {
      equal = exact_.same(use->input(i)->as<IterDomain>(), inputs[i]);
    }
    if (equal) {
      std::vector<IterDomain*> outputs;
      for (Val* out : use->outputs()) {
        outputs.push_back(out->as<IterDomain>());
      }
      return outputs;
    }
  }
  // Over copies: the transforms of the tensors themselves stay as they are.
  std::vector<IterDomain*> copies;
  for (IterDomain* in : inputs) {
    copies.push_back(IterDomainBuilder(extent(exact_.group(in)))
                         .iterType(in->isBroadcast() ? IterType::Broadcast : IterType::Iteration)
                         .build());
    exact_.map(copies.back(), in);
  }
  const std::vector<IterDomain*> outputs = IterDomain::transformedLike(transform, copies);
  for (IterDomain* out : outputs) {
    exact_.add(out);
  }
  return outputs;
}

Val* IdModel::canonical(Val* v) const {
  if (v->isConst()) {
    return v;
  }
  if (auto it = canonical_.find(v); it != canonical_.end()) {
    return it->second == v ? v : canonical(it->second);
  }
  // Marked first: extents cannot be cyclic, but a set of equal extents may contain one that is
  // computed from another.
  canonical_[v] = v;
  Val* out = IrBuilder::withOperands(v, [&](Val* x) { return canonical(x); });
  // An extent that the schedule assumes, made of the same numbers for another tensor.
  for (Val* known : assumed_) {
    if (out != known && out->sameAs(known)) {
      out = canonical_.at(known);
      break;
    }
  }
  canonical_[v] = out;
  return out;
}

Val* IdModel::extent(const IterDomain* id) const {
  return canonical(id->extent());
}

namespace {

int numOperations(const Val* v) {
  const Expr* def = v->definition();
  int n = def == nullptr ? 0 : 1;
  if (def != nullptr) {
    for (const Val* in : def->inputs()) {
      n += numOperations(in);
    }
  }
  return n;
}

} // namespace

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
    if (best == nullptr || numOperations(e) < numOperations(best)) {
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
