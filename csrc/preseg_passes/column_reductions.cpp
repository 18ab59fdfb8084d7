// SPDX-License-Identifier: BSD-3-Clause
// See column_reductions.h.
#include <preseg_passes/column_reductions.h>

#include <id_model/id_model.h>
#include <ir/exprs.h>

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

namespace nvfuser {

bool isPartialReduction(const TensorView* tv) {
  return tv->hasRoot() && tv->definition() != nullptr &&
         tv->definition()->kind() == ExprKind::ReductionOp;
}

std::optional<RowSizes> constantRowSizes(const TensorView* sum) {
  RowSizes out{1, 1};
  for (const IterDomain* id : sum->getMaybeRootDomain()) {
    const Val* extent = id->getMaybeExpandedExtent();
    if (!extent->isConstInt()) {
      return std::nullopt;
    }
    (id->isReduction() ? out.rows : out.columns) *= extent->intValue();
  }
  return out;
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

// Elements of short dimensions at most: two vectors of 16-bit ones [hand, see machine.h].
constexpr int64_t kMostOfThread = 16;

// That a reduction makes one of; the most there are if that is not known.
int64_t elementsReduced(const TensorView* tv) {
  int64_t elements = 1;
  for (const IterDomain* id : tv->getLogicalDomain()) {
    if (id->isReduction()) {
      const auto* extent =
          id->extent()->isConst() ? std::get_if<int64_t>(&id->extent()->value()) : nullptr;
      if (extent == nullptr) {
        return std::numeric_limits<int64_t>::max();
      }
      elements *= *extent;
    }
  }
  return elements;
}

bool areDisjoint(const std::set<IdGroup>& a, const std::set<IdGroup>& b) {
  return std::none_of(a.begin(), a.end(), [&](IdGroup g) { return b.count(g) != 0; });
}

// The columns are the fast dimensions in memory: the last dimension is reduced by rows.
bool reducesRows(const TensorView* tv) {
  return tv->getLogicalDomain().back()->isReduction();
}

// Columns may have short dimensions beside those of the rows.
bool areColumnsOf(const ReducedAndKept& columns, const ReducedAndKept& rows, const RowDims& dims) {
  if (rows.kept.empty() || columns.kept.empty() || columns.reduced != rows.kept) {
    return false;
  }
  return columns.kept == rows.reduced ||
         (rows.reduced == dims.along && std::ranges::includes(columns.kept, dims.along) &&
          std::all_of(columns.kept.begin(), columns.kept.end(), [&](IdGroup g) {
            return dims.along.count(g) != 0 || dims.within_thread.count(g) != 0;
          }));
}

} // namespace

RowDims rowDimsOf(const std::vector<TensorView*>& reductions, const IdGraph& graph) {
  RowDims out;
  int64_t most = 0;
  for (const TensorView* tv : reductions) {
    if (const int64_t elements = elementsReduced(tv); elements > most) {
      most = elements;
      out.along = dimsOf(tv, graph).reduced;
    }
  }
  std::set<IdGroup> rows; // those along the rows would have to be made for each of a thread's
  for (const TensorView* tv : reductions) {
    const ReducedAndKept dims = dimsOf(tv, graph);
    if (!areDisjoint(dims.reduced, out.along)) {
      rows.insert(dims.kept.begin(), dims.kept.end());
    }
  }
  int64_t of_thread = 1;
  for (const TensorView* tv : reductions) {
    const ReducedAndKept dims = dimsOf(tv, graph);
    const int64_t elements = elementsReduced(tv);
    if (!dims.reduced.empty() && areDisjoint(dims.reduced, out.along) &&
        areDisjoint(dims.reduced, rows) && elements > 0 &&
        std::ranges::includes(dims.kept, out.along) &&
        areDisjoint(dims.reduced, out.within_thread) && elements <= kMostOfThread / of_thread) {
      of_thread *= elements;
      out.within_thread.insert(dims.reduced.begin(), dims.reduced.end());
    }
  }
  return out;
}

namespace {

RowDims rowDimsOf(Fusion* fusion, const IdGraph& graph) {
  std::vector<TensorView*> rows;
  for (Expr* e : fusion->exprs()) {
    if (isReduction(e) && reducesRows(e->output(0)->as<TensorView>())) {
      rows.push_back(e->output(0)->as<TensorView>());
    }
  }
  return rowDimsOf(rows, graph);
}

// Elements that a tensor has for each position along a row.
int64_t elementsOfPosition(const TensorView* tv, const RowDims& dims, const IdGraph& graph) {
  int64_t elements = 1;
  for (const IterDomain* id : logicalIds(tv)) {
    if (!id->isBroadcast() && dims.within_thread.count(graph.group(id)) != 0) {
      elements *= id->extent()->intValue();
    }
  }
  return elements;
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
  const RowDims row_dims = rowDimsOf(fusion, graph);
  std::vector<ReductionOp*> columns;
  for (ReductionOp* op : reductions) {
    const ReducedAndKept mine = dimsOf(op->out(), graph);
    const bool found =
        !reducesRows(op->out()) &&
        std::any_of(reductions.begin(), reductions.end(), [&](const ReductionOp* other) {
          return reducesRows(other->out()) &&
                 areColumnsOf(mine, dimsOf(other->out(), graph), row_dims);
        });
    if (found) {
      columns.push_back(op);
    }
  }
  return columns;
}

namespace {

// What kernels may compute together: operations between libraries, and those that read one input
// which has the rows. What no such input leads to, as cosines that heads share, joins nothing: each
// kernel that reads it computes it.
class Regions {
 public:
  template <class HasRows>
  Regions(const Fusion* fusion, HasRows has_rows) {
    for (const Val* in : fusion->inputs()) {
      if (!in->isTensor() || !has_rows(in->as<TensorView>())) {
        continue;
      }
      const Expr* reader = nullptr;
      for (const Expr* use : fusion->liveUses(in)) {
        if (use->kind() != ExprKind::LibraryOp) {
          reader = reader == nullptr ? use : reader;
          join(use, reader);
        }
        of_rows_.insert(use);
      }
    }
    for (const Expr* e : fusion->exprs()) {
      for (const TensorView* in : tensorInputs(e)) {
        const Expr* maker = in->definition();
        if (maker == nullptr) {
          continue;
        }
        const bool is_cut = maker->kind() == ExprKind::LibraryOp ||
                            e->kind() == ExprKind::LibraryOp ||
                            (in->isFusionOutput() && !fusion->isReturned(in));
        if (is_cut || of_rows_.count(maker) != 0 || has_rows(in)) {
          of_rows_.insert(e);
        }
        if (!is_cut && of_rows_.count(maker) != 0) {
          join(e, maker);
        }
      }
    }
  }

