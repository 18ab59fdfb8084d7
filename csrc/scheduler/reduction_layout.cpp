// SPDX-License-Identifier: BSD-3-Clause
// How tensors of a reduction lie in memory, and the order of loops that follows from it. See
// reduction_analysis.h.
#include <scheduler/reduction_analysis.h>

#include <ir/logical_map.h>
#include <ir/visitor.h>
#include <machine.h>

#include <algorithm>
#include <ranges>
#include <set>
#include <utility>

namespace nvfuser {

// Dimensions of these fusions are what they are, or are sliced or padded.
class ReductionAnalysis::Steps final : public DomainSteps {
 public:
  explicit Steps(const ReductionAnalysis& analysis) : analysis_(analysis) {}

  std::vector<DomainStep> stepsTo(DomainNumber number) const override {
    std::vector<DomainStep> steps;
    const auto it = analysis_.resizes_to_.find(number);
    if (it != analysis_.resizes_to_.end()) {
      for (const Resize* resize : it->second) {
        steps.push_back({DomainStep::Kind::Resize, analysis_.numberOf(resize->in()), -1,
                         resize->left(), resize->right()});
      }
    }
    return steps;
  }
  bool isOne(DomainNumber /*number*/) const override {
    return false;
  }

 private:
  const ReductionAnalysis& analysis_;
};

ReductionAnalysis::Kind ReductionAnalysis::kindOf(IdGroup group) const {
  return short_groups_.count(group) != 0     ? Kind::Short
         : reduced_groups_.count(group) != 0 ? Kind::AlongRow
                                             : Kind::Kept;
}

// Several accesses of a warp: one after the other they need not be neighbours in memory.
bool ReductionAnalysis::areRowsLong() const {
  int64_t elements = 1;
  for (const auto& [group, id] : reference_dims_) {
    if (kindOf(group) == Kind::AlongRow) {
      elements *= id->extent()->isConstInt() ? id->extent()->intValue() : 0;
    }
  }
  return elements >= 2 * kWarp;
}

// Dimensions that are permuted in memory: of the orders in which tensors have those of a kind the
// one in which the most tensors lie in one piece.
void ReductionAnalysis::findLoopOrder(const Fusion* fusion) {
  for (const IterDomain* id : reference()->getLogicalDomain()) {
    if (!id->isBroadcast()) {
      axes_[kindOf(graph_.group(id))].push_back(graph_.group(id));
    }
  }
  if (num_sets > 1 || !partials.empty() || hasShortDims() || hasSubrows()) {
    return;
  }
  std::vector<const TensorView*> whole;
  const bool are_rows_long = areRowsLong();
  std::vector<const TensorView*> with_rows; // and not all that rows differ by
  for (const auto* tensors : {&fusion->inputs(), &fusion->outputs()}) {
    for (const Val* v : *tensors) {
      const auto* tv = tryAs<TensorView>(v);
      if (tv != nullptr && hasAllDims(tv) && !isLookedUp(tv)) {
        whole.push_back(tv);
      } else if (tv != nullptr && hasAllDimsOfRows(tv) && !isLookedUp(tv) && are_rows_long) {
        with_rows.push_back(tv);
      }
    }
  }
  for (auto& [kind, axes] : axes_) {
    const auto agreement = [&, kind = kind] {
      std::vector<size_t> found; // runs and digits, of those that have all dimensions first
      for (const auto* tensors : {&whole, &with_rows}) {
        size_t runs = 0;
        size_t all_digits = 0;
        for (const TensorView* tv : *tensors) {
          const size_t digits = runOf(tv, {kind}).digits;
          runs += digits > 0 ? 1 : 0;
          all_digits += digits;
        }
        found.insert(found.end(), {runs, all_digits});
      }
      return found;
    };
    std::vector<IdGroup> best = axes;
    auto most = agreement();
    std::set<std::vector<IdGroup>> tried{best};
    std::vector<const TensorView*> candidates = whole;
    candidates.insert(candidates.end(), with_rows.begin(), with_rows.end());
    for (const TensorView* tv : candidates) {
      const std::vector<IdGroup> order = orderInMemory(tv, kind, best);
      if (std::ranges::is_permutation(order, best) && tried.insert(order).second) {
        axes = order;
        if (const auto found = agreement(); found > most) {
          most = found;
          best = order;
        }
      }
    }
    axes = best;
  }
}

// The axes of a kind. What the tensor lacks lies around what it has: it is read again as a whole.
std::vector<IdGroup> ReductionAnalysis::orderInMemory(const TensorView* tv, Kind kind,
                                                      const std::vector<IdGroup>& axes) const {
  std::vector<IdGroup> own;
  for (const MemoryDim& dim : memoryDims(tv)) {
    if (kindOf(graph_.group(dim.id)) == kind) {
      own.push_back(graph_.group(dim.id));
    }
  }
  std::vector<IdGroup> order;
  std::ranges::copy_if(axes, std::back_inserter(order),
                       [&](IdGroup axis) { return std::ranges::find(own, axis) == own.end(); });
  order.insert(order.end(), own.begin(), own.end());
  return order;
}

void ReductionAnalysis::orderAsLoops(std::vector<IterDomain*>& ids) const {
  const auto placeOf = [&](const IterDomain* id) {
    const IdGroup g = graph_.group(id);
    const auto of_kind = axes_.find(kindOf(g));
    return of_kind == axes_.end() ? 0
                                  : std::ranges::find(of_kind->second, g) - of_kind->second.begin();
  };
  std::ranges::stable_sort(ids, {}, placeOf);
}

// Of the reference's dimensions of these kinds, one kind after the other.
ContiguousRun ReductionAnalysis::runOf(const TensorView* tv, const std::vector<Kind>& kinds) const {
  std::vector<IdGroup> axes;
  for (const Kind kind : kinds) {
    if (const auto own = axes_.find(kind); own != axes_.end()) {
      axes.insert(axes.end(), own->second.begin(), own->second.end());
    }
  }
  std::vector<MemoryDigit> memory;
  for (const MemoryDim& dim : memoryDims(tv)) {
    memory.push_back({numberOf(dim.id), dim.id->extent(), dim.contiguous});
  }
  return nvfuser::contiguousRun(memory, axes, Steps(*this));
}

int64_t ReductionAnalysis::innermostDim(const TensorView* tv, bool along_reduced) const {
  const Kind kind = along_reduced ? Kind::AlongRow : Kind::Kept;
  const auto axes = axes_.find(kind);
  const auto own = logicalIds(tv);
  const auto found = std::find_if(own.begin(), own.end(), [&](const IterDomain* id) {
    return axes != axes_.end() && !id->isBroadcast() && axisOf(id) == axes->second.back();
  });
  return found == own.end() ? -1 : found - own.begin();
}

std::vector<IterDomain*> ReductionAnalysis::contiguousRun(const TensorView* tv,
                                                          bool along_reduced) const {
  return dimsOfRun(tv, along_reduced ? Kind::AlongRow : Kind::Kept);
}

size_t ReductionAnalysis::longestRunAlongRows() const {
  const Fusion* fusion = reference()->fusion();
  size_t longest = 0;
  for (const auto* tensors : {&fusion->inputs(), &fusion->outputs()}) {
    for (const Val* v : *tensors) {
      if (v->isTensor() && hasAllDims(v->as<TensorView>())) {
        longest = std::max(longest, contiguousRun(v->as<TensorView>(), true).size());
      }
    }
  }
  return longest;
}

std::vector<IterDomain*> ReductionAnalysis::contiguousShortRun(const TensorView* tv) const {
  return dimsOfRun(tv, Kind::Short);
}

std::vector<IterDomain*> ReductionAnalysis::dimsOfRun(const TensorView* tv, Kind kind) const {
  const std::vector<MemoryDim> memory = memoryDims(tv);
  const size_t digits = runOf(tv, {kind}).digits;
  std::vector<IterDomain*> out;
  for (size_t i = 0; i < digits; ++i) {
    out.push_back(memory[memory.size() - 1 - i].id);
  }
  return out;
}

namespace {

// Of its dimensions that are not broadcast.
std::unordered_set<IdGroup> groupsOf(const TensorView* tv, const IdGraph& graph) {
  std::unordered_set<IdGroup> groups;
  for (const IterDomain* id : logicalIds(tv)) {
    if (!id->isBroadcast()) {
      groups.insert(graph.group(id));
    }
  }
  return groups;
}

} // namespace

bool ReductionAnalysis::hasAllDims(const TensorView* tv) const {
  const std::unordered_set<IdGroup> own = groupsOf(tv, graph_);
  return !isCut(tv) && own.size() == reference_dims_.size() &&
         std::all_of(reference_dims_.begin(), reference_dims_.end(),
                     [&](const auto& dim) { return own.count(dim.first) != 0; });
}

bool ReductionAnalysis::hasAllDimsOfRows(const TensorView* tv) const {
  const std::unordered_set<IdGroup> own = groupsOf(tv, graph_);
  return !isCut(tv) &&
         std::ranges::all_of(own, [&](IdGroup g) { return reference_dims_.count(g) != 0; }) &&
         std::ranges::all_of(reference_dims_, [&](const auto& dim) {
           return kindOf(dim.first) != Kind::AlongRow || own.count(dim.first) != 0;
         });
}

std::vector<int64_t> ReductionAnalysis::acrossRows(const Fusion* fusion) const {
  std::vector<int64_t> across;
  bool any_along = false;
  const auto add = [&](const Val* v, size_t position) {
    const auto* tv = tryAs<TensorView>(v);
    if (tv == nullptr || dataTypeSizeBits(tv->dtype()) < 8) {
      return;
    }
    any_along = any_along || liesAlongRows(tv);
    const bool is_written_over = position >= fusion->inputs().size() && tv->isFusionInput();
    const bool is_input = position < fusion->inputs().size() && partials.empty();
    if (liesAcrossRows(tv, is_input) && !isLookedUp(tv) && !is_written_over) {
      across.push_back(static_cast<int64_t>(position));
    }
  };
  for (size_t i = 0; i < fusion->inputs().size(); ++i) {
    add(fusion->inputs()[i], i);
  }
  for (size_t i = 0; i < fusion->outputs().size(); ++i) {
    add(fusion->outputs()[i], fusion->inputs().size() + i);
  }
  return any_along && !hasShortDims() && !hasSubrows() ? across : std::vector<int64_t>{};
}

std::vector<const IterDomain*> ReductionAnalysis::dimsOfTiles(
    const Fusion* fusion, const std::vector<int64_t>& exchanged) const {
  std::vector<const IterDomain*> dims;
  const auto axes = axes_.find(Kind::Kept);
  if (axes == axes_.end()) {
    return dims;
  }
  for (const IdGroup axis : axes->second | std::views::reverse) {
    const bool all_have_it = std::ranges::all_of(exchanged, [&](int64_t position) {
      const auto i = static_cast<size_t>(position);
      if (i >= fusion->inputs().size()) {
        return true; // results have all dimensions
      }
      return groupsOf(fusion->inputs()[i]->as<TensorView>(), graph_).count(axis) != 0;
    });
    if (!all_have_it) {
      break;
    }
    dims.push_back(reference_dims_.at(axis));
  }
  return dims;
}

bool ReductionAnalysis::liesAsRowsDo(const TensorView* tv) const {
  const ContiguousRun run = runOf(tv, {Kind::Kept, Kind::AlongRow});
  return !isCut(tv) && run.isOnePiece() && run.digits == memoryDims(tv).size();
}

} // namespace nvfuser
