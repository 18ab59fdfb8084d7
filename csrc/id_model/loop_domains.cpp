// SPDX-License-Identifier: BSD-3-Clause
// See loop_domains.h.
#include <id_model/loop_domains.h>

#include <algebra/simplify.h>
#include <base/error.h>

#include <algorithm>

namespace nvfuser {

namespace {

bool has(const std::vector<IdGroup>& groups, IdGroup g) {
  return std::find(groups.begin(), groups.end(), g) != groups.end();
}

} // namespace

size_t LoopDomains::classOf(IterDomain* id) {
  auto [it, fresh] = class_of_.try_emplace(id, classes_.size());
  if (fresh) {
    classes_.emplace_back().members.push_back(id);
  }
  return it->second;
}

void LoopDomains::join(IterDomain* a, IterDomain* b) {
  size_t into = classOf(a);
  size_t from = classOf(b);
  if (into == from) {
    return;
  }
  if (classes_[into].members.size() < classes_[from].members.size()) {
    std::swap(into, from);
  }
  const std::vector<IterDomain*> moved = std::move(classes_[from].members);
  classes_[from].members.clear();
  for (IterDomain* id : moved) {
    class_of_[id] = into;
    classes_[into].members.push_back(id);
  }
}

void LoopDomains::joinFamilies(IterDomain* a, IterDomain* b) {
  join(a, b);
  const auto* x = tryAs<Split>(a->definition());
  const auto* y = tryAs<Split>(b->definition());
  if (x != nullptr && y != nullptr && x->sameFields(y) && (x->outer() == a) == (y->outer() == b)) {
    join(x->outer(), y->outer());
    join(x->inner(), y->inner());
    joinFamilies(x->in(), y->in());
  }
}

IterDomain* LoopDomains::domain(IterDomain* id) {
  const size_t c = classOf(id);
  if (classes_[c].domain != nullptr) {
    return classes_[c].domain;
  }
  NVF_CHECK(!classes_[c].open,
            "the inlined loops of this schedule can't be made consistent: ", id->toString(),
            " would be made of itself");
  classes_[c].open = true;
  // By copy: looking at inputs adds classes.
  const std::vector<IterDomain*> members = classes_[c].members;
  IterDomain* best = nullptr;
  // A broadcast runs over what the others do. What one element was cut out of is none.
  auto decides = [](const IterDomain* member) {
    const Expr* def = member->definition();
    return !member->isBroadcast() || (def != nullptr && def->kind() == ExprKind::Resize &&
                                      !def->input(0)->as<IterDomain>()->isBroadcast());
  };
  const bool has_others = std::any_of(members.begin(), members.end(), decides);
  for (IterDomain* member : members) {
    if (!has_others || decides(member)) {
      IterDomain* candidate = promoted(member);
      best = best == nullptr ? candidate : wider(best, candidate);
    }
  }
  classes_[c].open = false;
  return classes_[c].domain = best;
}

IterDomain* LoopDomains::wider(IterDomain* a, IterDomain* b) {
  const IdGroup x = ids_.exact().group(a);
  const IdGroup y = ids_.exact().group(b);
  const bool x_covers = x == y || covers(x, y);
  const bool y_covers = x != y && covers(y, x);
  if (x_covers && y_covers) {
    // A part of a split is made of all that the whole is made of. Of a broadcast and a dimension
    // that happens to have one element the tensors around have the latter.
    const bool is_broadcast = a->isBroadcast() && !b->isBroadcast();
    return is_broadcast || merged(y).count(x) != 0 ? b : a;
  }
  if (x_covers || y_covers) {
    return x_covers ? a : b;
  }
  if (contains(x, y)) {
    return a;
  }
  if (contains(y, x)) {
    return b;
  }
  IterDomain* const either = identify(a, b);
  NVF_CHECK(either != nullptr,
            "tensors are inlined so that loops over different iterations would be one: ",
            a->toString(), " and ", b->toString());
  return either;
}

IterDomain* LoopDomains::promoted(IterDomain* member) {
  const Expr* def = member->definition();
  if (def == nullptr) {
    return member;
  }
  std::vector<IterDomain*> inputs;
  bool changed = false;
  for (Val* v : def->inputs()) {
    auto* in = v->as<IterDomain>();
    inputs.push_back(domain(in));
    changed = changed || !ids_.exact().same(inputs.back(), in);
  }
  if (!changed) {
    return member;
  }
  const std::vector<IterDomain*> outputs = ids_.repeat(def, inputs);
  return outputs[def->output(0) == member ? 0 : 1];
}

// All that the narrow one is made of is in the wide one.
bool LoopDomains::covers(IdGroup wide, IdGroup narrow) {
  const std::vector<IdGroup>& there = leaves(wide);
  const std::vector<IdGroup>& needed = leaves(narrow);
  return std::all_of(needed.begin(), needed.end(), [&](IdGroup g) { return has(there, g); });
}

// The same where either is made in several ways: [i, j] reshaped to [k, l] is a merge of k and l,
// though i and j were first.
bool LoopDomains::contains(IdGroup wide, IdGroup narrow) {
  std::unordered_set<IdGroup> whole = merged(wide);
  const std::vector<IdGroup>& first = leaves(wide);
  whole.insert(first.begin(), first.end());
  const std::vector<IdGroup>& needed = leaves(narrow);
  return whole.count(narrow) != 0 ||
         std::all_of(needed.begin(), needed.end(), [&](IdGroup g) { return whole.count(g) != 0; });
}

// The group and what it is a merge of, in whichever way. A part of a split does not hold the rest.
std::unordered_set<IdGroup> LoopDomains::merged(IdGroup whole) {
  std::unordered_set<IdGroup> seen;
  std::vector<IdGroup> stack{whole};
  while (!stack.empty()) {
    const IdGroup g = stack.back();
    stack.pop_back();
    if (!seen.insert(g).second) {
      continue;
    }
    for (const Expr* def : ids_.exact().definitions(g)) {
      if (def->outputs().size() == 1) {
        for (const Val* in : def->inputs()) {
          stack.push_back(ids_.exact().group(in->as<IterDomain>()));
        }
      }
    }
  }
  return seen;
}

// The groups of more than one iteration that a group is made of in the end, outermost first. A
// group that is made in several ways (a reshape there and back) counts as what it was first. One
// that is made of itself, as axes were found to be one (identify), is made of nothing else.
const std::vector<IdGroup>& LoopDomains::leaves(IdGroup g) {
  if (auto it = leaves_.find(g); it != leaves_.end()) {
    return it->second;
  }
  const IdGraph& exact = ids_.exact();
  const auto& members = exact.members(g);
  const Expr* def = exact.oldest(g)->definition();
  NVF_ERROR(def == nullptr || def->kind() != ExprKind::Align ||
                exact.group(def->input(0)->as<IterDomain>()) != g,
            "rows that were aligned are older than the rows");
  leaves_[g] = {g}; // until it is known
  std::vector<IdGroup> out;
  // A factor of one is one, whether its size says so or not.
  const auto& uses = exact.uses(g);
  const bool once =
      ids_.extent(g)->isOneInt() ||
      std::all_of(members.begin(), members.end(), [](auto* id) { return id->isBroadcast(); }) ||
      std::any_of(uses.begin(), uses.end(), [&](const Expr* use) {
        return use->kind() == ExprKind::Merge &&
               ids_.extent(exact.group(use->output(0)->as<IterDomain>()))->isOneInt();
      });
  // A resize makes other iterations, perhaps of a broadcast.
  if (def == nullptr || def->kind() == ExprKind::Resize) {
    if (!once) {
      out.push_back(g);
    }
  } else if (!once) {
    for (const Val* in : def->inputs()) {
      for (const IdGroup leaf : leaves(exact.group(in->as<IterDomain>()))) {
        if (!has(out, leaf)) {
          out.push_back(leaf);
        }
      }
    }
  }
  return leaves_[g] = has(out, g) ? std::vector<IdGroup>{g} : std::move(out);
}

// Two tensors that read the same values along axes of their own (one input, in two places) run over
// them in one loop: as they are joined, the axes are one from now on. So are the axes that one loop
// is made of and those of the other, which may run over more. The wider domain; null if the axes
// are not as many and as large, or if a tensor has both.
IterDomain* LoopDomains::identify(IterDomain* a, IterDomain* b) {
  const IdGroup x = ids_.exact().group(a);
  const IdGroup y = ids_.exact().group(b);
  IterDomain* wide = nullptr;
  if (provablyEqual(ids_.extent(x), ids_.extent(y))) {
    wide = ids_.identify(a, b) ? a : nullptr;
  } else if (identifyParts(x, y)) {
    wide = a;
  } else if (identifyParts(y, x)) {
    wide = b;
  }
  leaves_.clear();
  return wide;
}

// Each axis of the narrow one that the wide one lacks is the next one of its size there.
bool LoopDomains::identifyParts(IdGroup wide, IdGroup narrow) {
  const std::vector<IdGroup>& needed = leaves(narrow);
  std::vector<IdGroup> free = leaves(wide);
  std::erase_if(free, [&](IdGroup g) { return has(needed, g); });
  std::vector<std::pair<IdGroup, IdGroup>> pairs;
  for (const IdGroup part : needed) {
    if (has(leaves(wide), part)) {
      continue;
    }
    auto other = std::find_if(free.begin(), free.end(), [&](IdGroup g) {
      return provablyEqual(ids_.extent(part), ids_.extent(g));
    });
    if (other == free.end()) {
      return false;
    }
    pairs.emplace_back(part, *other);
    free.erase(other);
  }
  const IdGraph& exact = ids_.exact();
  return std::all_of(pairs.begin(), pairs.end(), [&](const auto& pair) {
    return ids_.identify(exact.members(pair.first).front(), exact.members(pair.second).front());
  });
}

} // namespace nvfuser
