// SPDX-License-Identifier: BSD-3-Clause
// See reduction_analysis.h.
#include <scheduler/reduction_analysis.h>

#include <id_model/id_model.h>
#include <ir/logical_map.h>
#include <ir/visitor.h>
#include <machine.h>
#include <preseg_passes/column_reductions.h>
#include <transform/replay.h>

#include <algorithm>
#include <iterator>

namespace nvfuser {

namespace {

// Ops that change which dimensions there are.
bool changesDims(const Expr* e) {
  switch (e->kind()) {
    case ExprKind::ReshapeOp:
    case ExprKind::ScanOp:
    case ExprKind::ScatterOp:
    case ExprKind::ScatterStoreOp:
      return true;
    default:
      return false;
  }
}

// All that read the tensor look up along this dimension, which no loop runs over.
bool isOnlySearched(const TensorView* tv, const IterDomain* id) {
  const auto ids = logicalIds(tv);
  return std::all_of(tv->uses().begin(), tv->uses().end(), [&](const Expr* use) {
    return use->kind() != ExprKind::RollOp && lookedUpTensor(use) == tv &&
           ids[static_cast<size_t>(lookedUpDim(use))] == id;
  });
}

// Something has one element along a dimension, as the parts of a pair have.
bool padsOnes(const Fusion* fusion) {
  return std::ranges::any_of(fusion->exprs(), [](const Expr* e) {
    const auto dims =
        e->kind() == ExprKind::PadOp ? logicalIds(e->output(0)) : std::vector<IterDomain*>();
    return std::ranges::any_of(dims, [](const IterDomain* id) {
      const auto* resize = tryAs<Resize>(id->definition());
      return resize != nullptr && resize->in()->isOne();
    });
  });
}

// Elements that fill no vector.
bool isFew(const IterDomain* id) {
  return id->extent()->isConstInt() && id->extent()->intValue() * kRegisterBytes < kVectorBytes;
}

// What is innermost in memory, but for short dimensions, in the input that has the most dimensions
// of those that count. Null if there is none.
template <class Counts, class IsShort>
const IterDomain* innermostOfLargest(const Fusion* fusion, Counts counts, IsShort is_short) {
  size_t most = 0;
  const IterDomain* found = nullptr;
  for (const Val* in : fusion->inputs()) {
    const auto* tv = tryAs<TensorView>(in);
    if (tv == nullptr || !counts(tv)) {
      continue;
    }
    const std::vector<MemoryDim> memory = memoryDims(tv);
    const auto innermost = std::find_if(memory.rbegin(), memory.rend(),
                                        [&](const MemoryDim& dim) { return !is_short(dim.id); });
    if (memory.size() > most && innermost != memory.rend() && !isOnlySearched(tv, innermost->id)) {
      most = memory.size();
      found = innermost->id;
    }
  }
  return found;
}

} // namespace

std::shared_ptr<const ReductionAnalysis> ReductionAnalysis::run(Fusion* fusion, std::string* why) {
  auto out = std::make_shared<ReductionAnalysis>();
  if (out->collect(fusion, why)) {
    return out;
  }
  if (padsOnes(fusion)) {
    auto other = std::make_shared<ReductionAnalysis>();
    other->reads_ones_anywhere_ = true;
    std::string ignored;
    if (other->collect(fusion, &ignored)) {
      why->clear();
      return other;
    }
  }
  if (out->reductions.size() > 1 && out->partials.empty()) {
    auto joined = std::make_shared<ReductionAnalysis>();
    joined->reductions = out->reductions;
    joined->reference_ = out->reference_;
    if (joined->joinSets(fusion)) {
      why->clear();
      return joined;
    }
  }
  return out;
}

bool ReductionAnalysis::collect(Fusion* fusion, std::string* why) {
  const std::vector<Expr*>& exprs = fusion->exprs();
  for (const Expr* e : exprs) {
    if (isReduction(e)) {
      auto* tv = e->output(0)->as<TensorView>();
      (isPartialReduction(tv) ? partials : reductions).push_back(tv);
    }
  }
  if (reductions.empty()) {
    *why = partials.empty() ? "there is no reduction" : "there is no reduction of rows";
    return false;
  }
  reference_ = widestReduction(reductions);
  graph_ = buildGraph(fusion, IdMappingMode::Permissive);
  sizes_ = buildDimensionGraph(fusion, IdMappingMode::Exact);
  if (!fitAll(fusion, why)) {
    findConflicts(exprs);
    return false;
  }
  return true;
}

bool ReductionAnalysis::fitAll(const Fusion* fusion, std::string* why) {
  const std::vector<Expr*>& exprs = fusion->exprs();
  findKinds(fusion);
  findCutDims(exprs);
  findStages(exprs);
  fastest_dim = isFastestDim(fusion, num_sets > 1 ? 0 : -1);
  if (!std::all_of(exprs.begin(), exprs.end(), [&](const Expr* e) { return fits(e, why); })) {
    return false;
  }
  findLoopOrder(fusion);
  return true;
}

bool ReductionAnalysis::areRowsFastest(const Fusion* fusion, const RowDims& dims) const {
  const IterDomain* innermost = innermostOfLargest(
      fusion, [](const TensorView*) { return true; },
      [&](const IterDomain* id) { return dims.within_thread.count(graph_.group(id)) != 0; });
  return innermost != nullptr && dims.along.count(graph_.group(innermost)) != 0;
}

// Of the reference's dimensions. There are short ones if it has everything, as the loops do that
// all others follow, and there are rows to share out: a single one keeps most of the device idle.
// (Threads that have columns read these by vectors.)
void ReductionAnalysis::findKinds(const Fusion* fusion) {
  RowDims dims = rowDimsOf(reductions, graph_);
  const ReducedAndKept own = dimsOf(reference_, graph_);
  const auto has = [&](IdGroup g) { return own.reduced.count(g) != 0 || own.kept.count(g) != 0; };
  const auto& logical = reference_->getLogicalDomain();
  const bool has_rows = std::any_of(logical.begin(), logical.end(), [&](const IterDomain* id) {
    const IdGroup g = graph_.group(id);
    return dims.along.count(g) == 0 && dims.within_thread.count(g) == 0;
  });
  const bool has_short = num_sets == 1 && !dims.within_thread.empty() && has_rows &&
                         areRowsFastest(fusion, dims) &&
                         std::all_of(dims.along.begin(), dims.along.end(), has) &&
                         std::all_of(dims.within_thread.begin(), dims.within_thread.end(), has);
  const bool may_have_subrows = !has_short && num_sets == 1 && partials.empty();
  std::set<IdGroup> subrows =
      may_have_subrows ? subrowDimsOf(reference_, reductions, graph_) : std::set<IdGroup>{};
  RowDims of_subrow;
  std::ranges::set_difference(own.reduced, subrows,
                              std::inserter(of_subrow.along, of_subrow.along.end()));
  if (!subrows.empty() && !areRowsFastest(fusion, of_subrow)) {
    subrows.clear(); // threads of a subrow read neighbouring elements
  }
  subrow_groups_.insert(subrows.begin(), subrows.end());
  for (const IterDomain* id : logical) {
    const IdGroup g = graph_.group(id);
    const bool is_short = has_short && !id->isBroadcast() && dims.within_thread.count(g) != 0;
    const bool is_reduced = has_short && !id->isBroadcast()
                                ? is_short || dims.along.count(g) != 0
                                : id->isReduction() || subrows.count(g) != 0;
    reduced.push_back(is_reduced);
    // A dimension of size 1 in the reference gets no loop that others could share.
    if (!id->isBroadcast()) {
      (is_reduced ? reduced_groups_ : kept_groups_).insert(g);
      reference_dims_[g] = id;
    }
    if (is_short) {
      short_groups_.insert(g);
    }
  }
}

// Something of one set is computed of what another one reduces.
bool ReductionAnalysis::haveSetsInCommon(const Fusion* fusion) const {
  std::unordered_map<const TensorView*, uint64_t> reduced_by; // a bit for each set
  for (const Expr* e : fusion->exprs()) {
    uint64_t sets = 0;
    for (const TensorView* in : tensorInputs(e)) {
      sets |= reduced_by[in];
    }
    for (const TensorView* out : tensorOutputs(e)) {
      const int set = setOf(out);
      const uint64_t own = set < 0 ? 0 : uint64_t{1} << set;
      if (set >= 0 && (sets & ~own) != 0) {
        return true;
      }
      reduced_by[out] = sets | (isReduction(e) ? own : 0);
    }
  }
  return false;
}

// Rows that are kept of several sets share the registers: short ones, or what is read once only
// that way.
bool ReductionAnalysis::fitTogether(const Fusion* fusion) const {
  constexpr int64_t kLongestRowBesideOthers = 8192; // [docs/measurements/normalizations.md]
  int64_t row = 1;
  for (const IterDomain* id : reference_->getLogicalDomain()) {
    if (id->isReduction() && !id->isBroadcast()) {
      row *= id->extent()->isConstInt() ? id->extent()->intValue() : kLongestRowBesideOthers + 1;
    }
  }
  return !normalization || row <= kLongestRowBesideOthers || haveSetsInCommon(fusion);
}

// Takes the sets of reductions as one, if they fit.
bool ReductionAnalysis::joinSets(Fusion* fusion) {
  // Each has loops of its own: what one kernel has time and registers for
  // [hand, see machine.h].
  constexpr size_t kMostSets = 4;
  graph_ = buildGraph(fusion, IdMappingMode::Permissive);
  sizes_ = buildDimensionGraph(fusion, IdMappingMode::Exact);
  const ReductionSets sets(reductions, graph_);
  const bool resizes = fusion->hasExpr(ExprKind::SliceOp) || fusion->hasExpr(ExprKind::PadOp);
  if (resizes || sets.references().size() < 2 || sets.references().size() > kMostSets) {
    return false;
  }
  num_sets = static_cast<int>(sets.references().size());
  for (const TensorView* tv : fusion->allTvs()) {
    if ((sets_[tv] = sets.setOf(tv)) == ReductionSets::kSeveral) {
      return false;
    }
  }
  if (!std::all_of(sets.references().begin() + 1, sets.references().end(),
                   [&](const TensorView* other) { return mapsToReference(other); })) {
    return false;
  }
  std::string ignored;
  if (!fitAll(fusion, &ignored) || !fitTogether(fusion)) {
    return false;
  }
  for (int set = 1; set < num_sets; ++set) {
    if (isFastestDim(fusion, set) != fastest_dim) {
      return false;
    }
  }
  return true;
}

// A permissive graph has all that one broadcast becomes in one group, of whatever sizes: in
// max(x[i], b[1]) and max(y[j], b[1]) both i and j. But only one of them is the reference's. (Sums
// of columns may have any number of rows each, where rows are one dimension: an input that has only
// some dimensions of the rows is read in the loops of all.)
bool ReductionAnalysis::hasSizeOfReference(const IterDomain* id) const {
  const IterDomain* reference = reference_dims_.at(axisOf(id));
  return isCut(id) ||
         (isReducedDim(id) && reduced_groups_.size() == 1 && !fastest_dim && !normalization) ||
         id->extent()->sameAs(reference->extent()) || sizes_.same(id, reference);
}

// A dimension that a slice or a pad takes becomes what that makes, unless it is one of the
// reference's itself.
void ReductionAnalysis::findCutDims(const std::vector<Expr*>& exprs) {
  std::unordered_set<IdGroup> own; // sizes of the reference's dimensions
  for (const auto& [axis, id] : reference_dims_) {
    own.insert(sizes_.group(id));
  }
  std::unordered_map<IdGroup, std::vector<const Resize*>> made; // by what is taken
  const auto add = [](std::vector<const Resize*>& known, const Resize* resize) {
    if (std::none_of(known.begin(), known.end(), [&](const Resize* other) {
          return other->left()->sameAs(resize->left()) && other->right()->sameAs(resize->right());
        })) {
      known.push_back(resize);
    }
  };
  for (const Expr* e : exprs) {
    if (e->kind() != ExprKind::SliceOp && e->kind() != ExprKind::PadOp) {
      continue;
    }
    for (const IterDomain* id : e->output(0)->as<TensorView>()->getLogicalDomain()) {
      const auto* resize = tryAs<Resize>(id->definition());
      if (resize != nullptr && reads_ones_anywhere_ && resize->in()->isOne()) {
        continue;
      }
      const IdGroup taken = resize == nullptr ? -1 : sizes_.group(resize->in());
      if (resize != nullptr && own.count(taken) == 0 && sizes_.group(id) != taken) {
        add(made[taken], resize);
      }
    }
  }
  for (const auto& [taken, ways] : made) {
    IdGroup at = taken;
    size_t steps = 0;
    for (auto it = made.find(at);
         it != made.end() && it->second.size() == 1 && steps++ < made.size(); it = made.find(at)) {
      at = sizes_.group(it->second.front()->out());
    }
    const IterDomain* last = sizes_.oldest(at);
    cut_dims_[taken] = made.count(at) == 0 && !last->isBroadcast() ? graph_.group(last) : -1;
  }
  for (const auto& [taken, ways] : made) {
    for (const Resize* resize : ways) {
      resizes_to_[numberOf(resize->out())].push_back(resize);
    }
  }
}

bool ReductionAnalysis::isCut(const IterDomain* id) const {
  return !cut_dims_.empty() && cut_dims_.count(sizes_.group(id)) != 0;
}

bool ReductionAnalysis::isCut(const TensorView* tv) const {
  const auto& logical = tv->getLogicalDomain();
  return std::any_of(logical.begin(), logical.end(),
                     [&](const IterDomain* id) { return isCut(id); });
}

IdGroup ReductionAnalysis::axisOf(const IterDomain* id) const {
  return isCut(id) ? cut_dims_.at(sizes_.group(id)) : graph_.group(id);
}

// In the graph of what axes are made of: what is cut is another domain than the axis.
DomainNumber ReductionAnalysis::numberOf(const IterDomain* id) const {
  constexpr DomainNumber kFirst = 1 << 30; // more than there are groups
  return isCut(id) ? kFirst + sizes_.group(id) : graph_.group(id);
}

bool ReductionAnalysis::mapsToReference(const TensorView* other) {
  const auto& mine = reference_->getLogicalDomain();
  const auto& theirs = other->getLogicalDomain();
  const bool equal = std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(),
                                [](const IterDomain* a, const IterDomain* b) {
                                  return a->isReduction() == b->isReduction() &&
                                         a->isBroadcast() == b->isBroadcast() &&
                                         a->extent()->sameAs(b->extent());
                                });
  for (size_t i = 0; i < mine.size() && equal; ++i) {
    graph_.map(mine[i], theirs[i]);
    sizes_.map(mine[i], theirs[i]);
  }
  return equal;
}

