// SPDX-License-Identifier: BSD-3-Clause
// See indexer.h.
#include <id_model/indexer.h>

#include <algebra/simplify.h>
#include <base/error.h>
#include <ir/builder.h>

#include <algorithm>
#include <optional>

namespace nvfuser {

namespace {

std::vector<IdGroup> groupsOf(const IdGraph& graph, const std::vector<Val*>& ids) {
  std::vector<IdGroup> out;
  for (const Val* id : ids) {
    out.push_back(graph.group(id->as<IterDomain>()));
  }
  return out;
}

// The width of a resize may be negative.
bool mayShrink(Val* width) {
  return rangeOf(width).min.value_or(-1) < 0;
}

} // namespace

Indexer::Indexer(const IdGraph& graph, const IdModel& ids,
                 std::vector<std::pair<IdGroup, Val*>> known,
                 const std::unordered_set<IdGroup>& divisible_parts,
                 const SingleIterations& singles, std::vector<const Resize*> own_resizes)
    : graph_(graph),
      ids_(ids),
      divisible_parts_(divisible_parts),
      known_(std::move(known)),
      zeros_(singles.zeros.begin(), singles.zeros.end()),
      other_elements_(singles.others),
      own_resizes_(std::move(own_resizes)) {
  std::vector<IdGroup> frontier;
  for (auto [g, v] : known_) {
    frontier.push_back(g);
    how_.try_emplace(g, Step{});
    index_.try_emplace(g, v);
  }
  explore(std::move(frontier));
  // Only what no loop leads to: in the loops of a padded tensor the element has an index, which is
  // 0 where it is inside.
  explore(startAtZero(singles.zeros));
  // Their single iteration is not padded to more here: that would be another resize of theirs.
  explore(startAtZero(singles.ones), /*enters_resizes=*/false);
}

Indexer::Indexer(Indexer& base, const Indexer& through)
    : base_(&base),
      graph_(base.graph_),
      ids_(base.ids_),
      divisible_parts_(base.divisible_parts_),
      how_(through.how_) {}

Indexer::Indexer(Indexer& base, const std::vector<const Resize*>& cuts,
                 const std::vector<IterDomain*>& ids)
    : base_(&base), graph_(base.graph_), ids_(base.ids_), divisible_parts_(base.divisible_parts_) {
  for (const Resize* cut : cuts) {
    how_.try_emplace(graph_.group(cut->out()), Step{});
  }
  // By the tensor's own transforms up to its resizes: others may lead from the loops to the same
  // groups, and what its loops make of an element is not what that was cut from.
  std::unordered_set<const IterDomain*> before_resizes;
  for (auto it = ids.rbegin(); it != ids.rend(); ++it) {
    const IterDomain* id = *it;
    const Expr* def = id->definition();
    if (def == nullptr || (def->kind() != ExprKind::Resize && before_resizes.count(id) == 0)) {
      continue;
    }
    const IdGroup made = graph_.group(id);
    const bool all_known =
        std::all_of(def->outputs().begin(), def->outputs().end(),
                    [&](const Val* out) { return reaches(graph_.group(out->as<IterDomain>())); });
    for (const Val* v : def->inputs()) {
      const auto* in = v->as<IterDomain>();
      before_resizes.insert(in);
      const IdGroup g = graph_.group(in);
      const bool is_part =
          std::any_of(def->outputs().begin(), def->outputs().end(),
                      [&](const Val* out) { return graph_.group(out->as<IterDomain>()) == g; });
      const bool follows =
          how_.count(made) != 0 || (isThroughElement(made) && !isThroughElement(g));
      if (all_known && follows && !is_part) {
        how_.try_emplace(g, Step{const_cast<Expr*>(def), /*backward=*/true});
      }
    }
  }
}

const Indexer::Step* Indexer::lastStepTo(IdGroup g) const {
  auto it = how_.find(g);
  return it != how_.end() ? &it->second : base_ == nullptr ? nullptr : base_->lastStepTo(g);
}

bool Indexer::isAsBase() const {
  return std::all_of(how_.begin(), how_.end(), [&](const auto& entry) {
    const auto& [g, step] = entry;
    const Step* there = base_->isThroughElement(g) ? base_->lastStepTo(g) : nullptr;
    if (there == nullptr || (there->expr == nullptr) != (step.expr == nullptr)) {
      return false;
    }
    return step.expr == nullptr || sources(step) == sources(*there);
  });
}

bool Indexer::reachesMerge(const Merge& merge) const {
  return reaches(graph_.group(merge.out())) && !isThroughElement(graph_.group(merge.outer())) &&
         !isThroughElement(graph_.group(merge.inner()));
}

// Those of the groups that nothing has led to get the index 0.
std::vector<IdGroup> Indexer::startAtZero(const std::vector<IdGroup>& groups) {
  std::vector<IdGroup> out;
  for (IdGroup g : groups) {
    if (how_.try_emplace(g, Step{}).second) {
      out.push_back(g);
    }
  }
  return out;
}

Val* Indexer::extentOf(IdGroup g) const {
  return &graph_ == &ids_.exact() ? ids_.extent(g)
                                  : ids_.canonical(graph_.members(g).front()->extent());
}

// A resize between the same groups as one of the tensor's own, but by other widths.
bool Indexer::isAnothers(const Expr* expr) const {
  const auto* resize = tryAs<Resize>(expr);
  if (resize == nullptr) {
    return false;
  }
  bool same_groups = false;
  for (const Resize* own : own_resizes_) {
    if (graph_.group(own->in()) != graph_.group(resize->in()) ||
        graph_.group(own->out()) != graph_.group(resize->out())) {
      continue;
    }
    if (ids_.canonical(own->left())->sameAs(ids_.canonical(resize->left()))) {
      return false;
    }
    same_groups = true;
  }
  return same_groups;
}

// One element meets a dimension, and a part of that is cut out or padded: the loops of the element
// repeat the resize (transform/replay.cpp), which moves the dimension, but not the element. So do
// the loops of a tensor that has only some dimensions of those that were flattened and cut.
bool Indexer::saysNothingOf(const Expr* def) const {
  const auto* resize = tryAs<Resize>(def);
  if (resize == nullptr) {
    return false;
  }
  return other_elements_.count(graph_.group(resize->out())) != 0 ||
         (!resize->out()->isRfactorProduct() && zeros_.count(graph_.group(resize->in())) != 0);
}

bool Indexer::runsOver(const Resize& cut) const {
  const IdGroup whole = graph_.group(cut.in());
  const IdGroup element = graph_.group(cut.out());
  if (!reaches(whole)) {
    return false;
  }
  const std::vector<Step> steps = stepsTo(whole);
  return std::none_of(steps.begin(), steps.end(), [&](const Step& step) {
    const std::vector<IdGroup> from = sources(step);
    return std::find(from.begin(), from.end(), element) != from.end();
  });
}

bool Indexer::passesOver(const Resize& resize) const {
  const IdGroup in = graph_.group(resize.in());
  if (!reaches(in) || zeros_.count(in) != 0 ||
      other_elements_.count(graph_.group(resize.out())) != 0 ||
      ids_.canonical(resize.left())->isZeroInt()) {
    return false;
  }
  const std::vector<Step> steps = stepsTo(in);
  return std::none_of(steps.begin(), steps.end(), [&](const Step& step) {
    const auto* other = tryAs<Resize>(step.expr);
    return other != nullptr && !ids_.canonical(other->left())->isZeroInt();
  });
}

void Indexer::explore(std::vector<IdGroup> frontier) {
  std::vector<IdGroup> before_resizes = explore(std::move(frontier), /*enters_resizes=*/false);
  explore(std::move(before_resizes), /*enters_resizes=*/true);
}

// Breadth first, so that each group is reached by the fewest transforms.
std::vector<IdGroup> Indexer::explore(std::vector<IdGroup> frontier, bool enters_resizes) {
  std::vector<IdGroup> before_resizes;
  auto all_reached = [&](const std::vector<Val*>& ids) {
    return std::all_of(ids.begin(), ids.end(),
                       [&](const Val* id) { return reaches(graph_.group(id->as<IterDomain>())); });
  };
  while (!frontier.empty()) {
    std::vector<IdGroup> next;
    auto reach = [&](const std::vector<Val*>& ids, Expr* expr, bool backward) {
      for (IdGroup g : groupsOf(graph_, ids)) {
        if (how_.try_emplace(g, Step{expr, backward}).second) {
          next.push_back(g);
        }
      }
    };
    for (IdGroup g : frontier) {
      for (Expr* def : graph_.definitions(g)) {
        if (all_reached(def->outputs()) && !isAnothers(def) && !saysNothingOf(def)) {
          reach(def->inputs(), def, true);
        }
      }
      for (Expr* use : graph_.uses(g)) {
        if (use->kind() == ExprKind::Resize && !enters_resizes) {
          before_resizes.push_back(g);
          continue;
        }
        if (all_reached(use->inputs()) && !isAnothers(use)) {
          reach(use->outputs(), use, false);
        }
      }
    }
    frontier = std::move(next);
  }
  return before_resizes;
}

Val* Indexer::index(IdGroup g) {
  if (auto it = index_.find(g); it != index_.end()) {
    return it->second;
  }
  auto it = how_.find(g);
  if (it == how_.end()) {
    return base_ == nullptr ? nullptr : base_->index(g);
  }
  const Step step = it->second;
  if (step.expr == nullptr) {
    return index_[g] = IrBuilder::index(0);
  }
  auto of = [&](const IterDomain* id) { return index(graph_.group(id)); };
  auto extent = [&](const IterDomain* id) { return extentOf(graph_.group(id)); };
  auto set = [&](const IterDomain* id, Val* v) {
    const IdGroup other = graph_.group(id);
    if (base_ == nullptr || other == g || how_.at(other).expr == step.expr) {
      index_.try_emplace(other, v);
    }
  };
  using B = IrBuilder;
  if (auto* s = tryAs<Split>(step.expr)) {
    if (step.backward) {
      set(s->in(), B::addExpr(B::mulExpr(of(s->outer()), extent(s->inner())), of(s->inner())));
    } else {
      set(s->outer(), B::divExpr(of(s->in()), extent(s->inner())));
      set(s->inner(), B::modExpr(of(s->in()), extent(s->inner())));
    }
  } else if (auto* m = tryAs<Merge>(step.expr)) {
    if (step.backward) {
      set(m->outer(), B::divExpr(of(m->out()), extent(m->inner())));
      set(m->inner(), B::modExpr(of(m->out()), extent(m->inner())));
    } else {
      set(m->out(), B::addExpr(B::mulExpr(of(m->outer()), extent(m->inner())), of(m->inner())));
    }
  } else if (auto* r = tryAs<Resize>(step.expr)) {
    Val* left = ids_.canonical(r->left());
    if (step.backward) {
      set(r->in(), B::subExpr(of(r->out()), left));
    } else {
      set(r->out(), B::addExpr(of(r->in()), left));
    }
  } else if (auto* z = tryAs<Swizzle>(step.expr)) {
    // Both swizzles keep x and permute y by it.
    IterDomain* from_x = step.backward ? z->outX() : z->inX();
    IterDomain* from_y = step.backward ? z->outY() : z->inY();
    IterDomain* to_x = step.backward ? z->inX() : z->outX();
    IterDomain* to_y = step.backward ? z->inY() : z->outY();
    Val* x = of(from_x);
    Val* y = of(from_y);
    Val* n = extent(z->inY());
    Val* result = y;
    if (z->swizzleType() == SwizzleType::Xor) {
      result = B::scalar(OpType::BitwiseXor, x, y);
    } else if (z->swizzleType() == SwizzleType::CyclicShift) {
      result = step.backward ? B::modExpr(B::addExpr(B::subExpr(y, x), n), n)
                             : B::modExpr(B::addExpr(x, y), n);
    }
    set(to_x, x);
    set(to_y, result);
  } else if (auto* a = tryAs<Align>(step.expr)) {
    Val* x = of(a->inX());
    Val* before = B::modExpr(B::mulExpr(x, ids_.canonical(a->stride())), B::index(a->width()));
    if (step.backward) {
      set(a->inY(), B::subExpr(of(a->outY()), before));
    } else {
      set(a->outY(), B::addExpr(of(a->inY()), before));
    }
  } else {
    NVF_THROW("no index through ", step.expr->toString());
  }
  auto found = index_.find(g);
  NVF_ERROR(found != index_.end(), "an index was not derived");
  return found->second;
}

bool Indexer::divides(const Split* split) const {
  if (split->isDivisible() || divisible_parts_.count(graph_.group(split->inner())) != 0) {
    return true;
  }
  return provablyDivisible(extentOf(graph_.group(split->in())), ids_.canonical(split->factor()));
}

std::vector<BoundsGuard> Indexer::guards(const std::vector<IdGroup>& targets) {
  std::vector<BoundsGuard> out;
  std::unordered_map<IdGroup, bool> seen;
  for (IdGroup g : targets) {
    collectGuards(g, /*in_bounds=*/false, out, seen);
  }
  return out;
}

// `in_bounds`: the guards collected so far keep this group's index below its extent. The outer part
// of a split is in bounds when the whole is (x < n implies x / f < ceilDiv(n, f)); the inner part
// may have a padded split of its own.
void Indexer::collectGuards(IdGroup g, bool in_bounds, std::vector<BoundsGuard>& out,
                            std::unordered_map<IdGroup, bool>& seen) {
  auto it = how_.find(g);
  if (it == how_.end() && base_ != nullptr) {
    base_->collectGuards(g, in_bounds, out, seen);
    return;
  }
  if (it == how_.end() || it->second.expr == nullptr) {
    return;
  }
  auto [mark, fresh] = seen.try_emplace(g, in_bounds);
  if (!fresh && (mark->second == in_bounds || !mark->second)) {
    return;
  }
  mark->second = in_bounds;
  const Step step = it->second;
  auto* split = tryAs<Split>(step.expr);
  if (split != nullptr && step.backward) {
    const IdGroup outer = graph_.group(split->outer());
    const IdGroup inner = graph_.group(split->inner());
    if (!in_bounds && !divides(split)) {
      out.push_back({index(g), extentOf(g)});
      in_bounds = true;
    }
    const size_t before = out.size();
    collectGuards(outer, in_bounds, out, seen);
    // A split that divides by a vector's width f: o < n / f says the same as o * f < n, which is
    // the address of the vector and readable.
    if (divisible_parts_.count(inner) != 0) {
      for (size_t i = before; i < out.size(); ++i) {
        if (out[i].index == index(outer) && !out[i].check_lower) {
          out[i] = {IrBuilder::mulExpr(index(outer), extentOf(inner)), extentOf(g)};
        }
      }
    }
    collectGuards(inner, false, out, seen);
    return;
  }
  auto* resize = tryAs<Resize>(step.expr);
  if (resize != nullptr && step.backward) {
    // Where nothing was added at an end, being inside of the result is enough.
    const bool lower = ids_.mayGrow(resize->left());
    const bool upper = ids_.mayGrow(resize->right());
    if (lower || upper) {
      out.push_back({index(g), extentOf(g), lower, upper});
    }
  }
  const auto* align = tryAs<Align>(step.expr);
  if (align != nullptr && step.backward) {
    out.push_back({index(g), extentOf(g), true, true, /*within_vectors=*/true});
    // In bounds before if it is now.
    collectGuards(graph_.group(align->outY()), true, out, seen);
    collectGuards(graph_.group(align->inX()), false, out, seen);
    return;
  }
  for (IdGroup from : sources(step)) {
    collectGuards(from, false, out, seen);
  }
}

std::vector<Indexer::Step> Indexer::stepsTo(IdGroup g) const {
  std::unordered_set<const Expr*> seen;
  std::vector<Step> steps;
  collectSteps(g, seen, steps);
  return steps;
}

// Sources before what is made of them.
void Indexer::collectSteps(IdGroup g, std::unordered_set<const Expr*>& seen,
                           std::vector<Step>& out) const {
  auto it = how_.find(g);
  if (it == how_.end() && base_ != nullptr) {
    base_->collectSteps(g, seen, out);
    return;
  }
  if (it == how_.end() || it->second.expr == nullptr || !seen.insert(it->second.expr).second) {
    return;
  }
  for (IdGroup source : sources(it->second)) {
    collectSteps(source, seen, out);
  }
  out.push_back(it->second);
}

std::vector<IdGroup> Indexer::sources(const Step& step) const {
  return groupsOf(graph_, step.backward ? step.expr->outputs() : step.expr->inputs());
}

std::vector<IdGroup> Indexer::results(const Step& step) const {
  return groupsOf(graph_, step.backward ? step.expr->inputs() : step.expr->outputs());
}

// The outer digit of a number comes first in both transforms that know digits.
Indexer::Coverage Indexer::coverageAfter(const Step& step,
                                         const std::vector<Coverage>& sources) const {
  const Coverage worst = *std::max_element(sources.begin(), sources.end());
  switch (step.expr->kind()) {
    case ExprKind::Resize: {
      const auto* resize = static_cast<const Resize*>(step.expr);
      if (!step.backward || mayShrink(ids_.canonical(resize->left()))) {
        return Coverage::Some;
      }
      return mayShrink(ids_.canonical(resize->right())) ? std::max(worst, Coverage::First) : worst;
    }
    case ExprKind::Swizzle:
    case ExprKind::Align:
      return worst == Coverage::All ? Coverage::All : Coverage::Some;
    default:
      break;
  }
  if (sources.size() == 2) { // two digits become a number
    return sources[1] == Coverage::All ? sources[0] : Coverage::Some;
  }
  const auto* split = tryAs<Split>(step.expr);
  const bool cuts = split != nullptr && !divides(split);
  return cuts ? std::max(worst, Coverage::First) : worst;
}

std::vector<IdGroup> Indexer::repeated(const std::vector<IdGroup>& targets) {
  if (base_ != nullptr) {
    return base_->repeated(targets);
  }
  std::vector<Step> steps;
  std::unordered_set<const Expr*> seen;
  std::unordered_map<IdGroup, int> num_uses;
  for (IdGroup g : targets) {
    if (num_uses.try_emplace(g, 1).second) {
      collectSteps(g, seen, steps);
    }
  }
  for (const Step& step : steps) {
    const std::vector<IdGroup> made = results(step);
    for (IdGroup g : sources(step)) {
      // A merge with one iteration takes nothing: its result is the other operand.
      if (std::find(made.begin(), made.end(), g) == made.end()) {
        ++num_uses[g];
      }
    }
  }
  std::vector<IdGroup> order;
  std::unordered_map<IdGroup, Coverage> coverage;
  auto reach = [&](IdGroup g, Coverage c) {
    if (coverage.try_emplace(g, c).second) {
      order.push_back(g);
    }
  };
  for (const auto& [g, index] : known_) {
    reach(g, Coverage::All);
  }
  for (const auto& [g, step] : how_) {
    if (step.expr == nullptr) {
      coverage.try_emplace(g, Coverage::All); // one that is 0 anyway
    }
  }
  for (const Step& step : steps) {
    std::vector<Coverage> before;
    for (IdGroup g : sources(step)) {
      before.push_back(num_uses[g] > 1 ? Coverage::Some : coverage.at(g));
    }
    const Coverage after = coverageAfter(step, before);
    for (IdGroup g : results(step)) {
      if (how_.at(g).expr == step.expr) {
        reach(g, after);
      }
    }
  }
  std::vector<IdGroup> rest;
  std::copy_if(order.begin(), order.end(), std::back_inserter(rest),
               [&](IdGroup g) { return num_uses[g] == 0 && coverage.at(g) != Coverage::Some; });
  return wholes(std::move(rest));
}

// Both parts of a split are 0 where the whole is.
std::vector<IdGroup> Indexer::wholes(std::vector<IdGroup> groups) const {
  auto at = [&](const IterDomain* id) {
    return std::find(groups.begin(), groups.end(), graph_.group(id));
  };
  for (size_t i = 0; i < groups.size();) {
    const std::vector<Expr*>& definitions = graph_.definitions(groups[i]);
    const auto def = std::find_if(definitions.begin(), definitions.end(), [&](const Expr* e) {
      const auto* split = tryAs<Split>(e);
      return split != nullptr && at(split->outer()) != groups.end() &&
             at(split->inner()) != groups.end() && how_.at(graph_.group(split->in())).expr == e;
    });
    if (def == definitions.end()) {
      ++i;
      continue;
    }
    const auto* split = static_cast<const Split*>(*def);
    *at(split->outer()) = graph_.group(split->in());
    groups.erase(at(split->inner()));
    i = 0;
  }
  return groups;
}

} // namespace nvfuser
