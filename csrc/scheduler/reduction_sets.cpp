// SPDX-License-Identifier: BSD-3-Clause
// See reduction_sets.h.
#include <scheduler/reduction_sets.h>

#include <ir/exprs.h>
#include <preseg_passes/column_reductions.h>
#include <preseg_passes/meet_reductions.h>

#include <algorithm>

namespace nvfuser {

TensorView* widestReduction(const std::vector<TensorView*>& reductions) {
  auto dims = [](const TensorView* tv) {
    const auto& logical = tv->getLogicalDomain();
    return std::count_if(logical.begin(), logical.end(),
                         [](const IterDomain* id) { return !id->isBroadcast(); });
  };
  return *std::max_element(
      reductions.begin(), reductions.end(),
      [&](const TensorView* a, const TensorView* b) { return dims(a) < dims(b); });
}

std::set<IdGroup> subrowDimsOf(const TensorView* reference,
                               const std::vector<TensorView*>& reductions, const IdGraph& graph) {
  const auto isPartOf = [](const std::set<IdGroup>& a, const std::set<IdGroup>& b) {
    return a.size() < b.size() && std::ranges::includes(b, a);
  };
  const ReducedAndKept own = dimsOf(reference, graph);
  std::set<IdGroup> along = own.reduced; // a subrow
  std::set<IdGroup> row = own.reduced;
  for (const TensorView* tv : reductions) {
    const ReducedAndKept dims = dimsOf(tv, graph);
    if (dims.reduced.size() + dims.kept.size() == own.reduced.size() + own.kept.size()) {
      along = isPartOf(dims.reduced, along) ? dims.reduced : along;
      row = isPartOf(row, dims.reduced) ? dims.reduced : row;
    }
  }
  for (const TensorView* tv : reductions) {
    const ReducedAndKept dims = dimsOf(tv, graph);
    if (row == along && isPartOf(dims.reduced, own.kept) && isPartOf(dims.kept, own.kept) &&
        isBroadcastLater(tv)) {
      row.insert(dims.reduced.begin(), dims.reduced.end());
    }
  }
  // In this order.
  std::set<IdGroup> out;
  size_t last = 0;
  for (const IterDomain* id : reference->getLogicalDomain()) {
    const IdGroup g = graph.group(id);
    if (!id->isBroadcast() && along.count(g) != 0) {
      ++last;
    } else if (!id->isBroadcast() && row.count(g) != 0 && last == 0) {
      out.insert(g);
    }
  }
  return last == along.size() && out.size() + last == row.size() ? out : std::set<IdGroup>{};
}

ReductionSets::ReductionSets(std::vector<TensorView*> reductions, const IdGraph& graph)
    : graph_(graph) {
  while (!reductions.empty()) {
    if (!add(widestReduction(reductions), reductions)) {
      references_.clear();
      return;
    }
  }
}

// Takes the reductions over (some of) the reference's dimensions out of those that are left.
bool ReductionSets::add(TensorView* reference, std::vector<TensorView*>& left) {
  const int set = static_cast<int>(references_.size());
  references_.push_back(reference);
  for (const IterDomain* id : reference->getLogicalDomain()) {
    if (id->isReduction() && !set_of_group_.emplace(graph_.group(id), set).second) {
      return false;
    }
  }
  bool whole = true;
  std::erase_if(left, [&](const TensorView* tv) {
    size_t common = 0;
    size_t reduced = 0;
    for (const IterDomain* id : tv->getLogicalDomain()) {
      auto it = set_of_group_.find(graph_.group(id));
      reduced += id->isReduction() ? 1 : 0;
      common += id->isReduction() && it != set_of_group_.end() && it->second == set ? 1 : 0;
    }
    whole = whole && (common == 0 || common == reduced);
    return tv == reference || common != 0;
  });
  return whole;
}

int ReductionSets::setOf(const TensorView* tv) const {
  int set = -1;
  auto look = [&](const std::vector<IterDomain*>& ids) {
    for (const IterDomain* id : ids) {
      auto it = set_of_group_.find(graph_.group(id));
      if (it != set_of_group_.end()) {
        set = set == -1 || set == it->second ? it->second : kSeveral;
      }
    }
  };
  look(tv->getLogicalDomain());
  look(tv->getMaybeRootDomain());
  return set;
}

} // namespace nvfuser
