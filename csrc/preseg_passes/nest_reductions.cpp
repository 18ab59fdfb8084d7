// SPDX-License-Identifier: BSD-3-Clause
// A reduction of more dimensions than another one of the same tensors is made in two steps: first
// over the dimensions that both reduce, in the kernel that has them on chip, then over the rest, of
// which little is left. dw of an instance norm sums what dx sums for each sample and channel, and
// then the samples. So are two that share dimensions if nothing is computed of the result of one of
// them for all its elements again: dw of a group norm sums pixels and samples, dx pixels and the
// channels of a group. Then their first steps may be one (share_sums.cpp).
#include <preseg_passes/passes.h>

#include <id_model/id_model.h>
#include <ir/builder.h>
#include <ir/exprs.h>
#include <preseg_passes/column_reductions.h>
#include <preseg_passes/meet_reductions.h>

#include <algorithm>
#include <iterator>
#include <map>
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

// The last dimension of the tensor is one of these.
bool hasLastDim(const TensorView* in, const Groups& groups, const IdGraph& graph) {
  const TensorDomain::Ids ids = logicalIds(in);
  return !ids.empty() && groups.count(graph.group(ids.back())) != 0;
}

// Reductions of a definition by the dimensions that they reduce and keep, and whether something is
// broadcast of what is made of each of them.
using Sets = std::map<std::pair<Groups, Groups>, bool>;

// Dimensions that are reduced first: of the largest other reduction of the same dimensions.
Groups firstOf(const ReductionOp* op, const Sets& all, const IdGraph& graph) {
  const ReducedAndKept own = dimsOf(op->out(), graph);
  const auto dims = [](Groups reduced, const Groups& kept) {
    reduced.insert(kept.begin(), kept.end());
    return reduced;
  };
  const auto known = all.find({own.reduced, own.kept});
  Groups largest;
  for (const auto& [other, is_read_again] : all) {
    const auto& [reduced, kept] = other;
    Groups common;
    std::ranges::set_intersection(own.reduced, reduced, std::inserter(common, common.end()));
    const bool is_part = common.size() < own.reduced.size() && largest.size() < common.size() &&
                         dims(reduced, kept) == dims(own.reduced, own.kept);
    const bool is_last = !is_read_again || (known != all.end() && !known->second);
    if (is_part && (common == reduced || (is_last && hasLastDim(op->in(), common, graph)))) {
      largest = common;
    }
  }
  return largest;
}

// A constant if one is known: second steps over equal dimensions share a kernel, which finds them
// equal by their extents. `equal`: not through a broadcast, which may stand for several.
Val* extentOf(const IterDomain* id, const IdGraph& equal) {
  if (!id->extent()->isConst()) {
    for (const IterDomain* same : equal.members(equal.group(id))) {
      if (!same->isBroadcast() && same->extent()->isConst()) {
        return same->extent();
      }
    }
  }
  return id->extent();
}

void makeInTwoSteps(Fusion* fusion, ReductionOp* op, const Groups& first, const IdGraph& graph,
                    const IdGraph& equal) {
  TensorView* out = op->out();
  TensorDomain::Ids partial_dims;
  TensorDomain::Ids dims;
  for (IterDomain* id : out->getLogicalDomain()) {
    const bool is_first = id->isReduction() && first.count(graph.group(id)) != 0;
    IterDomainBuilder copy(id);
    copy.parallelType(ParallelType::Serial).extent(extentOf(id, equal));
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

bool nestReductions(Fusion* fusion) {
  FusionGuard guard(fusion);
  std::vector<ReductionOp*> reductions;
  for (Expr* e : fusion->exprs()) {
    if (e->kind() == ExprKind::ReductionOp && !e->output(0)->as<TensorView>()->hasRoot()) {
      reductions.push_back(static_cast<ReductionOp*>(e));
    }
  }
  if (reductions.size() < 2) {
    return false;
  }
  const IdGraph graph = buildGraph(fusion, IdMappingMode::Permissive);
  const IdGraph equal = buildGraph(fusion, IdMappingMode::Exact);
  Sets all;
  for (const ReductionOp* op : reductions) {
    if (all.size() < kMostSets) {
      const ReducedAndKept dims = dimsOf(op->out(), graph);
      bool& is_read_again = all.try_emplace({dims.reduced, dims.kept}, true).first->second;
      is_read_again = is_read_again && isBroadcastLater(op->out());
    }
  }
  bool changed = false;
  for (ReductionOp* op : reductions) {
    const Groups first = firstOf(op, all, graph);
    if (!first.empty() && !op->out()->domain()->hasAllocation() && isWorthIt(op, first, graph)) {
      makeInTwoSteps(fusion, op, first, graph, equal);
      changed = true;
    }
  }
  return changed;
}

} // namespace nvfuser
