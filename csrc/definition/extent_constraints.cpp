// SPDX-License-Identifier: BSD-3-Clause
// See extent_constraints.h.
#include <definition/extent_constraints.h>

#include <ir/logical_map.h>
#include <ir/visitor.h>
#include <ops/library_internal.h>
#include <ops/utils.h>

#include <algorithm>

namespace nvfuser {

using namespace ops_utils;

namespace {

// Constraints of the pairs of dimensions of one producer and consumer.
void addPairs(const Expr* e, const TensorView* producer, const TensorView* consumer,
              std::vector<ExtentConstraint>& out) {
  const Ids ids = logicalIds(producer);
  for (const auto& [id, consumer_id] : producerConsumerPairs(producer, consumer)) {
    // A broadcast meets any size, except where ops want equal sizes; a slice may shorten an
    // expanded one.
    const bool any_size =
        id->isBroadcast() && (e->kind() == ExprKind::SliceOp ||
                              (!id->hasExpandedExtent() && e->kind() != ExprKind::CatOp));
    if (any_size) {
      continue;
    }
    Val* a = id->getMaybeExpandedExtent();
    Val* b = consumer_id->getMaybeExpandedExtent();
    if (!a->sameAs(b)) {
      const auto dim = std::find(ids.begin(), ids.end(), id) - ids.begin();
      out.push_back({e, producer, consumer, dim, a, b, ExtentConstraint::Relation::Equal});
    }
  }
}

// Sizes of `small` that may not exceed those of `large`; `except` is a dimension that may, or -1.
void addBounds(const Expr* e, const TensorView* small, const TensorView* large, int64_t except,
               std::vector<ExtentConstraint>& out) {
  const Ids a = logicalIds(small);
  const Ids b = logicalIds(large);
  for (size_t d = 0; d < a.size(); ++d) {
    Val* lesser = a[d]->getMaybeExpandedExtent();
    Val* greater = b.at(d)->getMaybeExpandedExtent();
    if (static_cast<int64_t>(d) != except && !lesser->sameAs(greater)) {
      out.push_back({e, small, large, static_cast<int64_t>(d), lesser, greater,
                     ExtentConstraint::Relation::AtMost});
    }
  }
}

// Operands of one op among each other.
void addOperandPairs(const LibraryOp* op, std::vector<ExtentConstraint>& out) {
  for (const std::vector<OperandDim>& same : operandDims(op->dims(), op->operands())) {
    const OperandDim* reference = nullptr; // one that is not repeated, if there is any
    for (const OperandDim& d : same) {
      const bool repeated = d.repeats && d.id->isOne();
      if (!repeated && (reference == nullptr || (reference->repeats && !d.repeats))) {
        reference = &d;
      }
    }
    for (const OperandDim& d : same) {
      if (reference == nullptr || &d == reference || (d.repeats && d.id->isOne())) {
        continue;
      }
      Val* a = d.id->getMaybeExpandedExtent();
      Val* b = reference->id->getMaybeExpandedExtent();
      if (!a->sameAs(b)) {
        out.push_back({op, d.tv, reference->tv, d.dim, a, b, ExtentConstraint::Relation::Equal,
                       reference->dim});
      }
    }
  }
  if (op->op() == LibraryOpType::TopK) {
    const auto* in = op->input(0)->as<TensorView>();
    const auto dim = op->attributes().front();
    const Ids ids = logicalIds(in);
    Val* size = ids.empty() ? in->container()->oneVal()
                            : ids[static_cast<size_t>(dim)]->getMaybeExpandedExtent();
    out.push_back({op, op->output(0)->as<TensorView>(), in, dim, op->input(1), size,
                   ExtentConstraint::Relation::AtMost, dim, "k is out of range"});
  }
}

} // namespace

std::vector<ExtentConstraint> extentConstraints(const Fusion& fusion) {
  std::vector<ExtentConstraint> out;
  for (const Expr* e : fusion.exprs()) {
    for (const TensorView* consumer : tensorOutputs(e)) {
      for (const TensorView* producer : tensorInputs(e)) {
        addPairs(e, producer, consumer, out);
      }
    }
    if (e->kind() == ExprKind::GatherOp && !e->as<GatherOp>()->exact()) {
      const auto* op = e->as<GatherOp>();
      addBounds(e, op->index(), op->lookup(), op->dim(), out);
    } else if (e->kind() == ExprKind::ScatterOp) {
      const auto* op = e->as<ScatterOp>();
      addBounds(e, op->index(), op->self(), op->dim(), out);
      if (op->src()->isTensor()) {
        addBounds(e, op->index(), op->src()->as<TensorView>(), -1, out);
      }
    } else if (const auto* op = tryAs<LibraryOp>(e)) {
      addOperandPairs(op, out);
    }
  }
  return out;
}

} // namespace nvfuser
