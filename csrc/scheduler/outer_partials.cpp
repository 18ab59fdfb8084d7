// See outer_partials.h.
#include <scheduler/outer_partials.h>

#include <id_model/id_model.h>
#include <ir/builder.h>
#include <ir/exprs.h>
#include <transform/cache.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace nvfuser {

bool isPartialReduction(const TensorView* tv) {
  return tv->hasRoot() && tv->definition() != nullptr &&
         tv->definition()->kind() == ExprKind::ReductionOp;
}

namespace {

struct Dims {
  std::set<IdGroup> reduced;
  std::set<IdGroup> kept;
};

Dims dimsOf(const TensorView* tv, const IdGraph& graph) {
  Dims out;
  for (const IterDomain* id : tv->getLogicalDomain()) {
    if (!id->isBroadcast()) {
      (id->isReduction() ? out.reduced : out.kept).insert(graph.group(id));
    }
  }
  return out;
}

// The columns are the fast dimensions in memory: the last dimension is reduced by rows.
bool reducesRows(const TensorView* tv) {
  return tv->getLogicalDomain().back()->isReduction();
}

bool areColumnsOf(const Dims& columns, const Dims& rows) {
  return !rows.kept.empty() && !columns.kept.empty() && columns.reduced == rows.kept &&
         columns.kept == rows.reduced;
}

// The extent of the inner split is the number of walkers: walker w takes rows w, w + walkers, ...
TensorView* makePartial(const TensorView* out, const ReductionOp* op, Val* factor) {
  std::vector<IterDomain*> root;
  std::vector<IterDomain*> kept;
  IterDomain* rows = nullptr;
  for (const IterDomain* id : out->getLogicalDomain()) {
    IterDomain* copy = IterDomainBuilder(id).parallelType(ParallelType::Serial).build();
    root.push_back(copy);
    if (id->isReduction()) {
      rows = rows == nullptr ? copy : IterDomain::merge(rows, copy);
    } else {
      kept.push_back(copy);
    }
  }
  IterDomain* own_rows = IterDomainBuilder(IrBuilder::ceilDivExpr(rows->extent(), factor))
                             .iterType(IterType::Reduction)
                             .build();
  IterDomain* walker = IterDomainBuilder(factor).build();
  IrBuilder::create<Split>(own_rows, walker, rows, factor, /*inner_split=*/true);
  std::vector<IterDomain*> logical{walker};
  logical.insert(logical.end(), kept.begin(), kept.end());
  logical.push_back(own_rows);
  auto* domain = IrBuilder::create<TensorDomain>(root, logical, logical,
                                                 TensorDomain::contiguityFilledWith(logical, true));
  auto* partial = IrBuilder::create<TensorView>(domain, out->dtype());
  IrBuilder::create<ReductionOp>(op->op(), op->init(), partial, op->in());
  return partial;
}

// `walkers` makes the number of walkers anew each time if that is a constant.
template <class Walkers>
void split(Fusion* fusion, ReductionOp* op, Walkers walkers) {
  TensorView* out = op->out();
  TensorView* partial = makePartial(out, op, walkers());
  IterDomain* over_walkers = IterDomainBuilder(walkers()).iterType(IterType::Reduction).build();
  const OpType combine = op->op();
  Val* init = op->init();
  fusion->removeExpr(op);
  out->setDomain(out->domain()->copyOfKept({over_walkers}));
  IrBuilder::create<ReductionOp>(combine, init, out, partial);
}

// Reductions of columns for which there is one of rows over the same dimensions. Those of the
// fusion are told apart by `graph`, which is made if there may be any.
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
    const Dims mine = dimsOf(op->out(), graph);
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

} // namespace

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
  const Dims dims = dimsOf(columns.front()->out(), graph);
  for (const Val* in : fusion->inputs()) {
    if (in->isTensor()) {
      const Dims own = dimsOf(in->as<TensorView>(), graph);
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

bool splitColumnReductions(Fusion* fusion, int64_t walkers) {
  FusionGuard guard(fusion);
  IdGraph graph;
  const std::vector<ReductionOp*> columns = columnReductions(fusion, graph);
  for (ReductionOp* op : columns) {
    split(fusion, op, [&]() -> Val* { return IrBuilder::index(walkers); });
  }
  return !columns.empty();
}

Val* splitColumnReductions(Fusion* fusion) {
  FusionGuard guard(fusion);
  IdGraph graph;
  const std::vector<ReductionOp*> columns = columnReductions(fusion, graph);
  Val* walkers = columns.empty() ? nullptr : IrBuilder::create<Val>(DataType::Index);
  for (ReductionOp* op : columns) {
    split(fusion, op, [&] { return walkers; });
  }
  return walkers;
}

namespace {

class ColumnRepeater {
 public:
  explicit ColumnRepeater(const Dims& column_sum) : column_sum_(column_sum) {}

  // `tv` or a copy that is computed of the fusion's inputs, of what has one value for each row or
  // column, and of nothing else; null if that takes too much.
  TensorView* repeated(TensorView* tv, const IdGraph& graph) {
    if (tv->isFusionInput() || !hasRowsAndColumns(tv, graph)) {
      return tv;
    }
    if (auto it = copies_.find(tv); it != copies_.end()) {
      return it->second;
    }
    constexpr int kMostOps = 12;
    const Expr* def = tv->definition();
    switch (def->kind()) {
      case ExprKind::ElementwiseOp:
      case ExprKind::BroadcastOp:
      case ExprKind::ExpandOp:
      case ExprKind::SqueezeOp:
      case ExprKind::LoadStoreOp:
        break;
      default:
        return nullptr;
    }
    if (++ops_ > kMostOps) {
      return nullptr;
    }
    std::vector<Val*> inputs = def->inputs();
    for (Val*& in : inputs) {
      if (in->isTensor()) {
        in = repeated(in->as<TensorView>(), graph);
        if (in == nullptr) {
          return nullptr;
        }
      }
    }
    return copies_[tv] = recompute(tv, inputs);
  }

 private:
  // Broadcast dimensions count, as they stand for all rows or columns.
  bool hasRowsAndColumns(const TensorView* tv, const IdGraph& graph) const {
    bool rows = false;
    bool columns = false;
    for (const IterDomain* id : tv->getLogicalDomain()) {
      rows = rows || column_sum_.reduced.count(graph.group(id)) != 0;
      columns = columns || column_sum_.kept.count(graph.group(id)) != 0;
    }
    return rows && columns;
  }

  const Dims& column_sum_;
  std::unordered_map<TensorView*, TensorView*> copies_;
  int ops_ = 0;
};

} // namespace

void repeatForColumns(Fusion* fusion) {
  FusionGuard guard(fusion);
  IdGraph graph;
  const std::vector<ReductionOp*> columns = columnReductions(fusion, graph);
  if (columns.empty()) {
    return;
  }
  for (ReductionOp* op : columns) {
    TensorView* in = op->in();
    const Dims dims = dimsOf(op->out(), graph);
    TensorView* copy = ColumnRepeater(dims).repeated(in, graph);
    if (copy != nullptr && copy != in) {
      copyExprWith(fusion, op, {{in, copy}});
    }
  }
}

} // namespace nvfuser
