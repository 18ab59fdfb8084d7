// SPDX-License-Identifier: BSD-3-Clause
// See input_bits.h.
#include <preseg_passes/input_bits.h>

#include <definition/library_views.h>
#include <ir/exprs.h>
#include <ir/logical_map.h>
#include <ir/op_traits.h>
#include <ir/visitor.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>

namespace nvfuser {

bool isWideningCast(const Expr* e) {
  const auto* op = tryAs<ElementwiseOp>(e);
  return op != nullptr && op->op() == OpType::Cast && op->in(0)->isTensor() &&
         dataTypeSizeBits(op->in(0)->dtype()) < dataTypeSizeBits(op->out()->dtype());
}

int64_t concreteDims(const TensorView* tv) {
  const auto& logical = tv->getLogicalDomain();
  return std::count_if(logical.begin(), logical.end(), [](const IterDomain* id) {
    return !id->isBroadcast() && !id->isReduction();
  });
}

namespace {

// What is computed of it has its dimensions in another order: threads that are neighbours would
// find elements of different rows.
bool isPermuted(const TensorView* tv) {
  constexpr size_t kMostVisited = 16;
  std::vector<const TensorView*> tensors{tv};
  for (size_t i = 0; i < tensors.size() && i < kMostVisited; ++i) {
    for (const Expr* use : tensors[i]->uses()) {
      if (!permutationOf(use).empty()) {
        return true;
      }
      if (isByPosition(use)) {
        tensors.push_back(use->output(0)->as<TensorView>());
      }
    }
  }
  return false;
}

} // namespace

bool readsWholeRows(const Expr* lookup) {
  return findsRows(lookup) && !isPermuted(lookup->output(0)->as<TensorView>());
}

InputBits::InputBits(const std::vector<Expr*>& exprs) {
  for (const Expr* e : exprs) {
    if (const std::optional<Cost> cost = costOf(e)) {
      known_[e->output(0)->as<TensorView>()] = *cost;
    }
  }
}

std::optional<InputBits::Cost> InputBits::costOf(const TensorView* tv) const {
  if (isInMemory(tv)) {
    return Cost{{tv}, 0};
  }
  auto it = known_.find(tv);
  return it == known_.end() ? std::nullopt : std::optional(it->second);
}

std::optional<InputBits::Cost> InputBits::costOf(const Expr* e) const {
  constexpr int64_t kMostOps = 16;
  switch (e->kind()) {
    case ExprKind::FullOp:
    case ExprKind::IotaOp:
      return Cost{{}, 1};
    case ExprKind::SliceOp:
      return isInMemory(e->input(0)->as<TensorView>())
                 ? std::optional(Cost{{e->output(0)->as<TensorView>()}, 0})
                 : std::nullopt;
    case ExprKind::IndexSelectOp:
    case ExprKind::EmbeddingFwdOp: // reads as much as it finds, of positions with fewer dimensions
      return isInMemory(lookedUpTensor(e)) && readsWholeRows(e)
                 ? std::optional(Cost{{e->output(0)->as<TensorView>()}, 1})
                 : std::nullopt;
    default:
      if (!isByPosition(e) || isBoundary(e)) {
        return std::nullopt;
      }
  }
  if (!e->output(0)->isTensor()) {
    return std::nullopt;
  }
  const int64_t dims = concreteDims(e->output(0)->as<TensorView>());
  Cost sum{{}, 1};
  for (const TensorView* in : tensorInputs(e)) {
    if (concreteDims(in) < dims) {
      continue;
    }
    const std::optional<Cost> cost = costOf(in);
    if (!cost.has_value()) {
      return std::nullopt;
    }
    for (const TensorView* read : cost->read) {
      if (std::find(sum.read.begin(), sum.read.end(), read) == sum.read.end()) {
        sum.read.push_back(read);
      }
    }
    sum.ops += cost->ops;
  }
  return sum.ops > kMostOps ? std::nullopt : std::optional(sum);
}

bool InputBits::areFewFor(const Expr* e, bool or_as_many) const {
  if (!e->output(0)->isTensor()) {
    return false;
  }
  const auto* out = e->output(0)->as<TensorView>();
  auto it = known_.find(out);
  if (it == known_.end()) {
    return false;
  }
  int64_t bits = 0;
  for (const TensorView* read : it->second.read) {
    bits += dataTypeSizeBits(read->dtype());
  }
  return bits < 2 * dataTypeSizeBits(out->dtype()) + (or_as_many ? 1 : 0);
}

} // namespace nvfuser