int ReductionAnalysis::stageOf(const Expr* e) const {
  int stage = 0;
  for (const TensorView* in : tensorInputs(e)) {
    stage = std::max(stage, stages_.at(in));
  }
  return stage;
}

bool ReductionAnalysis::reducesRowsFirst() const {
  std::vector<const TensorView*> stack;
  std::unordered_set<const TensorView*> seen;
  const auto visit = [&](const Expr* e) {
    for (const TensorView* in : tensorInputs(e)) {
      if (hasReducedDims(in) && seen.insert(in).second) {
        stack.push_back(in);
      }
    }
  };
  for (const TensorView* reduction : reductions) {
    if (stageOf(reduction->definition()) == 0) {
      visit(reduction->definition());
    }
  }
  while (!stack.empty()) {
    const TensorView* tv = stack.back();
    stack.pop_back();
    if (tv->definition() != nullptr) {
      visit(tv->definition());
    } else if (differsByRow(tv)) {
      return true;
    }
  }
  return false;
}

bool ReductionAnalysis::differsByRow(const TensorView* tv) const {
  const auto& logical = tv->getLogicalDomain();
  return std::any_of(logical.begin(), logical.end(),
                     [&](const IterDomain* id) { return !id->isBroadcast() && !isReducedDim(id); });
}

