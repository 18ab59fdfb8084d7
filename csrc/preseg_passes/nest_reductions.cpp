// SPDX-License-Identifier: BSD-3-Clause
// A reduction of more dimensions than another one of the same tensors is made in two steps: first
// over the dimensions that both reduce, in the kernel that has them on chip, then over the rest, of
// which little is left. dw of an instance norm sums what dx sums for each sample and channel, and
// then the samples.
#include <preseg_passes/passes.h>

#include <id_model/id_model.h>
#include <ir/builder.h>
#include <ir/exprs.h>
#include <preseg_passes/column_reductions.h>

#include <algorithm>
#include <set>

namespace nvfuser {

namespace {

// Sets of reduced dimensions that are compared with each other, so that this stays linear.
constexpr size_t kMostSets = 16;
// Elements that the first step makes one of, if that is known: what passes to the second step is
// so much less.
constexpr int64_t kFewestElements = 16;

using Groups = std::set<IdGroup>;

bool isWorthIt(const ReductionOp* op, const Groups& first, const IdGraph& graph) {
  int64_t elements = 1;
  for (const IterDomain* id : op->out()->getLogicalDomain()) {
    if (id->isReduction() && first.count(graph.group(id)) != 0) {
      if (!id->extent()->isConst()) {
        return true;
      }
      elements *= id->extent()->intValue();
    }
  }
  return elements >= kFewestElements;
}

// A constant if one is known: second steps over equal dimensions share a kernel, which finds them
// equal by their extents.
Val* extentOf(const IterDomain* id, const IdGraph& graph) {
  if (!id->extent()->isConst()) {
    for (const IterDomain* same : graph.members(graph.group(id))) {
      if (!same->isBroadcast() && same->extent()->isConst()) {
        return same->extent();
      }
    }
  }
  return id->extent();
}

void makeInTwoSteps(Fusion* fusion, ReductionOp* op, const Groups& first, const IdGraph& graph) {
  TensorView* out = op->out();
  TensorDomain::Ids partial_dims;
  TensorDomain::Ids dims;
  for (IterDomain* id : out->getLogicalDomain()) {
    const bool is_first = id->isReduction() && first.count(graph.group(id)) != 0;
    IterDomainBuilder copy(id);
    copy.parallelType(ParallelType::Serial).extent(extentOf(id, graph));
    if (!is_first) {
      dims.push_back(copy.build());
      copy.iterType(id->isReduction() ? IterType::Iteration : id->iterType());
    }
    partial_dims.push_back(copy.build());
  }
  const auto domain = [](const TensorDomain::Ids& ids) {
    return IrBuilder::create<TensorDomain>(ids, TensorDomain::contiguityFilledWith(ids, true));
  };
  auto* partial = IrBuilder::create<TensorView>(domain(partial_dims), out->dtype());
  partial->setSourceLocation(out->sourceLocation());
  const OpType combine = op->op();
  Val* init = op->init();
  TensorView* in = op->in();
  fusion->removeExpr(op);
  IrBuilder::create<ReductionOp>(combine, init, partial, in);
  out->setDomain(domain(dims));
  IrBuilder::create<ReductionOp>(combine, init, out, partial);
}

} // namespace

void nestReductions(Fusion* fusion) {
  FusionGuard guard(fusion);
  std::vector<ReductionOp*> reductions;
  for (Expr* e : fusion->exprs()) {
    if (e->kind() == ExprKind::ReductionOp && !e->output(0)->as<TensorView>()->hasRoot()) {
      reductions.push_back(static_cast<ReductionOp*>(e));
    }
  }
  if (reductions.size() < 2) {
    return;
  }
  const IdGraph graph = buildGraph(fusion, IdMappingMode::Permissive);
  std::set<std::pair<Groups, Groups>> all; // reduced and kept
  for (const ReductionOp* op : reductions) {
    if (all.size() < kMostSets) {
      const ReducedAndKept dims = dimsOf(op->out(), graph);
      all.emplace(dims.reduced, dims.kept);
    }
  }
  for (ReductionOp* op : reductions) {
    const ReducedAndKept own = dimsOf(op->out(), graph);
    const Groups* largest = nullptr;
    for (const auto& [reduced, kept] : all) {
      const bool is_part = reduced.size() < own.reduced.size() && !reduced.empty() &&
                           std::ranges::includes(own.reduced, reduced) &&
                           reduced.size() + kept.size() == own.reduced.size() + own.kept.size() &&
                           std::ranges::includes(kept, own.kept);
      if (is_part && (largest == nullptr || largest->size() < reduced.size())) {
        largest = &reduced;
      }
    }
    if (largest != nullptr && !op->out()->domain()->hasAllocation() &&
        isWorthIt(op, *largest, graph)) {
      makeInTwoSteps(fusion, op, *largest, graph);
    }
  }
}

} // namespace nvfuser
