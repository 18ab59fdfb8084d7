// SPDX-License-Identifier: BSD-3-Clause
// Attention reads heads of keys and values as they are where a definition repeats each of them for
// several heads of queries, which it spells broadcast, expand and reshape: a library takes fewer
// heads, and what is repeated would be written to memory for it. The gradients of the heads, which
// the definition sums over the queries of each, are what the library computes then.
#include <preseg_passes/canonical_form.h>

#include <ir/builder.h>
#include <ops/library.h>
#include <preseg_passes/rewriter.h>
#include <transform/cache.h>

#include <algorithm>
#include <optional>

namespace nvfuser {

namespace {

using Ids = std::vector<IterDomain*>;

Val* sizeOf(const IterDomain* id) {
  return id->getMaybeExpandedExtent();
}

// Heads, positions and elements are the last dimensions.
constexpr size_t kInner = 3;

// The flags are set for dimensions before the last ones alone.
bool areOfBatch(const std::vector<bool>& flags, size_t last) {
  return flags.size() >= last && std::none_of(flags.end() - static_cast<std::ptrdiff_t>(last),
                                              flags.end(), [](bool flag) { return flag; });
}

// What lies before dimensions of size 1 that come or go in front of the last `last` ones, and
// copies; concretization leaves those.
const Val* beforeUnits(const Val* tv, size_t last) {
  while (const Expr* e = tv->definition()) {
    const bool is_unit = [&] {
      switch (e->kind()) {
        case ExprKind::BroadcastOp:
          return areOfBatch(e->as<BroadcastOp>()->isBroadcastDim(), last);
        case ExprKind::SqueezeOp:
          return areOfBatch(e->as<SqueezeOp>()->isSqueezeDim(), last);
        default:
          return isPlainCopy(e);
      }
    }();
    if (!is_unit || tv->as<TensorView>()->domain()->hasAllocation()) {
      return tv;
    }
    tv = e->input(0);
  }
  return tv;
}

// The one dimension, counted from the last one, of `merged` that a reshape makes of two of `split`,
// if that is all it does: `split` may be the operand or the result.
bool mergesHeads(const Ids& split, const Ids& merged) {
  if (split.size() != merged.size() + 1 || merged.size() < kInner) {
    return false;
  }
  const size_t heads = merged.size() - kInner;
  for (size_t d = 0; d < merged.size(); ++d) {
    const IterDomain* other = split[d < heads ? d : d + 1];
    if (d != heads && !sizeOf(merged[d])->sameAs(sizeOf(other))) {
      return false;
    }
  }
  return true;
}

// Both have the same dimensions but for the number of heads.
bool haveOtherHeads(const TensorView* a, const TensorView* b) {
  const Ids of_a = logicalIds(a);
  const Ids of_b = logicalIds(b);
  for (size_t d = 0; d < of_a.size() && of_a.size() == of_b.size(); ++d) {
    if (d + kInner != of_a.size() &&
        (of_a[d]->iterType() != of_b[d]->iterType() || !sizeOf(of_a[d])->sameAs(sizeOf(of_b[d])))) {
      return false;
    }
  }
  return of_a.size() == of_b.size();
}

struct Heads {
  TensorView* tensor; // with each head once
  Val* group;         // how often each is repeated
};

// broadcast [.., G, S, E] -> [.., G, 1, S, E], expand, reshape -> [.., G * n, S, E].
std::optional<Heads> repeatedHeads(const TensorView* operand) {
  const Expr* reshape = beforeUnits(operand, kInner)->definition();
  if (reshape == nullptr || reshape->kind() != ExprKind::ReshapeOp ||
      !mergesHeads(logicalIds(reshape->input(0)), logicalIds(reshape->output(0)))) {
    return std::nullopt;
  }
  const Expr* expand = beforeUnits(reshape->input(0), kInner + 1)->definition();
  if (expand == nullptr || expand->kind() != ExprKind::ExpandOp) {
    return std::nullopt;
  }
  const Val* one = expand->input(0);
  const Expr* broadcast = one->definition();
  if (broadcast == nullptr || broadcast->kind() != ExprKind::BroadcastOp) {
    return std::nullopt;
  }
  std::vector<bool> wanted(logicalIds(one).size(), false);
  wanted[wanted.size() - kInner] = true;
  const Ids expanded = logicalIds(expand->output(0));
  for (size_t d = 0; d < expanded.size(); ++d) {
    if (expanded[d]->hasExpandedExtent() != wanted[d]) {
      return std::nullopt;
    }
  }
  auto* heads = broadcast->input(0)->as<TensorView>();
  if (broadcast->as<BroadcastOp>()->isBroadcastDim() != wanted || !haveOtherHeads(heads, operand) ||
      heads->domain()->hasAllocation()) {
    return std::nullopt;
  }
  return Heads{heads, sizeOf(expanded[expanded.size() - kInner])};
}

class HeadGrouper : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  void rewrite(Expr* e) override {
    const auto* op = tryAs<LibraryOp>(e);
    if (op == nullptr ||
        (op->op() != LibraryOpType::SdpaFwd && op->op() != LibraryOpType::SdpaBwd)) {
      return;
    }
    const bool is_forward = op->op() == LibraryOpType::SdpaFwd;
    const std::vector<Val*> operands = op->operands();
    auto* key = operands[is_forward ? 1 : 2]->as<TensorView>();
    auto* value = operands[is_forward ? 2 : 3]->as<TensorView>();
    const std::optional<Heads> keys = repeatedHeads(key);
    const std::optional<Heads> values = repeatedHeads(value);
    if (!keys.has_value() || !values.has_value() || !keys->group->sameAs(values->group)) {
      return;
    }
    if (is_forward) {
      copyExprWith(fusion_, e, {{key, keys->tensor}, {value, values->tensor}});
    } else {
      groupGradients(e, *keys, *values);
    }
  }