bool ReductionAnalysis::isPartOfRow(const TensorView* input) const {
  return hasReducedDims(input) && !hasWholeRows(input) && differsByRow(input) && !isLookedUp(input);
}

bool ReductionAnalysis::hasSeveralRows() const {
  const auto& logical = reference()->getLogicalDomain();
  return std::any_of(logical.begin(), logical.end(),
                     [&](const IterDomain* id) { return !id->isBroadcast() && !isReducedDim(id); });
}

int64_t ReductionAnalysis::elementsOfPosition(const TensorView* tv) const {
  int64_t elements = 1;
  for (const IterDomain* id : logicalIds(tv)) {
    if (!id->isBroadcast() && isShortDim(id)) {
      elements *= reference_dims_.at(axisOf(id))->extent()->intValue();
    }
  }
  return elements;
}

int64_t ReductionAnalysis::shortElements() const {
  int64_t elements = 1;
  for (const IdGroup g : short_groups_) {
    elements *= reference_dims_.at(g)->extent()->intValue();
  }
  return elements;
}

void ReductionAnalysis::findStages(const std::vector<Expr*>& exprs) {
  std::unordered_set<const TensorView*> with_positions; // of rows or, if there are any, of subrows
  auto note = [&](const TensorView* tv) {
    std::unordered_set<IdGroup> found;
    for (const IterDomain* id : tv->getLogicalDomain()) {
      if ((!id->isBroadcast() || isCut(id)) && !id->isReduction() && isReducedDim(id)) {
        found.insert(axisOf(id));
      }
    }
    if (!found.empty()) {
      with_reduced_.insert(tv);
    }
    if (std::ranges::any_of(found, [&](IdGroup g) { return subrow_groups_.count(g) == 0; })) {
      with_positions.insert(tv);
    }
    std::erase_if(found, [&](IdGroup g) { return short_groups_.count(g) != 0; });
    if (hasSubrows() && found == subrow_groups_ && !isCut(tv)) {
      of_subrows_.insert(tv);
    }
    if (found.size() + short_groups_.size() == reduced_groups_.size() && !isCut(tv)) {
      with_whole_rows_.insert(tv);
    }
  };
  for (const Expr* e : exprs) {
    for (const TensorView* in : tensorInputs(e)) {
      if (stages_.emplace(in, 0).second) {
        note(in);
      }
    }
    const int stage = stageOf(e);
    for (const TensorView* out : tensorOutputs(e)) {
      stages_[out] = isReduction(e) ? stage + 1 : stage;
      note(out);
      normalization = normalization || (stage > 0 && with_positions.count(out) != 0);
    }
    if (isReduction(e) && stage > 0 && !hasSubrows()) {
      normalization = true;
    }
  }
}

