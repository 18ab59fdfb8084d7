// SPDX-License-Identifier: BSD-3-Clause
// See logical_map.h.
#include <ir/logical_map.h>

#include <base/error.h>
#include <ir/op_traits.h>

#include <algorithm>

namespace nvfuser {

std::string undecidedReshape(const TensorView* out) {
  return "reshape: " + out->toString() +
         " depends on sizes that are known only when the fusion runs, or inserts or removes "
         "dimensions of size 1, so it can not be scheduled by hand. Use execute(), constant "
         "sizes, or broadcast and squeeze.";
}

TensorView* lookedUpTensor(const Expr* e) {
  return looksUp(e) ? e->input(0)->as<TensorView>() : nullptr;
}

bool isLookedUp(const TensorView* tv) {
  return std::any_of(tv->uses().begin(), tv->uses().end(),
                     [&](const Expr* use) { return lookedUpTensor(use) == tv; });
}

int64_t lookedUpDim(const Expr* e) {
  switch (e->kind()) {
    case ExprKind::GatherOp:
      return static_cast<const GatherOp*>(e)->dim();
    case ExprKind::IndexSelectOp:
      return static_cast<const IndexSelectOp*>(e)->dim();
    case ExprKind::SelectOp:
      return static_cast<const SelectOp*>(e)->dim();
    case ExprKind::EmbeddingFwdOp:
      return 0;
    default:
      NVF_THROW(e->opName(), " looks nothing up");
  }
}

bool findsRows(const Expr* e) {
  if (e->kind() != ExprKind::IndexSelectOp && e->kind() != ExprKind::EmbeddingFwdOp) {
    return false;
  }
  const auto* table = lookedUpTensor(e);
  const auto memory = TensorDomain::noReductions(table->getMaybeAllocationDomain());
  const auto innermost = std::find_if(memory.rbegin(), memory.rend(),
                                      [](const IterDomain* id) { return !id->isBroadcast(); });
  return innermost != memory.rend() &&
         *innermost != logicalIds(table).at(static_cast<size_t>(lookedUpDim(e)));
}

bool isLookedUpDim(const Expr* e, size_t dim) {
  if (e->kind() != ExprKind::RollOp) {
    return dim == static_cast<size_t>(lookedUpDim(e));
  }
  const auto* roll = static_cast<const RollOp*>(e);
  const int64_t of = roll->viewDims().at(dim);
  return roll->offsets().at(static_cast<size_t>(of)) != 0 ||
         std::count(roll->viewDims().begin(), roll->viewDims().end(), of) > 1;
}

namespace {

using Ids = TensorDomain::Ids;
using Pairs = std::vector<std::pair<IterDomain*, IterDomain*>>;

// Pairs of the tensor that is looked up: none for a dimension that is looked up. A gather's other
// dimensions may be longer than the output's, so they do not pair either.
Pairs lookupPairs(const Expr* def, const Ids& p, const Ids& c) {
  Pairs out;
  if (def->kind() == ExprKind::GatherOp && !def->as<GatherOp>()->exact()) {
    return out;
  }
  if (const auto* roll = tryAs<RollOp>(def)) {
    for (size_t i = 0; i < p.size(); ++i) {
      if (!isLookedUpDim(def, i)) {
        out.emplace_back(p[i], c.at(static_cast<size_t>(roll->viewDims().at(i))));
      }
    }
    return out;
  }
  // Dimensions of positions are in place of the one that is looked up.
  size_t j = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (!isLookedUpDim(def, i)) {
      out.emplace_back(p[i], c.at(j++));
    } else {
      j += c.size() + 1 - p.size();
    }
  }
  return out;
}

// Pairs of the tensor that holds positions.
Pairs indexPairs(const Expr* def, const Ids& p, const Ids& c) {
  Pairs out;
  switch (def->kind()) {
    case ExprKind::IndexSelectOp:
      for (size_t i = 0; i < p.size(); ++i) {
        out.emplace_back(p[i], c.at(static_cast<size_t>(lookedUpDim(def)) + i));
      }
      break;
    case ExprKind::SelectOp:
      break;
    default:
      for (size_t i = 0; i < p.size(); ++i) {
        out.emplace_back(p[i], c.at(i));
      }
  }
  return out;
}

Pairs withoutFlagged(const Ids& p, const Ids& c, const std::vector<bool>& flags, bool of_consumer) {
  Pairs out;
  size_t i = 0;
  size_t j = 0;
  for (const bool flagged : flags) {
    if (flagged) {
      ++(of_consumer ? j : i);
    } else {
      out.emplace_back(p.at(i++), c.at(j++));
    }
  }
  return out;
}

} // namespace

std::vector<std::pair<IterDomain*, IterDomain*>> producerConsumerPairs(const TensorView* producer,
                                                                       const TensorView* consumer) {
  const auto p = logicalIds(producer);
  const auto& c = consumer->getMaybeRootDomain();
  const Expr* def = consumer->definition();
  NVF_ERROR(def != nullptr, "the consumer has no definition");
  if (def->kind() == ExprKind::BroadcastOp) {
    return withoutFlagged(p, c, static_cast<const BroadcastOp*>(def)->isBroadcastDim(), true);
  }
  if (def->kind() == ExprKind::SqueezeOp) {
    return withoutFlagged(p, c, static_cast<const SqueezeOp*>(def)->isSqueezeDim(), false);
  }
  if (lookedUpTensor(def) != nullptr) {
    // The builders see to it that these are two tensors.
    return producer == def->input(0) ? lookupPairs(def, p, c) : indexPairs(def, p, c);
  }
  // Every element of the output may depend on any element of the positions and the source along the
  // scattered dimension; the others may be shorter than the output's.
  if (def->kind() == ExprKind::ScatterOp && producer != def->input(0)) {
    return {};
  }
  // A library computes whole tensors of whole tensors, and a view is another tensor: no loop is
  // shared.
  if (def->kind() == ExprKind::LibraryOp || isOfMemory(def)) {
    return {};
  }
  // A 0-d tensor among the operands of an op that makes a tensor of its own shape (a seed).
  if (p.empty()) {
    return {};
  }
  NVF_CHECK(p.size() == c.size() || def->kind() != ExprKind::ReshapeOp, undecidedReshape(consumer));
  NVF_ERROR(p.size() == c.size(), def->opName(),
            ": ranks of producer and consumer differ: ", producer->toString(), " and ",
            consumer->toString());
  Pairs out;
  for (size_t i = 0; i < p.size(); ++i) {
    out.emplace_back(p[i], c[i]);
  }
  return out;
}

} // namespace nvfuser
