// SPDX-License-Identifier: BSD-3-Clause
// One kernel can reduce rows and columns of the same tensors if its blocks take one row after the
// other and keep their own sums of the columns. A reduction of columns is then made in two steps:
// first over the rows of each group of rows, then over the groups.
#include <preseg_passes/passes.h>

#include <ir/builder.h>
#include <ir/exprs.h>
#include <preseg_passes/column_reductions.h>
#include <preseg_passes/rewrites.h>

namespace nvfuser {

namespace {

IterDomain* reducedPart(Val* extent) {
  return IterDomainBuilder(extent).iterType(IterType::Reduction).build();
}

// Group g of `factor` has rows g, g + factor, ..., where several at once count as one, or
// neighbouring ones.
TensorView* makePartial(const TensorView* out, const ReductionOp* op, Val* factor,
                        int64_t rows_at_once, bool neighbouring_rows) {
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
  IterDomain* at_once = nullptr;
  if (rows_at_once > 1) {
    Val* count = IrBuilder::index(rows_at_once);
    IterDomain* iterations = reducedPart(IrBuilder::ceilDivExpr(rows->extent(), count));
    at_once = reducedPart(count);
    IrBuilder::create<Split>(iterations, at_once, rows, count, /*inner_split=*/true);
    rows = iterations;
  }
  IterDomain* own_rows = reducedPart(IrBuilder::ceilDivExpr(rows->extent(), factor));
  IterDomain* group = IterDomainBuilder(factor).build();
  if (neighbouring_rows) {
    IrBuilder::create<Split>(group, own_rows, rows, factor, /*inner_split=*/false);
  } else {
    IrBuilder::create<Split>(own_rows, group, rows, factor, /*inner_split=*/true);
  }
  std::vector<IterDomain*> logical{group};
  logical.insert(logical.end(), kept.begin(), kept.end());
  logical.push_back(own_rows);
  if (at_once != nullptr) {
    logical.push_back(at_once);
  }
  auto* domain = IrBuilder::create<TensorDomain>(root, logical, logical,
                                                 TensorDomain::contiguityFilledWith(logical, true));
  auto* partial = IrBuilder::create<TensorView>(domain, out->dtype());
  IrBuilder::create<ReductionOp>(op->op(), op->init(), partial, op->in());
  return partial;
}

// `groups` makes the number of groups anew each time if that is a constant.
template <class Groups>
void split(Fusion* fusion, ReductionOp* op, Groups groups, int64_t rows_at_once,
           bool neighbouring_rows) {
  TensorView* out = op->out();
  TensorView* partial = makePartial(out, op, groups(), rows_at_once, neighbouring_rows);
  IterDomain* over_groups = IterDomainBuilder(groups()).iterType(IterType::Reduction).build();
  const OpType combine = op->op();
  Val* init = op->init();
  fusion->removeExpr(op);
  out->setDomain(out->domain()->copyOfKept({over_groups}));
  IrBuilder::create<ReductionOp>(combine, init, out, partial);
}

} // namespace

Val* splitColumnReductions(Fusion* fusion, const Rewrites& wanted) {
  FusionGuard guard(fusion);
  IdGraph graph;
  const std::vector<ReductionOp*> columns = columnReductions(fusion, graph);
  const bool any_number = wanted.partial_sums == Rewrites::kAnyNumber;
  Val* number = any_number && !columns.empty() ? IrBuilder::create<Val>(DataType::Index) : nullptr;
  for (ReductionOp* op : columns) {
    const auto own = wanted.groups_of.find(constantRowSizes(op->out()).value_or(RowSizes()));
    const Rewrites::Groups groups =
        own != wanted.groups_of.end() ? own->second
                                      : Rewrites::Groups{wanted.partial_sums, wanted.rows_at_once};
    split(
        fusion, op, [&] { return any_number ? number : IrBuilder::index(groups.count); },
        groups.rows_at_once, wanted.neighbouring_rows);
  }
  return number;
}

} // namespace nvfuser