bool ReductionAnalysis::fits(const Expr* e, std::string* why) const {
  if (changesDims(e)) {
    *why = e->opName() + " changes the dimensions";
    return false;
  }
  if (isReduction(e) && isPartialReduction(e->output(0)->as<TensorView>())) {
    return fitsAsPartial(e->output(0)->as<TensorView>(), why);
  }
  std::vector<TensorView*> tvs = tensorInputs(e);
  // What is looked up is read where it is, at positions that no loop runs over.
  if (const TensorView* table = lookedUpTensor(e)) {
    if (!table->isFusionInput()) {
      *why = table->toString() + " is computed, but " + e->opName() + " reads it at any position";
      return false;
    }
    std::erase(tvs, table);
  }
  for (const TensorView* tv : tvs) {
    if (isPartialReduction(tv)) {
      *why = tv->toString() + " is complete only when all blocks are";
      return false;
    }
  }
  if (!leadsToReference(e)) {
    *why = e->opName() + " changes the dimensions";
    return false;
  }
  for (const TensorView* in : tvs) {
    if (isReadCutAndWhole(in, e)) {
      *why = in->toString() + " is padded as well as broadcast";
      return false;
    }
  }
  for (TensorView* out : tensorOutputs(e)) {
    tvs.push_back(out);
  }
  return std::all_of(tvs.begin(), tvs.end(),
                     [&](const TensorView* tv) { return hasAxesOfReference(tv, e, why); });
}

