// See reduction_analysis.h.
#include <scheduler/reduction_analysis.h>

#include <id_model/id_model.h>
#include <ir/logical_map.h>
#include <ir/visitor.h>
#include <scheduler/outer_partials.h>

#include <algorithm>

namespace nvfuser {

namespace {

// Ops that change which dimensions there are.
bool changesDims(const Expr* e) {
  switch (e->kind()) {
    case ExprKind::ReshapeOp:
    case ExprKind::SliceOp:
    case ExprKind::PadOp:
    case ExprKind::CatOp:
    case ExprKind::ScanOp:
    case ExprKind::ScatterOp:
      return true;
    default:
      return false;
  }
}

} // namespace

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

std::shared_ptr<const ReductionAnalysis> ReductionAnalysis::run(Fusion* fusion, std::string* why) {
  auto out = std::make_shared<ReductionAnalysis>();
  if (out->collect(fusion, why)) {
    out->findFastestDim(fusion);
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
  for (const IterDomain* id : reference_->getLogicalDomain()) {
    reduced.push_back(id->isReduction());
    // A dimension of size 1 in the reference gets no loop that others could share.
    if (!id->isBroadcast()) {
      (id->isReduction() ? reduced_groups_ : kept_groups_).insert(graph_.group(id));
    }
  }
  findStages(exprs);
  for (const Expr* e : exprs) {
    std::string reason;
    if (!fits(e, &reason)) {
      *why = reason;
      findConflicts(exprs);
      return false;
    }
  }
  return true;
}

int ReductionAnalysis::stageOf(const Expr* e) const {
  int stage = 0;
  for (const TensorView* in : tensorInputs(e)) {
    stage = std::max(stage, stages_.at(in));
  }
  return stage;
}

void ReductionAnalysis::findStages(const std::vector<Expr*>& exprs) {
  auto note = [&](const TensorView* tv) {
    std::unordered_set<IdGroup> found;
    for (const IterDomain* id : tv->getLogicalDomain()) {
      if (!id->isBroadcast() && !id->isReduction() &&
          reduced_groups_.count(graph_.group(id)) != 0) {
        found.insert(graph_.group(id));
      }
    }
    if (!found.empty()) {
      with_reduced_.insert(tv);
    }
    if (found.size() == reduced_groups_.size()) {
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
      normalization = normalization || (stage > 0 && hasReducedDims(out));
    }
    if (isReduction(e) && stage > 0) {
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
  for (TensorView* out : tensorOutputs(e)) {
    tvs.push_back(out);
  }
  for (const TensorView* tv : tvs) {
    std::unordered_set<IdGroup> seen;
    for (const IterDomain* id : tv->getLogicalDomain()) {
      // What a reduction took away belongs to that reduction.
      if (id->isBroadcast() || (id->isReduction() && tv->definition() != e)) {
        continue;
      }
      const IdGroup g = graph_.group(id);
      const bool is_reduced = reduced_groups_.count(g) != 0;
      const bool is_kept = kept_groups_.count(g) != 0;
      if (is_reduced == is_kept || !seen.insert(g).second) {
        *why = tv->toString() + " has a dimension that " + reference()->toString() + " has not";
        return false;
      }
      if (isReduction(e) && tv->definition() == e && id->isReduction() != is_reduced) {
        *why = tv->toString() + " and " + reference()->toString() + " reduce different dimensions";
        return false;
      }
    }
    if (tv->definition() == e && (isReduction(e) || tv->isFusionOutput())) {
      // It would be computed for each of the rows that it does not depend on, in loops of its own.
      for (IdGroup g : kept_groups_) {
        if (seen.count(g) == 0) {
          *why = tv->toString() + " has no dimension for the rows of " + reference()->toString();
          return false;
        }
      }
    }
    const auto along_row =
        static_cast<size_t>(std::count_if(reduced_groups_.begin(), reduced_groups_.end(),
                                          [&](IdGroup g) { return seen.count(g) != 0; }));
    if (tv->definition() == e && tv->isFusionOutput() && along_row != 0 &&
        along_row != reduced_groups_.size()) {
      *why = tv->toString() + " has a part of the dimensions that " + reference()->toString() +
             " reduces";
      return false;
    }
    if (tv->definition() == e && isReduction(e)) {
      for (IdGroup g : reduced_groups_) {
        if (seen.count(g) == 0) {
          *why =
              tv->toString() + " does not reduce all that " + reference()->toString() + " reduces";
          return false;
        }
      }
    }
  }
  return true;
}

// Its columns are what rows are made of, its rows the reference's.
bool ReductionAnalysis::fitsAsPartial(const TensorView* tv, std::string* why) const {
  for (const IterDomain* id : tv->getRootDomain()) {
    const IdGroup g = graph_.group(id);
    if (!id->isBroadcast() && (id->isReduction() ? kept_groups_ : reduced_groups_).count(g) == 0) {
      *why = tv->toString() + " has a dimension that " + reference()->toString() + " has not";
      return false;
    }
  }
  return true;
}

void ReductionAnalysis::findConflicts(const std::vector<Expr*>& exprs) {
  std::string ignored;
  std::unordered_map<const Expr*, bool> fit;
  for (const Expr* e : exprs) {
    fit[e] = fits(e, &ignored);
  }
  for (const Expr* e : exprs) {
    for (TensorView* in : tensorInputs(e)) {
      auto maker = fit.find(in->definition());
      if (in->definition() != nullptr && maker != fit.end() && maker->second != fit.at(e) &&
          std::find(conflicts.begin(), conflicts.end(), in) == conflicts.end()) {
        conflicts.push_back(in);
      }
    }
  }
}

// Decided by the input with the most dimensions.
void ReductionAnalysis::findFastestDim(const Fusion* fusion) {
  size_t most = 0;
  auto look = [&](const TensorView* tv) {
    const auto& allocation = tv->getMaybeAllocationDomain();
    const auto concrete = static_cast<size_t>(std::count_if(
        allocation.begin(), allocation.end(),
        [](const IterDomain* id) { return !id->isBroadcast() && !id->isReduction(); }));
    if (concrete <= most || !hasReducedDims(tv)) {
      return;
    }
    for (size_t i = allocation.size(); i-- > 0;) {
      if (!allocation[i]->isBroadcast() && !allocation[i]->isReduction()) {
        most = concrete;
        fastest_dim = reduced_groups_.count(graph_.group(allocation[i])) != 0;
        return;
      }
    }
  };
  for (const Val* in : fusion->inputs()) {
    if (in->isTensor()) {
      look(in->as<TensorView>());
    }
  }
  if (most == 0) {
    fastest_dim = reduced.back();
  }
}

std::vector<IterDomain*> ReductionAnalysis::contiguousRun(const TensorView* tv,
                                                          bool along_reduced) const {
  std::vector<IterDomain*> out;
  const auto& logical = reference()->getLogicalDomain();
  const auto& allocation = tv->getMaybeAllocationDomain();
  size_t at = allocation.size();
  for (size_t i = logical.size(); i-- > 0;) {
    if (logical[i]->isReduction() != along_reduced || logical[i]->isBroadcast()) {
      continue;
    }
    while (at > 0 && (allocation[at - 1]->isBroadcast() || allocation[at - 1]->isReduction())) {
      --at;
    }
    if (at == 0 || !tv->getContiguity()[at - 1].value_or(false) ||
        !graph_.same(allocation[at - 1], logical[i])) {
      break;
    }
    out.push_back(allocation[--at]);
  }
  return out;
}

} // namespace nvfuser