  // The same for all of a region.
  const Expr* first(const Expr* e) {
    const Expr*& known = first_of_.try_emplace(e, e).first->second;
    return known == e ? e : known = first(known);
  }

  // Of each region in the order of the fusion, with what it computes for itself.
  std::unordered_map<const Expr*, std::vector<const Expr*>> exprs(const Fusion* fusion) {
    std::unordered_map<const Expr*, std::vector<const Expr*>> out;
    std::unordered_map<const Expr*, std::set<const Expr*>> regions_of;
    const std::vector<Expr*>& all = fusion->exprs();
    for (auto e = all.rbegin(); e != all.rend(); ++e) {
      std::set<const Expr*>& own = regions_of[*e];
      if (of_rows_.count(*e) != 0) {
        own.insert(first(*e));
      }
      for (const Expr* region : own) {
        out[region].push_back(*e);
      }
      for (const TensorView* in : tensorInputs(*e)) {
        if (in->definition() != nullptr && of_rows_.count(in->definition()) == 0) {
          regions_of[in->definition()].insert(own.begin(), own.end());
        }
      }
    }
    for (auto& [region, exprs] : out) {
      std::reverse(exprs.begin(), exprs.end());
    }
    return out;
  }

 private:
  void join(const Expr* a, const Expr* b) {
    first_of_[first(a)] = first(b);
  }