// Whether the loops over the reference are those of an operand or result of `e`.
bool ReductionAnalysis::hasAxesOfReference(const TensorView* tv, const Expr* e,
                                           std::string* why) const {
  if (isCut(tv) && (isReduction(e) || tv->isFusionOutput())) {
    *why = tv->toString() + " is sliced or padded to what " + reference()->toString() + " has";
    return false;
  }
  if (standsAlongTwoAxes(tv)) {
    *why = "two dimensions of " + tv->toString() + " stand for the same one of " +
           reference()->toString();
    return false;
  }
  std::unordered_set<IdGroup> seen;
  for (const IterDomain* id : tv->getLogicalDomain()) {
    // What a reduction took away belongs to that reduction.
    if ((id->isBroadcast() && !isCut(id)) || (id->isReduction() && tv->definition() != e)) {
      continue;
    }
    const IdGroup g = axisOf(id);
    const bool is_reduced = reduced_groups_.count(g) != 0;
    const bool is_kept = kept_groups_.count(g) != 0;
    if (is_reduced == is_kept || !seen.insert(g).second || !hasSizeOfReference(id)) {
      *why = tv->toString() + " has a dimension that " + reference()->toString() + " has not";
      return false;
    }
  }
  if (tv->definition() != e) {
    return true;
  }
  return isReduction(e) ? reducesAsReference(tv, why) && hasAllOf(tv, seen, why)
                        : !tv->isFusionOutput() || hasAllOf(tv, seen, why);
}

