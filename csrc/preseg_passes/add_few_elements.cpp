// SPDX-License-Identifier: BSD-3-Clause
// A reduction of a few elements is an operation on parts: sum(x[n, 2]) becomes x[n, 0] + x[n, 1].
// What it is computed of is then computed of parts of inputs, and it shares the kernel of what is
// reduced along other dimensions, or of nothing that is reduced. That is so where nothing else
// needs all of what it reduces, as two gates whose softmax is two numbers for each channel. The sum
// of what was stacked is a sum of what it was stacked of.
#include <preseg_passes/passes.h>

#include <ir/builder.h>
#include <ir/logical_map.h>
#include <ir/op_traits.h>
#include <ir/visitor.h>
#include <ops/shape.h>
#include <preseg_passes/rewriter.h>
#include <transform/replay.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace nvfuser {

namespace {

// Parts that each operation is computed for, and those of what is stacked.
constexpr int64_t kMostElements = 4;
constexpr int64_t kMostStacked = 16;
// That are computed for one part.
constexpr size_t kMostTensors = 16;

using Dims = std::set<size_t>; // positions in the logical domain

int64_t elementsOf(const TensorView* tv, const Dims& dims) {
  const auto ids = logicalIds(tv);
  int64_t elements = 1;
  for (const size_t d : dims) {
    elements *= ids[d]->extent()->intValue();
  }
  return elements;
}

// Of a reduction's operand; empty if there are many elements.
Dims fewReducedDims(const Expr* e) {
  Dims dims;
  const auto* op = tryAs<ReductionOp>(e);
  if (op == nullptr || op->in()->dtype() != op->out()->dtype()) {
    return dims;
  }
  const auto in = logicalIds(op->in());
  const auto to_in = PairwiseLogicalMap(op->in(), op->out()).consumerToProducer();
  for (IterDomain* id : op->out()->getMaybeRootDomain()) {
    if (!id->isReduction()) {
      continue;
    }
    const IterDomain* reduced = to_in.at(id);
    if (reduced->isBroadcast() || !reduced->extent()->isConstInt()) {
      return {};
    }
    dims.insert(static_cast<size_t>(std::find(in.begin(), in.end(), reduced) - in.begin()));
  }
  const int64_t elements = elementsOf(op->in(), dims);
  return elements > 1 && elements <= kMostStacked ? dims : Dims{};
}

// Reductions whose operands are computed of inputs element by element, and for nothing else.
class FewElements {
 public:
  explicit FewElements(const Fusion* fusion) {
    for (Expr* e : fusion->exprs()) {
      const Dims dims = fewReducedDims(e);
      if (!dims.empty()) {
        auto* operand = e->input(0)->as<TensorView>();
        Operands& operands = candidates_[e->output(0)];
        follow(operand, dims, operands);
        operands.are_followed &=
            !operands.have_inputs || elementsOf(operand, dims) <= kMostElements;
      }
    }
    do {
      operands_.clear();
      for (const auto& [reduced, operands] : candidates_) {
        for (const auto& [tv, dims] : operands.dims_of) {
          operands_.insert(tv);
        }
      }
    } while (
        std::erase_if(candidates_, [&](const auto& c) { return !isAlone(c.first, c.second); }) > 0);
  }

  bool contains(const Val* reduced) const {
    return candidates_.count(reduced) != 0;
  }
  bool empty() const {
    return candidates_.empty();
  }

 private:
  // Tensors with the reduced dimensions.
  struct Operands {
    std::unordered_map<const TensorView*, Dims> dims_of;
    bool are_followed = true; // to inputs or what is stacked, through single elements
    bool have_inputs = false;
  };

  static bool isStack(const Expr* e, const Dims& dims) {
    const auto* cat = tryAs<CatOp>(e);
    if (cat == nullptr || dims != Dims{static_cast<size_t>(cat->dim())}) {
      return false;
    }
    int64_t position = 0;
    return std::ranges::all_of(cat->inputs(),
                               [&](const Val*) { return stackedAt(cat, position++) != nullptr; });
  }

  static void follow(TensorView* tv, const Dims& dims, Operands& found) {
    const auto [known, is_new] = found.dims_of.emplace(tv, dims);
    if (!is_new || found.dims_of.size() > kMostTensors) {
      found.are_followed = found.are_followed && !is_new && known->second == dims;
      return;
    }
    const Expr* e = tv->definition();
    found.have_inputs = found.have_inputs || tv->isFusionInput();
    if (tv->isFusionInput() || isStack(e, dims)) {
      return;
    }
    if (e == nullptr || !isByPosition(e) || e->kind() == ExprKind::ExpandOp ||
        tv->isFusionOutput()) {
      found.are_followed = false;
      return;
    }
    const auto own = logicalIds(tv);
    for (TensorView* in : tensorInputs(e)) {
      const auto to_in = PairwiseLogicalMap(in, tv).consumerToProducer();
      const auto ids = logicalIds(in);
      Dims of_in;
      for (const size_t d : dims) {
        const auto it = to_in.find(own[d]);
        if (it != to_in.end() && !it->second->isBroadcast()) {
          of_in.insert(
              static_cast<size_t>(std::find(ids.begin(), ids.end(), it->second) - ids.begin()));
        }
      }
      if (!of_in.empty()) {
        follow(in, of_in, found);
      }
    }
  }

