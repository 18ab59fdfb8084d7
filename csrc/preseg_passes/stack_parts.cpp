// SPDX-License-Identifier: BSD-3-Clause
// A concatenation whose parts a reshape gives a dimension of their own is a stack of them:
//
//   reshape(cat(a[n, d], b[n, d], dim=1), [n, 2, d])    ->    cat(a[n, 1, d], b[n, 1, d], dim=1)
//
// So torch spells a stack along all dimensions but the last. What takes single parts, or reduces
// the dimension, then finds them. What is returned is written part by part either way.
#include <preseg_passes/canonical_form.h>

#include <ir/exprs.h>
#include <ir/logical_map.h>
#include <ops/shape.h>
#include <ops/shape_internal.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>

namespace nvfuser {

namespace {

class PartStacker : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  void rewrite(Expr* e) override {
    const auto* cat_op =
        e->kind() == ExprKind::ReshapeOp ? tryAs<CatOp>(e->input(0)->definition()) : nullptr;
    auto* stacked = e->output(0)->as<TensorView>();
    if (cat_op == nullptr || stacked->isFusionOutput()) {
      return;
    }
    std::vector<TensorView*> parts = ops_utils::joinedBy(cat_op);
    const auto dim = static_cast<size_t>(cat_op->dim());
    if (parts.size() < 2 || !splitsInto(parts, e, dim)) {
      return;
    }
    std::vector<bool> is_new(stacked->getLogicalDomain().size());
    is_new[dim] = true;
    for (TensorView*& part : parts) {
      part = broadcast(part, is_new);
    }
    replace(stacked, cat(parts, cat_op->dim()));
  }

  // The reshape splits this dimension, and no other, so that each part is one of its elements.
  static bool splitsInto(const std::vector<TensorView*>& parts, const Expr* reshape, size_t dim) {
    const auto dims = logicalIds(reshape->output(0));
    const auto pieces = piecesOf(logicalIds(reshape->input(0)), dims);
    for (size_t d = 0; d < pieces.size(); ++d) {
      if (pieces[d].size() != (d == dim ? 2 : 1)) {
        return false;
      }
    }
    const auto count = static_cast<int64_t>(parts.size());
    const auto outer =
        pieces.empty() ? std::nullopt : constInt(dims[pieces[dim].front()]->extent());
    const auto inner = pieces.empty() ? std::nullopt : constInt(dims[pieces[dim].back()]->extent());
    return outer == count && inner.has_value() &&
           std::ranges::all_of(parts, [&](const TensorView* part) {
             const IterDomain* id = logicalIds(part)[dim];
             return id->isIteration() && constInt(id->extent()) == inner;
           });
  }
};

} // namespace

void stackParts(Fusion* fusion) {
  PartStacker(fusion).run();
}

} // namespace nvfuser