// Whether a result, with these of the reference's dimensions, has all that its loops are for.
bool ReductionAnalysis::hasAllOf(const TensorView* tv, const std::unordered_set<IdGroup>& seen,
                                 std::string* why) const {
  // It would be computed for each of the rows that it does not depend on, in loops of its own.
  for (IdGroup g : kept_groups_) {
    if (seen.count(g) == 0) {
      *why = tv->toString() + " has no dimension for the rows of " + reference()->toString();
      return false;
    }
  }
  const auto count = [&](const std::unordered_set<IdGroup>& groups) {
    return static_cast<size_t>(
        std::count_if(groups.begin(), groups.end(), [&](IdGroup g) { return seen.count(g) != 0; }));
  };
  const size_t short_dims = count(short_groups_);
  const size_t along_row = count(reduced_groups_) - short_dims;
  const size_t all_along_row = reduced_groups_.size() - short_groups_.size();
  const bool is_of_subrows = hasSubrows() && along_row == subrow_groups_.size() &&
                             count(subrow_groups_) == along_row; // all subrows, no positions
  if (tv->isFusionOutput() && along_row + short_dims != 0 && along_row != all_along_row &&
      !is_of_subrows) {
    *why = tv->toString() + " has a part of the dimensions that " + reference()->toString() +
           " reduces";
    return false;
  }
  if (isReduction(tv->definition()) && along_row != all_along_row && !is_of_subrows) {
    *why = tv->toString() + " does not reduce all that " + reference()->toString() + " reduces";
    return false;
  }
  return true;
}

// Each subrow, or what is left of all subrows of a row.
bool ReductionAnalysis::reducesSubrows(const TensorView* tv) const {
  bool reduces_each = true;
  bool reduces_rest = true;
  for (const IterDomain* id : tv->getLogicalDomain()) {
    if (!id->isBroadcast()) {
      const bool is_along = isReducedDim(id) && !isSubrowDim(id);
      reduces_each = reduces_each && id->isReduction() == is_along;
      reduces_rest = reduces_rest && !is_along && id->isReduction() == isSubrowDim(id);
    }
  }
  return reduces_each || reduces_rest;
}

// All that threads share, and what is short as well where it has that; or only what is short.
bool ReductionAnalysis::reducesAsReference(const TensorView* tv, std::string* why) const {
  if (hasSubrows() && reducesSubrows(tv)) {
    return true;
  }
  bool along_row = false;
  for (const IterDomain* id : tv->getLogicalDomain()) {
    along_row = along_row || (id->isReduction() && !id->isBroadcast() && isAlongRow(id));
  }
  for (const IterDomain* id : tv->getLogicalDomain()) {
    if (id->isBroadcast()) {
      continue;
    }
    // Short dimensions are one loop: all of them that the tensor has.
    const bool is_reduced = along_row || !hasShortDims() ? isReducedDim(id) : isShortDim(id);
    if (id->isReduction() != is_reduced) {
      *why = tv->toString() + " and " + reference()->toString() + " reduce different dimensions";
      return false;
    }
  }
  return true;
}

// What a slice or a pad makes is a dimension of the reference, or becomes one.
bool ReductionAnalysis::leadsToReference(const Expr* e) const {
  if (e->kind() != ExprKind::SliceOp && e->kind() != ExprKind::PadOp) {
    return true;
  }
  const auto& logical = e->output(0)->as<TensorView>()->getLogicalDomain();
  const bool in_row = std::ranges::any_of(logicalIds(e->input(0)), [&](const IterDomain* id) {
    return !id->isBroadcast() && isReducedDim(id); // in the loops of which one is read
  });
  return std::all_of(logical.begin(), logical.end(), [&](const IterDomain* id) {
    const auto* resize = tryAs<Resize>(id->definition());
    return resize == nullptr || (reads_ones_anywhere_ && resize->in()->isOne() && in_row) ||
           (isCut(resize->in()) && axisOf(resize->in()) >= 0);
  });
}

// A dimension of size 1 that something pads has one element of a row. Where the expression
// broadcasts it, or takes it away, all of the row has that element.
bool ReductionAnalysis::isReadCutAndWhole(const TensorView* in, const Expr* e) const {
  if (!isCut(in)) {
    return false;
  }
  const auto of = PairwiseLogicalMap(in, tensorOutputs(e).front()).producerToConsumer();
  const auto& logical = in->getLogicalDomain();
  return std::any_of(logical.begin(), logical.end(), [&](IterDomain* id) {
    const auto it = of.find(id);
    return id->isBroadcast() && isCut(id) && (it == of.end() || !it->second->isBroadcast());
  });
}

