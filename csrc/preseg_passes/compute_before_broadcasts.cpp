// SPDX-License-Identifier: BSD-3-Clause
// A value is computed on the axes that it depends on: f(broadcast(x), broadcast(y)) becomes
// broadcast(f(x, y)) where both are broadcast along the same dimensions. What is left after the
// broadcast would be computed for each element of the tensor that it meets. Expanding is of use
// only where no other operand has the loops: there it goes too.
#include <preseg_passes/canonical_form.h>

#include <ir/builder.h>
#include <ops/elementwise.h>
#include <ops/shape.h>
#include <ops/shape_internal.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>

namespace nvfuser {

namespace {

// A tensor as the broadcast of another one, which may be expanded after that.
struct Spread {
  TensorView* source = nullptr;
  std::vector<bool> flags; // of the dimensions that are new
};

class Sinker : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  void rewrite(Expr* e) override {
    if (e->kind() != ExprKind::ElementwiseOp || !e->output(0)->isTensor()) {
      return;
    }
    const auto* op = static_cast<const ElementwiseOp*>(e);
    auto* out = op->out()->as<TensorView>();
    TensorView* by = beforeBroadcasts(op, out);
    if (by == nullptr || !replace(out, by)) {
      withoutExpanding(op, out);
    }
  }

  static Val* beforeExpanding(Val* v) {
    while (v->isTensor() && v->definition() != nullptr &&
           v->definition()->kind() == ExprKind::ExpandOp) {
      v = v->definition()->input(0);
    }
    return v;
  }

  static std::optional<Spread> spreadOf(Val* v) {
    const Expr* e = beforeExpanding(v)->definition();
    if (e == nullptr || e->kind() != ExprKind::BroadcastOp) {
      return std::nullopt;
    }
    return Spread{e->input(0)->as<TensorView>(),
                  static_cast<const BroadcastOp*>(e)->isBroadcastDim()};
  }

  static TensorView* broadcastUnlessNone(TensorView* tv, const std::vector<bool>& flags) {
    const bool any = std::any_of(flags.begin(), flags.end(), [](bool b) { return b; });
    return any ? broadcast(tv, flags) : tv;
  }

  // Null if the operands have no broadcast dimension in common.
  TensorView* beforeBroadcasts(const ElementwiseOp* op, TensorView* out) {
    std::vector<std::optional<Spread>> spreads;
    std::vector<bool> common;
    for (Val* in : op->inputs()) {
      spreads.push_back(in->isTensor() ? spreadOf(in) : std::nullopt);
      if (!in->isTensor()) {
        continue;
      }
      if (!spreads.back().has_value()) {
        return nullptr;
      }
      const std::vector<bool>& flags = spreads.back()->flags;
      common.resize(flags.size(), true);
      for (size_t d = 0; d < flags.size(); ++d) {
        common[d] = common[d] && flags[d];
      }
    }
    if (std::none_of(common.begin(), common.end(), [](bool b) { return b; })) {
      return nullptr;
    }
    std::vector<Val*> operands;
    for (size_t i = 0; i < spreads.size(); ++i) {
      operands.push_back(spreads[i].has_value() ? keepOthers(*spreads[i], common) : op->in(i));
    }
    auto* narrow = make(op->op(), out->dtype(), operands, out)->as<TensorView>();
    return expandedLike(out, broadcast(narrow, common));
  }

  // What is broadcast along the dimensions that are not common.
  static TensorView* keepOthers(const Spread& spread, const std::vector<bool>& common) {
    std::vector<bool> others;
    for (size_t d = 0; d < common.size(); ++d) {
      if (!common[d]) {
        others.push_back(spread.flags[d]);
      }
    }
    return broadcastUnlessNone(spread.source, others);
  }

  static TensorView* expandedLike(const TensorView* tv, TensorView* by) {
    const auto ids = TensorDomain::noReductions(tv->getLogicalDomain());
    if (std::none_of(ids.begin(), ids.end(),
                     [](const IterDomain* id) { return id->hasExpandedExtent(); })) {
      return by;
    }
    std::vector<Val*> shape;
    for (const IterDomain* id : ids) {
      shape.push_back(id->hasExpandedExtent() ? id->expandedExtent() : IrBuilder::index(-1));
    }
    return ops_utils::expandTo(by, shape, /*copy_if_same=*/false);
  }

  // Another operand has loops wherever one is expanded.
  void withoutExpanding(const ElementwiseOp* op, TensorView* out) {
    std::vector<Val*> operands;
    for (Val* in : op->inputs()) {
      operands.push_back(beforeExpanding(in));
    }
    if (operands == op->inputs()) {
      return;
    }
    const auto ids = TensorDomain::noReductions(out->getLogicalDomain());
    for (size_t d = 0; d < ids.size(); ++d) {
      const auto hasLoop = [&](const Val* v) {
        return v->isTensor() &&
               TensorDomain::noReductions(v->as<TensorView>()->getLogicalDomain())[d]
                   ->isIteration();
      };
      if (ids[d]->isBroadcast() ? ids[d]->hasExpandedExtent()
                                : std::none_of(operands.begin(), operands.end(), hasLoop)) {
        return;
      }
    }
    replace(out, elementwiseAsIs(op->op(), out->dtype(), operands)->as<TensorView>());
  }
};

} // namespace

void computeBeforeBroadcasts(Fusion* fusion) {
  Sinker(fusion).run();
}

} // namespace nvfuser