  std::unordered_map<const Expr*, const Expr*> first_of_;
  std::unordered_set<const Expr*> of_rows_;
};

// Whether no reduction of rows depends on another one, and none has several results.
bool reducesRowsOnce(const std::vector<const Expr*>& exprs) {
  std::unordered_set<const Val*> reduced; // what depends on one
  for (const Expr* e : exprs) {
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

// Tensors in memory that these read.
std::vector<const TensorView*> readBy(const std::vector<const Expr*>& exprs) {
  std::unordered_set<const Val*> made;
  std::vector<const TensorView*> out;
  for (const Expr* e : exprs) {
    for (const TensorView* in : tensorInputs(e)) {
      if (made.insert(in).second) {
        out.push_back(in);
      }
    }
    made.insert(e->outputs().begin(), e->outputs().end());
  }
  return out;
}

RowsAndColumns rowsAndColumnsOf(const std::vector<const Expr*>& exprs,
                                const std::vector<const ReductionOp*>& columns,
                                const RowDims& row_dims, const IdGraph& graph) {
  RowsAndColumns out;
  for (const ReductionOp* op : columns) {
    out.sums += elementsOfPosition(op->out(), row_dims, graph);
  }
  out.reduced_once = reducesRowsOnce(exprs);
  const ReducedAndKept dims = dimsOf(columns.front()->out(), graph);
  for (const TensorView* in : readBy(exprs)) {
    const ReducedAndKept own = dimsOf(in, graph);
    const auto has = [&](const std::set<IdGroup>& groups) {
      return std::any_of(own.kept.begin(), own.kept.end(),
                         [&](const IdGroup& group) { return groups.count(group) != 0; });
    };
    if (has(dims.reduced) && has(dims.kept)) {
      out.row_bytes += std::max<int64_t>(dataTypeSizeBits(in->dtype()) / 8, 1) *
                       elementsOfPosition(in, row_dims, graph);
    }
  }
  for (const IterDomain* id : columns.front()->out()->getLogicalDomain()) {
    if (row_dims.within_thread.count(graph.group(id)) == 0) {
      (id->isReduction() ? out.rows : out.columns).push_back(id->getMaybeExpandedExtent());
    }
  }
  return out;
}

} // namespace

std::vector<RowsAndColumns> findRowsAndColumns(Fusion* fusion) {
  IdGraph graph;
  const std::vector<ReductionOp*> columns = columnReductions(fusion, graph);
  if (columns.empty()) {
    return {};
  }
  const RowDims row_dims = rowDimsOf(fusion, graph);
  std::set<std::pair<std::set<IdGroup>, std::set<IdGroup>>> of_columns; // rows and columns
  for (const ReductionOp* op : columns) {
    const ReducedAndKept dims = dimsOf(op->out(), graph);
    of_columns.emplace(dims.reduced, dims.kept);
  }
  Regions regions(fusion, [&](const TensorView* tv) {
    const std::set<IdGroup> own = dimsOf(tv, graph).kept;
    return std::ranges::any_of(of_columns, [&](const auto& dims) {
      return std::ranges::includes(own, dims.first) && std::ranges::includes(own, dims.second);
    });
  });
  const auto exprs_of = regions.exprs(fusion);
  std::vector<const Expr*> found;
  std::unordered_map<const Expr*, std::vector<const ReductionOp*>> columns_of;
  for (const ReductionOp* op : columns) {
    const Expr* region = regions.first(op);
    if (columns_of[region].empty()) {
      found.push_back(region);
    }
    columns_of[region].push_back(op);
  }
  std::vector<RowsAndColumns> out;
  for (const Expr* region : found) {
    out.push_back(rowsAndColumnsOf(exprs_of.at(region), columns_of[region], row_dims, graph));
  }
  return out;
}

} // namespace nvfuser
