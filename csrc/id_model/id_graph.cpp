// SPDX-License-Identifier: BSD-3-Clause
// Union-find over IterDomains with congruence closure.
#include <id_model/id_graph.h>

#include <base/error.h>

#include <algorithm>

namespace nvfuser {

int IdGraph::find(int i) const {
  while (parent_[static_cast<size_t>(i)] != i) {
    parent_[static_cast<size_t>(i)] = parent_[static_cast<size_t>(parent_[static_cast<size_t>(i)])];
    i = parent_[static_cast<size_t>(i)];
  }
  return i;
}

IdGroup IdGraph::group(const IterDomain* id) const {
  auto it = index_.find(id);
  return it == index_.end() ? -1 : find(it->second);
}

void IdGraph::add(IterDomain* id) {
  const int next = static_cast<int>(nodes_.size());
  if (!index_.try_emplace(id, next).second) {
    return;
  }
  nodes_.push_back({{id}, {}, {}});
  parent_.push_back(next);
  if (id->definition() != nullptr) {
    addExpr(id->definition());
  }
}

void IdGraph::addExpr(Expr* expr) {
  if (!exprs_.try_emplace(expr, true).second) {
    return;
  }
  for (Val* v : expr->inputs()) {
    add(v->as<IterDomain>());
  }
  for (Val* v : expr->outputs()) {
    add(v->as<IterDomain>());
  }
  // A transform that is congruent to a known one adds nothing but the mapping of its outputs.
  for (Expr* other : uses(group(expr->input(0)->as<IterDomain>()))) {
    if (congruent(other, expr)) {
      exprs_[expr] = false;
      mapOutputs(other, expr);
      drain();
      return;
    }
  }
  for (Val* v : expr->inputs()) {
    nodes_[static_cast<size_t>(group(v->as<IterDomain>()))].uses.push_back(expr);
  }
  for (Val* v : expr->outputs()) {
    auto& definitions = nodes_[static_cast<size_t>(group(v->as<IterDomain>()))].definitions;
    for (Expr* other : definitions) {
      backwardCongruence(other, expr);
    }
    definitions.push_back(expr);
  }
  trivial(expr);
  for (Val* v : expr->inputs()) {
    inverses(group(v->as<IterDomain>()));
  }
  drain();
}

void IdGraph::addTensor(const TensorView* tv) {
  for (IterDomain* id : tv->domain()->allIds()) {
    add(id);
  }
}

void IdGraph::map(IterDomain* a, IterDomain* b) {
  add(a);
  add(b);
  pending_.emplace_back(a, b);
  drain();
}

namespace {

bool isOne(const Val* v) {
  return v->isOneInt();
}

} // namespace

void IdGraph::drain() {
  while (!pending_.empty()) {
    auto [x, y] = pending_.back();
    pending_.pop_back();
    int a = group(x);
    int b = group(y);
    if (a == b) {
      continue;
    }
    // The larger group keeps its place in memory; its lists grow by the smaller one's.
    auto weight = [&](int g) {
      const Node& n = nodes_[static_cast<size_t>(g)];
      return n.members.size() + n.uses.size() + n.definitions.size();
    };
    if (weight(a) < weight(b)) {
      std::swap(a, b);
    }
    Node small = std::move(nodes_[static_cast<size_t>(b)]);
    nodes_[static_cast<size_t>(b)] = {};
    parent_[static_cast<size_t>(b)] = a;
    Node& big = nodes_[static_cast<size_t>(a)];
    big.members.insert(big.members.end(), small.members.begin(), small.members.end());
    for (Expr* e : small.uses) {
      bool is_new = exprs_[e];
      for (size_t i = 0; is_new && i < big.uses.size(); ++i) {
        if (congruent(big.uses[i], e)) {
          mapOutputs(big.uses[i], e);
          exprs_[e] = false; // represented by the other one from now on
          is_new = false;
        }
      }
      if (is_new) {
        big.uses.push_back(e);
      }
    }
    for (Expr* e : small.definitions) {
      if (!exprs_[e]) {
        continue;
      }
      for (Expr* f : big.definitions) {
        backwardCongruence(e, f);
      }
      big.definitions.push_back(e);
    }
    auto dropped = [&](const Expr* e) { return !exprs_[e]; };
    std::erase_if(big.uses, dropped);
    std::erase_if(big.definitions, dropped);
    inverses(a);
    // Merges further on may have become the inverse of a split of this group.
    for (Expr* e : std::vector<Expr*>(nodes_[static_cast<size_t>(a)].uses)) {
      for (Val* out : e->outputs()) {
        inverses(group(out->as<IterDomain>()));
      }
    }
  }
}

bool IdGraph::congruent(const Expr* a, const Expr* b) const {
  if (a == b || !a->sameFields(b)) {
    return false;
  }
  for (size_t i = 0; i < a->inputs().size(); ++i) {
    if (!same(a->input(i)->as<IterDomain>(), b->input(i)->as<IterDomain>())) {
      return false;
    }
  }
  return true;
}

void IdGraph::mapOutputs(const Expr* a, const Expr* b) {
  for (size_t i = 0; i < a->outputs().size(); ++i) {
    pending_.emplace_back(a->output(i)->as<IterDomain>(), b->output(i)->as<IterDomain>());
  }
}

void IdGraph::backwardCongruence(Expr* a, Expr* b) {
  // A merge's output does not determine its inputs.
  if (a == b || a->kind() == ExprKind::Merge || !a->sameFields(b)) {
    return;
  }
  for (size_t i = 0; i < a->outputs().size(); ++i) {
    if (!same(a->output(i)->as<IterDomain>(), b->output(i)->as<IterDomain>())) {
      return;
    }
  }
  // All dimensions of one iteration may have been joined: which was resized to it is not known.
  if (a->kind() == ExprKind::Resize && a->output(0)->as<IterDomain>()->isBroadcast()) {
    return;
  }
  if (auto* s = tryAs<Split>(a)) {
    // [outer, inner] determine the input only when the split divides: else the extents may differ.
    const auto* t = static_cast<const Split*>(b);
    const bool divide = s->isDivisible() && t->isDivisible();
    if (!divide && !s->in()->extent()->sameAs(t->in()->extent())) {
      return;
    }
  }
  for (size_t i = 0; i < a->inputs().size(); ++i) {
    pending_.emplace_back(a->input(i)->as<IterDomain>(), b->input(i)->as<IterDomain>());
  }
}

void IdGraph::trivial(Expr* expr) {
  // A broadcast that was mapped to a concrete dimension stands for that one. (The part of a split
  // broadcast has more than one iteration, of which the others are padding.)
  auto is_one = [&](const IterDomain* id) {
    const auto& ids = members(group(id));
    return isOne(id->extent()) &&
           (!id->isBroadcast() ||
            std::all_of(ids.begin(), ids.end(), [](auto* m) { return m->isBroadcast(); }));
  };
  if (auto* s = tryAs<Split>(expr)) {
    if (isOne(s->factor())) {
      pending_.emplace_back(s->in(), s->innerSplit() ? s->outer() : s->inner());
    }
  } else if (auto* m = tryAs<Merge>(expr)) {
    if (is_one(m->inner())) {
      pending_.emplace_back(m->out(), m->outer());
    } else if (is_one(m->outer())) {
      pending_.emplace_back(m->out(), m->inner());
    }
  } else if (auto* a = tryAs<Align>(expr)) {
    pending_.emplace_back(a->outX(), a->inX());
  } else if (auto* r = tryAs<Resize>(expr)) {
    if (r->left()->isZeroInt() && r->right()->isZeroInt()) {
      pending_.emplace_back(r->out(), r->in());
    }
  }
}

// `g` is read by a merge that undoes a split, or made by a merge and split back.
void IdGraph::inverses(IdGroup g) {
  const Node& node = nodes_[static_cast<size_t>(find(g))];
  for (Expr* use : node.uses) {
    if (auto* m = tryAs<Merge>(use)) {
      for (Expr* def : nodes_[static_cast<size_t>(group(m->outer()))].definitions) {
        auto* s = tryAs<Split>(def);
        if (s != nullptr && s->isDivisible() && same(s->outer(), m->outer()) &&
            same(s->inner(), m->inner())) {
          pending_.emplace_back(m->out(), s->in());
        }
      }
    } else if (auto* s = tryAs<Split>(use)) {
      for (Expr* def : nodes_[static_cast<size_t>(group(s->in()))].definitions) {
        auto* m = tryAs<Merge>(def);
        if (m == nullptr) {
          continue;
        }
        const bool by_inner = s->innerSplit() && s->factor()->sameAs(m->inner()->extent());
        const bool by_outer = !s->innerSplit() && s->factor()->sameAs(m->outer()->extent());
        if (by_inner || by_outer) {
          pending_.emplace_back(s->outer(), m->outer());
          pending_.emplace_back(s->inner(), m->inner());
        }
      }
    }
  }
}

const IterDomain* IdGraph::oldest(IdGroup g) const {
  const auto& ids = members(g);
  return *std::min_element(ids.begin(), ids.end(), [&](const auto* a, const auto* b) {
    return index_.at(a) < index_.at(b);
  });
}

std::vector<IdGroup> IdGraph::groups() const {
  std::vector<IdGroup> out;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (find(static_cast<int>(i)) == static_cast<int>(i)) {
      out.push_back(static_cast<int>(i));
    }
  }
  return out;
}

} // namespace nvfuser