  // What lies in memory is read by others too, if nothing is computed of both.
  bool isAlone(const Val* reduced, const Operands& operands) const {
    if (!operands.are_followed) {
      return false;
    }
    std::vector<const Val*> of_others;
    for (const auto& [tv, dims] : operands.dims_of) {
      for (const Expr* use : tv->uses()) {
        if (isOfCandidate(use)) {
          continue;
        }
        if (!isSeenInput(tv)) {
          return false;
        }
        of_others.insert(of_others.end(), use->outputs().begin(), use->outputs().end());
      }
    }
    if (of_others.empty()) {
      return true;
    }
    const auto dependents = dependentsOf({reduced});
    return std::ranges::none_of(dependentsOf(std::move(of_others)),
                                [&](const Val* v) { return dependents.count(v) != 0; });
  }

  // An input with its dimensions in another order or with broadcast ones.
  static bool isSeenInput(const TensorView* tv) {
    while (!tv->isFusionInput()) {
      const Expr* e = tv->definition();
      const bool is_seen = e->kind() == ExprKind::BroadcastOp || e->kind() == ExprKind::SqueezeOp ||
                           (e->kind() == ExprKind::LoadStoreOp && tv->hasRoot());
      if (!is_seen || tv->isFusionOutput()) {
        return false;
      }
      tv = e->input(0)->as<TensorView>();
    }
    return true;
  }

  // With the values themselves.
  static std::unordered_set<const Val*> dependentsOf(std::vector<const Val*> values) {
    std::unordered_set<const Val*> found;
    while (!values.empty()) {
      const Val* v = values.back();
      values.pop_back();
      if (found.insert(v).second) {
        for (const Expr* use : v->uses()) {
          values.insert(values.end(), use->outputs().begin(), use->outputs().end());
        }
      }
    }
    return found;
  }

  // It makes what one of them reduces, or reduces it.
  bool isOfCandidate(const Expr* use) const {
    return contains(use->output(0)) || operands_.count(use->output(0)) != 0;
  }

  std::unordered_map<const Val*, Operands> candidates_; // by the result
  std::unordered_set<const Val*> operands_;             // of all of them
};

class Adder : public Rewriter {
 public:
  Adder(Fusion* fusion, const FewElements& few) : Rewriter(fusion), few_(few) {}

 private:
  void rewrite(Expr* e) override {
    if (!few_.contains(e->output(0))) {
      return;
    }
    const Dims dims = fewReducedDims(e);
    const auto* op = static_cast<const ReductionOp*>(e);
    Val* sum = nullptr;
    for (TensorView* part : partsOf(op->in(), dims)) {
      sum = sum == nullptr ? part : make(op->op(), op->out()->dtype(), {sum, part}, op->out());
    }
    replace(op->out(), sum->as<TensorView>());
  }

  // Of one position along each of the dimensions, in the order of the elements.
  static std::vector<TensorView*> partsOf(TensorView* tv, const Dims& dims) {
    const auto ids = logicalIds(tv);
    std::vector<bool> is_squeezed(ids.size());
    std::vector<std::vector<int64_t>> positions{{}};
    for (const size_t d : dims) {
      is_squeezed[d] = true;
      std::vector<std::vector<int64_t>> longer;
      for (const auto& position : positions) {
        for (int64_t i = 0; i < ids[d]->extent()->intValue(); ++i) {
          longer.push_back(position);
          longer.back().push_back(i);
        }
      }
      positions = std::move(longer);
    }
    std::vector<TensorView*> parts;
    for (const auto& position : positions) {
      std::vector<Val*> starts(ids.size(), tv->container()->zeroVal());
      std::vector<Val*> stops;
      for (const IterDomain* id : ids) {
        stops.push_back(id->getMaybeExpandedExtent());
      }
      auto at = position.begin();
      for (const size_t d : dims) {
        starts[d] = IrBuilder::index(*at);
        stops[d] = IrBuilder::index(*at++ + 1);
      }
      TensorView* part = slice(tv, starts, stops, {}, /*manual_normalization=*/true);
      parts.push_back(squeeze(part, is_squeezed));
    }
    return parts;
  }

  const FewElements& few_;
};

} // namespace

bool addFewElements(Fusion* fusion) {
  const FewElements few(fusion);
  if (few.empty()) {
    return false;
  }
  Adder(fusion, few).run();
  fusion->removeDeadUses();
  return true;
}

} // namespace nvfuser