// One tensor is read along two axes, x[i] and x[j], and this one has both: its axes could not be
// told apart by which of the reference's they are, even where one of them is a broadcast here.
bool ReductionAnalysis::standsAlongTwoAxes(const TensorView* tv) const {
  std::unordered_set<IdGroup> seen;
  for (const IterDomain* id : tv->getLogicalDomain()) {
    const IdGroup g = axisOf(id);
    if ((reduced_groups_.count(g) != 0 || kept_groups_.count(g) != 0) && !seen.insert(g).second) {
      return true;
    }
  }
  return false;
}

// Its columns are what rows are made of, its rows the reference's in the same order: they are one
// axis, which is cut into groups.
bool ReductionAnalysis::fitsAsPartial(const TensorView* tv, std::string* why) const {
  std::vector<IdGroup> rows;
  for (const IterDomain* id : reference()->getLogicalDomain()) {
    rows.push_back(graph_.group(id));
  }
  auto next = rows.begin();
  for (const IterDomain* id : tv->getRootDomain()) {
    if (id->isBroadcast()) {
      continue;
    }
    const IdGroup g = graph_.group(id);
    if ((id->isReduction() ? kept_groups_ : reduced_groups_).count(g) == 0) {
      *why = tv->toString() + " has a dimension that " + reference()->toString() + " has not";
      return false;
    }
    if (id->isReduction()) {
      next = std::find(next, rows.end(), g);
      if (next == rows.end()) {
        *why = tv->toString() + " has the rows of " + reference()->toString() + " in another order";
        return false;
      }
    }
  }
  return true;
}

void ReductionAnalysis::findConflicts(const std::vector<Expr*>& exprs) {
  std::string ignored;
  std::unordered_map<const Expr*, bool> fit;
  // What is padded belongs to the kernel that makes it: a cat of parts that are made elsewhere is
  // one tensor to write where these are several.
  const auto isMadeElsewhere = [&](const TensorView* in) {
    const auto maker = fit.find(in->definition());
    return maker != fit.end() && !maker->second;
  };
  for (const Expr* e : exprs) {
    const std::vector<TensorView*> ins = tensorInputs(e);
    fit[e] = fits(e, &ignored) && std::none_of(ins.begin(), ins.end(), [&](const TensorView* in) {
               return (isCut(in) || e->kind() == ExprKind::CatOp) && isMadeElsewhere(in);
             });
  }
  const auto isReadHere = [&](const TensorView* in) {
    const auto& uses = in->uses();
    return std::any_of(uses.begin(), uses.end(), [&](const Expr* use) {
      const auto it = fit.find(use);
      return it != fit.end() && it->second;
    });
  };
  for (Expr* e : exprs) {
    for (TensorView* in : tensorInputs(e)) {
      auto maker = fit.find(in->definition());
      if (in->definition() == nullptr || maker == fit.end() || maker->second == fit.at(e)) {
        continue;
      }
      if (maker->second && isReadHere(in)) {
        conflicts.late.push_back(e);
        continue;
      }
      if (std::find(conflicts.made.begin(), conflicts.made.end(), in) == conflicts.made.end()) {
        conflicts.made.push_back(in);
      }
    }
  }
}

// Of the inputs of the set (-1: of all).
bool ReductionAnalysis::isFastestDim(const Fusion* fusion, int set) const {
  const auto counts = [&](const TensorView* tv) {
    return hasReducedDims(tv) && (set < 0 || setOf(tv) == set);
  };
  const IterDomain* innermost =
      innermostOfLargest(fusion, counts, [&](const IterDomain* id) { return isShortDim(id); });
  if (innermost == nullptr) {
    return reduced.back();
  }
  if (isReducedDim(innermost)) {
    return true;
  }
  // Threads along columns of a few elements would be far apart: those along rows share what they
  // read of neighbouring rows.
  const IterDomain* around = innermostOfLargest(
      fusion, counts, [&](const IterDomain* id) { return isShortDim(id) || isFew(id); });
  return around != nullptr && isReducedDim(around);
}

} // namespace nvfuser
