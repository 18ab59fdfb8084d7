// See outer_partials.h.
#include <scheduler/outer_partials.h>

#include <id_model/id_model.h>
#include <ir/builder.h>
#include <ir/exprs.h>

#include <algorithm>
#include <set>

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

// The extent of the inner split is the number of blocks: block b takes rows b, b + blocks, ...
TensorView* makePartial(const TensorView* out, const ReductionOp* op, int64_t blocks) {
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
  Val* factor = IrBuilder::index(blocks);
  IterDomain* own_rows = IterDomainBuilder(IrBuilder::ceilDivExpr(rows->extent(), factor))
                             .iterType(IterType::Reduction)
                             .build();
  IterDomain* block = IterDomainBuilder(factor).build();
  IrBuilder::create<Split>(own_rows, block, rows, factor, /*inner_split=*/true);
  std::vector<IterDomain*> logical{block};
  logical.insert(logical.end(), kept.begin(), kept.end());
  logical.push_back(own_rows);
  auto* domain = IrBuilder::create<TensorDomain>(root, logical, logical,
                                                 TensorDomain::contiguityFilledWith(logical, true));
  auto* partial = IrBuilder::create<TensorView>(domain, out->dtype());
  IrBuilder::create<ReductionOp>(op->op(), op->init(), partial, op->in());
  return partial;
}

void split(Fusion* fusion, ReductionOp* op, int64_t blocks) {
  TensorView* out = op->out();
  TensorView* partial = makePartial(out, op, blocks);
  IterDomain* over_blocks =
      IterDomainBuilder(IrBuilder::index(blocks)).iterType(IterType::Reduction).build();
  const OpType combine = op->op();
  Val* init = op->init();
  fusion->removeExpr(op);
  out->setDomain(out->domain()->copyOfKept({over_blocks}));
  IrBuilder::create<ReductionOp>(combine, init, out, partial);
}

} // namespace

bool splitColumnReductions(Fusion* fusion, int64_t blocks) {
  FusionGuard guard(fusion);
  std::vector<ReductionOp*> reductions;
  for (Expr* e : fusion->exprs()) {
    if (e->kind() == ExprKind::ReductionOp && !isPartialReduction(e->output(0)->as<TensorView>())) {
      reductions.push_back(static_cast<ReductionOp*>(e));
    }
  }
  if (reductions.size() < 2) {
    return false;
  }
  const IdGraph graph = buildGraph(fusion, IdMappingMode::Permissive);
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
  for (ReductionOp* op : columns) {
    split(fusion, op, blocks);
  }
  return !columns.empty();
}

} // namespace nvfuser