  // The gradients are read as sums over the queries of each head alone.
  void groupGradients(Expr* e, const Heads& keys, const Heads& values) {
    const auto* op = static_cast<const LibraryOp*>(e);
    TensorView* of_key = sumOverQueries(op->output(1)->as<TensorView>(), keys);
    TensorView* of_value = sumOverQueries(op->output(2)->as<TensorView>(), values);
    if (of_key == nullptr || of_value == nullptr) {
      return;
    }
    const std::vector<Val*> v = op->operands();
    const auto tensor = [&](size_t i) { return v[i]->as<TensorView>(); };
    const SdpfaBwdResult grouped =
        sdpfa_bwd(tensor(0), tensor(1), keys.tensor, values.tensor, tensor(4), tensor(5), v[6],
                  v[7], tensor(8), tensor(9), v[10]);
    // The gradient of the query stays the tensor that it is.
    auto* of_query = op->output(0)->as<TensorView>();
    const std::vector<int64_t> attributes = op->attributes();
    const std::vector<Val*> operands =
        static_cast<const LibraryOp*>(grouped.grad_query->definition())->operands();
    fusion_->removeExpr(grouped.grad_query->definition());
    fusion_->removeExpr(e);
    IrBuilder::create<LibraryOp>(
        LibraryOpType::SdpaBwd,
        std::vector<TensorView*>{of_query, grouped.grad_key, grouped.grad_value}, operands,
        attributes);
    replace(of_key, grouped.grad_key);
    replace(of_value, grouped.grad_value);
  }

  // The expression that reads a tensor that nobody else does.
  const Expr* onlyReader(const TensorView* tv) const {
    const std::vector<Expr*> uses = fusion_->liveUses(tv);
    return uses.size() == 1 && !tv->isFusionOutput() ? uses.front() : nullptr;
  }

  // Through what changes no elements.
  const Expr* nextReader(const TensorView* tv, size_t last) const {
    const Expr* e = onlyReader(tv);
    while (e != nullptr && e->outputs().size() == 1 &&
           beforeUnits(e->output(0), last) != e->output(0)) {
      e = onlyReader(e->output(0)->as<TensorView>());
    }
    return e;
  }

  // reshape [.., G * n, S, E] -> [.., G, n, S, E], to float, the sum over n, and back. Null if that
  // is not what becomes of the gradient.
  TensorView* sumOverQueries(const TensorView* gradient, const Heads& heads) const {
    const Expr* reshape = nextReader(gradient, kInner);
    if (reshape == nullptr || reshape->kind() != ExprKind::ReshapeOp ||
        !mergesHeads(logicalIds(reshape->output(0)), logicalIds(reshape->input(0)))) {
      return nullptr;
    }
    const Ids split = logicalIds(reshape->output(0));
    const Expr* widen = nextReader(reshape->output(0)->as<TensorView>(), kInner + 1);
    if (!sizeOf(split[split.size() - kInner])->sameAs(heads.group) || !isCast(widen) ||
        widen->output(0)->dtype() != DataType::Float) {
      return nullptr;
    }
    const Expr* sum = nextReader(widen->output(0)->as<TensorView>(), kInner + 1);
    const auto* op = tryAs<ReductionOp>(sum);
    if (op == nullptr || op->op() != OpType::Add) {
      return nullptr;
    }
    const auto& summed = op->out()->as<TensorView>()->getLogicalDomain();
    for (size_t d = 0; d < summed.size(); ++d) {
      if (summed[d]->isReduction() != (d + kInner == summed.size())) {
        return nullptr;
      }
    }
    const Expr* narrow = nextReader(op->out()->as<TensorView>(), kInner);
    if (!isCast(narrow) || narrow->output(0)->dtype() != gradient->dtype()) {
      return nullptr;
    }
    auto* result = narrow->output(0)->as<TensorView>();
    return haveSameDims(result, heads.tensor) && !result->domain()->hasAllocation() ? result
                                                                                    : nullptr;
  }

  static bool isCast(const Expr* e) {
    return e != nullptr && e->outputs().size() == 1 &&
           definedBy(e->output(0), OpType::Cast) != nullptr;
  }
};

} // namespace

void groupAttentionHeads(Fusion* fusion) {
  HeadGrouper(fusion).run();
}

} // namespace nvfuser
