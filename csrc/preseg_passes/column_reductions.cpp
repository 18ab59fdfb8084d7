// SPDX-License-Identifier: BSD-3-Clause
// See column_reductions.h.
#include <preseg_passes/column_reductions.h>

#include <id_model/id_model.h>
#include <ir/exprs.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

bool isPartialReduction(const TensorView* tv) {
  return tv->hasRoot() && tv->definition() != nullptr &&
         tv->definition()->kind() == ExprKind::ReductionOp;
}

ReducedAndKept dimsOf(const TensorView* tv, const IdGraph& graph) {
  ReducedAndKept out;
  for (const IterDomain* id : tv->getLogicalDomain()) {
    if (!id->isBroadcast()) {
      (id->isReduction() ? out.reduced : out.kept).insert(graph.group(id));
    }
  }
  return out;
}

namespace {

// The columns are the fast dimensions in memory: the last dimension is reduced by rows.
bool reducesRows(const TensorView* tv) {
  return tv->getLogicalDomain().back()->isReduction();
}

bool areColumnsOf(const ReducedAndKept& columns, const ReducedAndKept& rows) {
  return !rows.kept.empty() && !columns.kept.empty() && columns.reduced == rows.kept &&
         columns.kept == rows.reduced;
}

} // namespace

std::vector<ReductionOp*> columnReductions(Fusion* fusion, IdGraph& graph) {
  std::vector<ReductionOp*> reductions;
  for (Expr* e : fusion->exprs()) {
    if (e->kind() == ExprKind::ReductionOp && !isPartialReduction(e->output(0)->as<TensorView>())) {
      reductions.push_back(static_cast<ReductionOp*>(e));
    }
  }
  if (reductions.size() < 2) {
    return {};
  }
  graph = buildGraph(fusion, IdMappingMode::Permissive);
  std::vector<ReductionOp*> columns;
  for (ReductionOp* op : reductions) {
    const ReducedAndKept mine = dimsOf(op->out(), graph);
    const bool found =
        !reducesRows(op->out()) &&
        std::any_of(reductions.begin(), reductions.end(), [&](const ReductionOp* other) {
          return reducesRows(other->out()) && areColumnsOf(mine, dimsOf(other->out(), graph));
        });
    if (found) {
      columns.push_back(op);
    }
  }
  return columns;
}

bool reducesRowsOnce(Fusion* fusion) {
  std::unordered_set<const Val*> reduced; // what depends on one
  for (const Expr* e : fusion->exprs()) {
    const bool depends = std::any_of(e->inputs().begin(), e->inputs().end(),
                                     [&](const Val* in) { return reduced.count(in) != 0; });
    const bool reduces = isReduction(e) && reducesRows(e->output(0)->as<TensorView>());
    if (reduces && (depends || e->kind() != ExprKind::ReductionOp)) {
      return false;
    }
    if (reduces || depends) {
      reduced.insert(e->outputs().begin(), e->outputs().end());
    }
  }
  return true;
}

std::optional<RowsAndColumns> findRowsAndColumns(Fusion* fusion) {
  IdGraph graph;
  const std::vector<ReductionOp*> columns = columnReductions(fusion, graph);
  if (columns.empty()) {
    return std::nullopt;
  }
  RowsAndColumns out;
  out.sums = static_cast<int64_t>(columns.size());
  out.reduced_once = reducesRowsOnce(fusion);
  const ReducedAndKept dims = dimsOf(columns.front()->out(), graph);
  for (const Val* in : fusion->inputs()) {
    if (in->isTensor()) {
      const ReducedAndKept own = dimsOf(in->as<TensorView>(), graph);
      const auto has = [&](const std::set<IdGroup>& groups) {
        return std::any_of(own.kept.begin(), own.kept.end(),
                           [&](const IdGroup& group) { return groups.count(group) != 0; });
      };
      if (has(dims.reduced) && has(dims.kept)) {
        out.row_bytes += std::max<int64_t>(dataTypeSizeBits(in->dtype()) / 8, 1);
      }
    }
  }
  for (const IterDomain* id : columns.front()->out()->getLogicalDomain()) {
    (id->isReduction() ? out.rows : out.columns).push_back(id->getMaybeExpandedExtent());
  }
  return out;
}

} // namespace nvfuser
