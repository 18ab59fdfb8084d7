// See outer_partials.h.
#include <scheduler/outer_partials.h>

#include <base/integer_math.h>

#include <id_model/id_model.h>
#include <ir/builder.h>
#include <ir/exprs.h>
#include <runtime/resident_clusters.h>

#include <algorithm>
#include <bit>
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

// The extent of the inner split is the number of walkers: walker w takes rows w, w + walkers, ...
TensorView* makePartial(const TensorView* out, const ReductionOp* op, int64_t walkers) {
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
  Val* factor = IrBuilder::index(walkers);
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

void split(Fusion* fusion, ReductionOp* op, int64_t walkers) {
  TensorView* out = op->out();
  TensorView* partial = makePartial(out, op, walkers);
  IterDomain* over_walkers =
      IterDomainBuilder(IrBuilder::index(walkers)).iterType(IterType::Reduction).build();
  const OpType combine = op->op();
  Val* init = op->init();
  fusion->removeExpr(op);
  out->setDomain(out->domain()->copyOfKept({over_walkers}));
  IrBuilder::create<ReductionOp>(combine, init, out, partial);
}

// Reductions of columns for which there is one of rows over the same dimensions.
std::vector<ReductionOp*> columnReductions(Fusion* fusion) {
  std::vector<ReductionOp*> reductions;
  for (Expr* e : fusion->exprs()) {
    if (e->kind() == ExprKind::ReductionOp && !isPartialReduction(e->output(0)->as<TensorView>())) {
      reductions.push_back(static_cast<ReductionOp*>(e));
    }
  }
  if (reductions.size() < 2) {
    return {};
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
  return columns;
}

} // namespace

std::optional<RowsAndColumns> findRowsAndColumns(Fusion* fusion) {
  const std::vector<ReductionOp*> columns = columnReductions(fusion);
  if (columns.empty()) {
    return std::nullopt;
  }
  RowsAndColumns out;
  for (const IterDomain* id : columns.front()->out()->getLogicalDomain()) {
    (id->isReduction() ? out.rows : out.columns).push_back(id->getMaybeExpandedExtent());
  }
  return out;
}

RowWalk chooseRowWalk(int64_t rows, int64_t columns, const DeviceInfo& device) {
  // The threads of an SM hold the sums of its columns in registers.
  constexpr int64_t kWarp = 32;
  constexpr int64_t kElements = 16;
  // A walker takes so many rows at least, if there are enough.
  constexpr int64_t kFewestRows = 4;
  const int64_t threads = std::min<int64_t>(512, device.max_threads_per_block);
  RowWalk walk;
  const int64_t most_cluster = std::max(device.max_cluster_size, 1);
  while (walk.cluster < most_cluster && columns > threads * kElements * walk.cluster) {
    walk.cluster *= 2;
  }
  if (columns > threads * kElements * walk.cluster) {
    return walk;
  }
  const int64_t wanted = ceilDiv(columns, kElements * walk.cluster);
  walk.threads = wanted <= kWarp
                     ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wanted)))
                     : std::min(ceilDiv(wanted, kWarp) * kWarp, threads);
  const int64_t clusters = residentClusters(device, static_cast<int>(walk.cluster));
  const int64_t most = powerOfTwoUpTo(rows / kFewestRows);
  const int64_t blocks = std::clamp<int64_t>(clusters, 1, most);
  walk.walkers_per_block =
      std::min(powerOfTwoUpTo(threads / walk.threads), powerOfTwoUpTo(most / blocks));
  walk.walkers = blocks * walk.walkers_per_block;
  return walk;
}

bool splitColumnReductions(Fusion* fusion, int64_t walkers) {
  FusionGuard guard(fusion);
  const std::vector<ReductionOp*> columns = columnReductions(fusion);
  for (ReductionOp* op : columns) {
    split(fusion, op, walkers);
  }
  return !columns.empty();
}

} // namespace nvfuser
