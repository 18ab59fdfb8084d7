// See outer_partials.h.
#include <scheduler/outer_partials.h>

#include <base/integer_math.h>

#include <id_model/id_model.h>
#include <ir/builder.h>
#include <ir/exprs.h>
#include <runtime/resident_clusters.h>
#include <transform/cache.h>

#include <algorithm>
#include <bit>
#include <set>
#include <unordered_map>

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
  out.sums = static_cast<int64_t>(columns.size());
  const IdGraph graph = buildGraph(fusion, IdMappingMode::Permissive);
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

namespace {

constexpr int64_t kWarp = 32;
// Threads that share a row in a block, elements of it that each of them has if all inputs take so
// many bytes of it, and the most for rows that no cluster holds otherwise: registers keep the sums
// of the columns and two rows.
constexpr int64_t kRowThreads = 512;
constexpr int64_t kElements = 16;
constexpr int64_t kBytesOfElements = 64;
constexpr int64_t kMostElements = 32;
constexpr int64_t kVector = 8;

int64_t threadsOfWalker(int64_t columns, int64_t elements) {
  const int64_t wanted = ceilDiv(columns, elements);
  return wanted <= kWarp ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wanted)))
                         : ceilDiv(wanted, kWarp) * kWarp;
}

// Which of the elements of a row a thread has, and in how large a cluster; threads are 0 if it is
// too long.
struct RowShare {
  int64_t cluster = 1;
  int64_t elements = kElements;
  int64_t threads = 0;
};

RowShare shareRow(int64_t columns, int64_t most_walking, int64_t sums, int64_t row_bytes,
                  const DeviceInfo& device) {
  // Larger clusters leave some multiprocessors idle.
  constexpr int64_t kSmallCluster = 4;
  // With a register for each sum of each of the most elements.
  constexpr int64_t kThreadsWithManySums = 320;
  int64_t most_threads = std::min<int64_t>(kRowThreads, device.max_threads_per_block);
  const int64_t most_cluster = std::max(device.max_cluster_size, 1);
  const auto threads = [&](const RowShare& share) {
    return threadsOfWalker(ceilDiv(columns, share.cluster), share.elements);
  };
  RowShare share;
  share.elements = std::clamp(powerOfTwoUpTo(kBytesOfElements / std::max<int64_t>(row_bytes, 1)),
                              kVector, kElements);
  while (share.cluster < most_cluster && threads(share) > most_threads) {
    share.cluster *= 2;
  }
  while (share.elements < kMostElements && threads(share) > most_threads) {
    share.elements += kVector;
  }
  if (share.elements > kElements && sums > 1) {
    share.elements = kMostElements;
    most_threads = std::min(most_threads, kThreadsWithManySums);
  }
  if (threads(share) > most_threads) {
    return share;
  }
  // Several short walkers fill a multiprocessor better than one that is long, but not enough.
  const auto walking = [&](const RowShare& one) {
    return most_walking / threads(one) * threads(one);
  };
  for (RowShare other = share;
       sums == 1 && (other.cluster *= 2) <= std::min(most_cluster, kSmallCluster);) {
    if (4 * walking(share) < 3 * most_walking && 4 * walking(other) >= 5 * walking(share)) {
      share = other;
    }
  }
  share.threads = threads(share);
  return share;
}

} // namespace

RowWalk chooseRowWalk(int64_t rows, int64_t columns, int64_t sums, int64_t row_bytes,
                      const DeviceInfo& device) {
  // A walker takes so many rows at least, if there are enough.
  constexpr int64_t kFewestRows = 4;
  // Threads of a multiprocessor that registers for their sums are left for.
  const int64_t most_walking =
      std::min<int64_t>(sums > 1 ? 512 : 640, device.max_threads_per_block);
  RowWalk walk;
  const RowShare share = shareRow(columns, most_walking, sums, row_bytes, device);
  if (share.threads == 0) {
    return walk;
  }
  walk.cluster = share.cluster;
  walk.threads = share.threads;
  const int64_t clusters = residentClusters(device, static_cast<int>(walk.cluster));
  const int64_t most = powerOfTwoUpTo(rows / kFewestRows);
  const int64_t blocks = std::clamp<int64_t>(clusters, 1, most);
  walk.walkers_per_block =
      std::min(std::max<int64_t>(most_walking / walk.threads, 1), powerOfTwoUpTo(most / blocks));
  walk.walkers = blocks * walk.walkers_per_block;
  // Where registers are short. Powers of two are counted round by one instruction.
  constexpr int64_t kSumsInRegisters = 24;
  constexpr int64_t kSmallCluster = 2;
  if (share.elements > kElements && sums * share.elements > kSumsInRegisters) {
    walk.rows_under_way = 3;
  } else if (sums > 1 && share.elements == kElements &&
             (walk.cluster == 1 || (walk.cluster <= kSmallCluster &&
                                    walk.threads * walk.walkers_per_block < most_walking))) {
    walk.rows_under_way = 4;
  }
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
  const std::vector<ReductionOp*> columns = columnReductions(fusion);
  if (columns.empty()) {
    return;
  }
  const IdGraph graph = buildGraph(fusion, IdMappingMode::Permissive);
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
