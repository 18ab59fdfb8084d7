// SPDX-License-Identifier: BSD-3-Clause
// A value is computed on the axes that it depends on: f(broadcast(x), broadcast(y)) becomes
// broadcast(f(x, y)) where both are broadcast along the same dimensions. What is left after the
// broadcast would be computed for each element of the tensor that it meets. Expanding is of use
// only where no other operand has the loops: there it goes too. What is squeezed is computed
// without the dimensions that go, from where they came from on.
#include <preseg_passes/canonical_form.h>

#include <ir/builder.h>
#include <ops/elementwise.h>
#include <ops/shape.h>
#include <ops/shape_internal.h>
#include <preseg_passes/rewriter.h>
#include <transform/cache.h>

#include <algorithm>
#include <map>
#include <unordered_map>

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
    if (e->kind() == ExprKind::SqueezeOp) {
      beforeSqueezing(static_cast<SqueezeOp*>(e));
      return;
    }
    if (e->kind() != ExprKind::ElementwiseOp || !e->output(0)->isTensor()) {
      return;
    }
    const auto* op = static_cast<const ElementwiseOp*>(e);
    auto* out = op->out()->as<TensorView>();
    TensorView* by = beforeBroadcasts(op, out);
    if (by == nullptr) {
      by = beforeReshape(op, out);
    }
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

  // A reshape of what was repeated, such as a mask of groups seen as one of their elements: of one
  // operand, as others have dimensions of their own. Null if it is none.
  TensorView* beforeReshape(const ElementwiseOp* op, TensorView* out) {
    const auto isTensor = [](const Val* v) { return v->isTensor(); };
    if (std::count_if(op->inputs().begin(), op->inputs().end(), isTensor) != 1) {
      return nullptr;
    }
    auto* viewed =
        (*std::find_if(op->inputs().begin(), op->inputs().end(), isTensor))->as<TensorView>();
    Expr* reshape = viewed->definition();
    if (reshape == nullptr || reshape->kind() != ExprKind::ReshapeOp ||
        viewed->uses().size() != 1 || viewed->isFusionOutput() ||
        viewed->domain()->hasAllocation()) {
      return nullptr;
    }
    // A copy gives what is expanded the dimensions of a tensor that is.
    Expr* copy = reshape->input(0)->definition();
    auto* repeated = reshape->input(0)->as<TensorView>();
    if (copy != nullptr && isPlainCopy(copy)) {
      repeated = copy->input(0)->as<TensorView>();
    } else {
      copy = nullptr;
    }
    const std::optional<Spread> spread = spreadOf(repeated);
    if (!spread.has_value() || beforeExpanding(repeated) == repeated) {
      return nullptr;
    }
    std::vector<Val*> operands = op->inputs();
    std::replace(operands.begin(), operands.end(), static_cast<Val*>(viewed),
                 static_cast<Val*>(spread->source));
    auto* narrow = make(op->op(), out->dtype(), operands, out)->as<TensorView>();
    TensorView* wide = expandedLike(repeated, broadcast(narrow, spread->flags));
    if (copy != nullptr) {
      wide = copyTo(copy, wide, out->dtype());
    }
    return copyTo(reshape, wide, out->dtype());
  }

  // The same operation of another tensor and type.
  TensorView* copyTo(Expr* e, TensorView* in, DataType dtype) const {
    auto* old = e->output(0)->as<TensorView>();
    auto* out = IrBuilder::create<TensorView>(newTensorLike(old)->domain(), dtype);
    copyExprWith(fusion_, e, {{e->input(0), in}, {old, out}});
    return out;
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

  // `left_out`: dimensions that `by` has not.
  static TensorView* expandedLike(const TensorView* tv, TensorView* by,
                                  const std::vector<bool>& left_out = {}) {
    auto ids = logicalIds(tv);
    size_t at = 0;
    std::erase_if(ids, [&](const IterDomain*) { return !left_out.empty() && left_out[at++]; });
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

  // ---- squeezes

  // The others who read what is squeezed read the broadcast of the same values, so that none of
  // them is computed in loops over dimensions that the squeezed one has not. Nobody has loops over
  // what is not expanded.
  void beforeSqueezing(const SqueezeOp* e) {
    auto* in = e->input(0)->as<TensorView>();
    const auto dims = logicalIds(in);
    const bool leaves_loops = [&] {
      for (size_t d = 0; d < dims.size(); ++d) {
        if (e->isSqueezeDim()[d] && dims[d]->hasExpandedExtent()) {
          return true;
        }
      }
      return false;
    }();
    if (!leaves_loops) {
      return;
    }
    TensorView* narrow = without(in, e->isSqueezeDim());
    const Expr* made = narrow->definition();
    if (made != nullptr && made->kind() == ExprKind::SqueezeOp && made->input(0) == in) {
      return; // the dimensions come from there
    }
    replace(e->output(0)->as<TensorView>(), narrow);
    if (!in->isFusionOutput() && !spreadOf(in).has_value()) {
      replace(in, expandedLike(in, broadcast(narrow, e->isSqueezeDim())));
    }
  }

  // The values of a tensor without some of its dimensions, which are broadcast.
  TensorView* without(TensorView* tv, const std::vector<bool>& dims) {
    if (std::none_of(dims.begin(), dims.end(), [](bool b) { return b; })) {
      return tv;
    }
    TensorView*& known = without_[{tv, dims}];
    if (known == nullptr) {
      TensorView* made = tv->domain()->hasAllocation() ? nullptr : madeWithout(tv, dims);
      if (made == nullptr) {
        made = squeeze(tv, dims, /*squeeze_expanded=*/true);
      }
      if (made->sourceLocation().empty()) {
        made->setSourceLocation(tv->sourceLocation());
      }
      known = made;
    }
    return known;
  }

  // Null if the dimensions come from there.
  TensorView* madeWithout(TensorView* tv, const std::vector<bool>& dims) {
    Expr* e = tv->definition();
    if (e == nullptr) {
      return nullptr;
    }
    switch (e->kind()) {
      case ExprKind::ElementwiseOp: {
        std::vector<Val*> operands;
        for (Val* in : e->inputs()) {
          operands.push_back(in->isTensor() ? without(in->as<TensorView>(), dims) : in);
        }
        return make(static_cast<const ElementwiseOp*>(e)->op(), tv->dtype(), operands, tv)
            ->as<TensorView>();
      }
      case ExprKind::ExpandOp:
        return expandedLike(tv, without(e->input(0)->as<TensorView>(), dims), dims);
      case ExprKind::SqueezeOp:
        return without(e->input(0)->as<TensorView>(),
                       together(static_cast<const SqueezeOp*>(e)->isSqueezeDim(), dims));
      case ExprKind::BroadcastOp:
        return broadcastWithout(static_cast<const BroadcastOp*>(e), dims);
      case ExprKind::LoadStoreOp:
        return isPlainCopy(e) ? without(e->input(0)->as<TensorView>(), dims)
                              : permutedWithout(e, dims);
      default:
        return nullptr;
    }
  }

  // Dimensions that go, and of the others those that go after that.
  static std::vector<bool> together(std::vector<bool> first, const std::vector<bool>& then) {
    size_t at = 0;
    for (auto&& goes : first) {
      goes = goes || then[at++];
    }
    return first;
  }

  TensorView* broadcastWithout(const BroadcastOp* e, const std::vector<bool>& dims) {
    std::vector<bool> of_source;
    std::vector<bool> left;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!e->isBroadcastDim()[d]) {
        of_source.push_back(dims[d]);
      }
      if (!dims[d]) {
        left.push_back(e->isBroadcastDim()[d]);
      }
    }
    return broadcastUnlessNone(without(e->input(0)->as<TensorView>(), of_source), left);
  }

  TensorView* permutedWithout(const Expr* e, const std::vector<bool>& dims) {
    const std::vector<int64_t> order = permutationOf(e);
    if (order.empty()) {
      return nullptr;
    }
    std::vector<bool> of_source(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      of_source[static_cast<size_t>(order[d])] = dims[d];
    }
    std::vector<int64_t> left;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!dims[d]) {
        left.push_back(order[d] -
                       std::count(of_source.begin(), of_source.begin() + order[d], true));
      }
    }
    TensorView* source = without(e->input(0)->as<TensorView>(), of_source);
    return std::is_sorted(left.begin(), left.end()) ? source : ops_utils::permuteTo(source, left);
  }

  // ---- expanding

  // What a reshape makes of dimensions that were all new, such as the gradient of a mean over
  // pixels in one dimension, is a broadcast along what they became. Null if it is none.
  static TensorView* beforeReshaping(Val* v) {
    const auto* reshape = tryAs<ReshapeOp>(v->definition());
    if (reshape == nullptr) {
      return nullptr;
    }
    auto* in = reshape->input(0)->as<TensorView>();
    if (in->definition() != nullptr && isPlainCopy(in->definition())) {
      in = in->definition()->input(0)->as<TensorView>();
    }
    const std::optional<Spread> spread = spreadOf(in);
    if (!spread.has_value()) {
      return nullptr;
    }
    const auto flags = newDimensions(in, spread->flags, v->as<TensorView>());
    return flags.has_value() ? broadcast(spread->source, *flags) : nullptr;
  }

  // Of the sizes that a reshape gives; nullopt: some are made of old dimensions and new ones, or
  // are not known.
  static std::optional<std::vector<bool>> newDimensions(const TensorView* in,
                                                        const std::vector<bool>& is_new,
                                                        const TensorView* reshaped) {
    const auto dims = logicalIds(in);
    const auto sizes = logicalIds(reshaped);
    std::vector<bool> flags;
    const auto takeNew = [&](int64_t elements) { // dimensions with so many
      while (flags.size() < sizes.size()) {
        const Val* size = sizes[flags.size()]->getMaybeExpandedExtent();
        if (!size->isConstInt() || size->intValue() == 0 || elements % size->intValue() != 0 ||
            (elements == 1 && size->intValue() != 1)) {
          break;
        }
        elements /= size->intValue();
        flags.push_back(true);
      }
      return elements == 1;
    };
    for (size_t d = 0; d < dims.size();) {
      if (!is_new[d]) {
        const Val* size = dims[d++]->getMaybeExpandedExtent();
        if (flags.size() == sizes.size() ||
            !size->sameAs(sizes[flags.size()]->getMaybeExpandedExtent())) {
          return std::nullopt;
        }
        flags.push_back(false);
        continue;
      }
      int64_t elements = 1;
      for (; d < dims.size() && is_new[d]; ++d) {
        const Val* size = dims[d]->getMaybeExpandedExtent();
        if (!size->isConstInt() || size->intValue() == 0) {
          return std::nullopt;
        }
        elements *= size->intValue();
      }
      if (!takeNew(elements)) {
        return std::nullopt;
      }
    }
    return flags.size() == sizes.size() ? std::optional(flags) : std::nullopt;
  }

  Val* withoutLoops(Val* v) {
    if (!v->isTensor()) {
      return v;
    }
    const auto [known, is_new] = narrow_.try_emplace(v, nullptr);
    if (is_new) {
      TensorView* before = beforeReshaping(v);
      known->second = before == nullptr ? beforeExpanding(v) : before;
    }
    return known->second;
  }

  // Another operand has loops wherever one is expanded, or none has, and the result is expanded.
  void withoutExpanding(const ElementwiseOp* op, TensorView* out) {
    std::vector<Val*> operands;
    for (Val* in : op->inputs()) {
      operands.push_back(withoutLoops(in));
    }
    if (operands == op->inputs()) {
      return;
    }
    const auto ids = logicalIds(out);
    for (size_t d = 0; d < ids.size(); ++d) {
      const auto hasLoop = [&](const Val* v) {
        return v->isTensor() && logicalIds(v)[d]->isIteration();
      };
      if (!ids[d]->isBroadcast() && std::none_of(operands.begin(), operands.end(), hasLoop)) {
        return;
      }
    }
    auto* narrow = elementwiseAsIs(op->op(), out->dtype(), operands)->as<TensorView>();
    replace(out, expandedLike(out, narrow));
  }

  std::map<std::pair<TensorView*, std::vector<bool>>, TensorView*> without_;
  std::unordered_map<Val*, Val*> narrow_; // operands without loops over what they are expanded to
};

} // namespace

void computeBeforeBroadcasts(Fusion* fusion) {
  Sinker(fusion).run();
}

} // namespace nvfuser
