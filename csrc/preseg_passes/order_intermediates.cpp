// SPDX-License-Identifier: BSD-3-Clause
// What one kernel writes and another one reads has the order in memory that the operands had which
// it is computed of, element by element: a kernel that reads images with their channels last writes
// them so, and one that permutes what it computes writes it as it lies. (In a kernel that keeps it
// to itself a tensor has no memory.) What is permuted stays as it is if it is read together with
// inputs that lie in its new order.
#include <preseg_passes/passes.h>

#include <ir/exprs.h>
#include <ir/visitor.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace nvfuser {

namespace {

using Order = std::vector<size_t>; // dimensions as they come in memory; empty: unknown

constexpr int kMostLevels = 16; // of operations that are looked through

bool isConcrete(const IterDomain* id) {
  return !id->isBroadcast() && !id->isReduction() && !id->isSymbolicType();
}

bool hasAllElements(const TensorView* tv) {
  const auto& logical = tv->getLogicalDomain();
  return std::all_of(logical.begin(), logical.end(), isConcrete);
}

// A scatter's result is in the same memory, which has the order of the result.
bool isUpdatedInPlace(const TensorView* tv) {
  return std::any_of(tv->uses().begin(), tv->uses().end(), [tv](const Expr* e) {
    return e->kind() == ExprKind::ScatterOp && e->as<ScatterOp>()->isInPlace() &&
           e->as<ScatterOp>()->self() == tv;
  });
}

// What is seen as another tensor, or is joined to one, lies as that one says.
bool isSeenInMemory(const TensorView* tv) {
  return std::ranges::any_of(tv->uses(), [](const Expr* e) { return isOfMemory(e); });
}

// Which of its input's dimensions each dimension is; empty if it permutes none.
Order permutationBy(const Expr* e) {
  const std::vector<int64_t> order = permutationOf(e);
  return {order.begin(), order.end()};
}

// As it lies: by a library, or as a view that names its dimensions otherwise. So may be what it is
// converted or otherwise computed to, element by element and with nothing else.
bool isReadByRows(const TensorView* tv) {
  const TensorView* next = tv;
  for (int level = 0; next != nullptr && level < kMostLevels; ++level) {
    tv = next;
    next = nullptr;
    for (const Expr* e : tv->uses()) {
      switch (e->kind()) {
        case ExprKind::LibraryOp:
        case ExprKind::ReshapeOp:
        case ExprKind::SqueezeOp:
        case ExprKind::BroadcastOp:
          return true;
        case ExprKind::ElementwiseOp:
          next = tensorInputs(e).size() == 1 ? tryAs<TensorView>(e->output(0)) : next;
          break;
        default:
          break;
      }
    }
  }
  return false;
}

// What it is computed of, element by element, or is a part of: of several tensors the first that
// has all elements.
const TensorView* originOf(const TensorView* tv) {
  for (int level = 0; level < kMostLevels; ++level) {
    const Expr* e = tv->definition();
    const bool keeps_order =
        e != nullptr && (e->kind() == ExprKind::ElementwiseOp || e->kind() == ExprKind::SliceOp);
    const std::vector<TensorView*> inputs =
        keeps_order ? tensorInputs(e) : std::vector<TensorView*>();
    const auto whole = std::ranges::find_if(inputs, hasAllElements);
    if (whole == inputs.end()) {
      break;
    }
    tv = *whole;
  }
  return tv;
}

// Something is computed, element by element, of it and of an input that lies in another order.
bool meetsAnotherOrder(const TensorView* tv, const Order& order) {
  constexpr size_t kMostVisited = 64;
  std::vector<const TensorView*> visited{tv};
  const auto lies_otherwise = [&](const TensorView* other) {
    const TensorView* origin = originOf(other);
    return origin->isFusionInput() && hasAllElements(origin) &&
           origin->domain()->memoryOrder() != order;
  };
  for (size_t i = 0; i < visited.size() && i < kMostVisited; ++i) {
    for (const Expr* e : visited[i]->uses()) {
      if (e->kind() != ExprKind::ElementwiseOp || !e->output(0)->isTensor()) {
        continue;
      }
      const auto inputs = tensorInputs(e);
      if (std::ranges::any_of(inputs, lies_otherwise)) {
        return true;
      }
      const auto* out = e->output(0)->as<TensorView>();
      if (std::ranges::find(visited, out) == visited.end()) {
        visited.push_back(out);
      }
    }
  }
  return false;
}

} // namespace

void orderIntermediates(Fusion* fusion) {
  std::unordered_map<const TensorView*, Order> known;
  std::unordered_set<const TensorView*> permuted; // they have the order of before a permutation
  const auto order = [&](const TensorView* tv) -> const Order& {
    const auto [it, is_new] = known.try_emplace(tv);
    if (is_new) {
      it->second = hasAllElements(tv) ? tv->domain()->memoryOrder() : Order();
    }
    return it->second;
  };
  for (const Expr* e : fusion->exprs()) {
    const Order permutation = permutationBy(e);
    const bool is_candidate = e->kind() == ExprKind::ElementwiseOp || !permutation.empty();
    if (!is_candidate || !e->output(0)->isTensor()) {
      continue;
    }
    auto* out = e->output(0)->as<TensorView>();
    const auto& logical = out->getLogicalDomain();
    if (out->isFusionOutput() || out->domain()->hasAllocation() ||
        (out->hasRoot() && permutation.empty()) || isUpdatedInPlace(out) || isSeenInMemory(out) ||
        !hasAllElements(out)) {
      continue;
    }
    // The first operand that has all elements decides.
    for (const TensorView* in : tensorInputs(e)) {
      if (const Order& found = order(in); !found.empty()) {
        Order own;
        TensorDomain::Ids memory;
        for (const size_t d : found) {
          const auto at = std::ranges::find(permutation, d) - permutation.begin();
          own.push_back(permutation.empty() ? d : static_cast<size_t>(at));
          memory.push_back(logical.at(own.back()));
        }
        if (!permutation.empty() || permuted.count(in) != 0) {
          if (isReadByRows(out) || meetsAnotherOrder(out, own)) {
            break;
          }
          permuted.insert(out);
        }
        out->setAllocationDomain(memory, true);
        break;
      }
    }
  }
}

} // namespace nvfuser
