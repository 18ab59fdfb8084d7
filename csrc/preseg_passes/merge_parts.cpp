// SPDX-License-Identifier: BSD-3-Clause
// A concatenation of all the parts that dimensions are split into is a permutation:
//
//   cat(x[:, 0::2], x[:, 1::2], dim=-1)    ->    x of [n / 2, 2, d] as [n / 2, 2 * d]
//
// which is a view, read once and by vectors. So downsampling layers put pixels side by side (the
// patch merging of Swin), and their gradients put the parts of rows back as pixels: stacks of
// stacks. Elements of the innermost dimension that are parts of their own stay parts: the
// permutation would be read across.
#include <preseg_passes/canonical_form.h>

#include <ir/exprs.h>
#include <ops/shape.h>
#include <ops/shape_internal.h>
#include <ops/utils.h>
#include <preseg_passes/parts_of_tensors.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>

namespace nvfuser {

namespace {

class PartMerger : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  void rewrite(Expr* e) override {
    if (e->kind() != ExprKind::CatOp) {
      return;
    }
    const auto part = finder_.joinedBy(static_cast<const CatOp*>(e));
    if (TensorView* whole = part.has_value() ? merged(*part) : nullptr) {
      replace(e->output(0)->as<TensorView>(), whole);
    }
  }

  // Null if a size is 1.
  static TensorView* viewedAs(TensorView* tv, const std::vector<Val*>& shape) {
    const std::vector<IterDomain*> ids = logicalIds(tv);
    const bool is_same = std::equal(
        ids.begin(), ids.end(), shape.begin(), shape.end(),
        [](const IterDomain* id, const Val* size) { return id->extent()->sameAs(size); });
    return is_same ? tv : ops_utils::constantReshape(tv, shape);
  }

  // All of the source in other places. Null if it is not all, would be read across, or a size is 1.
  static TensorView* merged(const Part& part) {
    const Part::Factors order = part.orderOfAll();
    if (order.empty()) {
      return nullptr;
    }
    std::vector<Val*> shape;
    std::vector<bool> is_one;
    for (const Part::Factors& dim : part.dims) {
      is_one.push_back(dim.empty());
      if (!dim.empty()) {
        shape.push_back(IrBuilder::index(productOf(part.extentsOf(dim))));
      }
    }
    std::vector<Val*> split;
    for (const Part::Factor& factor : part.factors) {
      split.push_back(IrBuilder::index(factor.extent));
    }
    TensorView* whole = part.source;
    if (!std::ranges::is_sorted(order)) {
      whole = viewedAs(whole, split);
      whole = whole == nullptr ? nullptr : permute(whole, {order.begin(), order.end()});
    }
    whole = whole == nullptr ? nullptr : viewedAs(whole, shape);
    const bool has_ones = std::ranges::find(is_one, true) != is_one.end();
    return whole != nullptr && has_ones ? broadcast(whole, is_one) : whole;
  }

  PartFinder finder_;
};

class PartSlicer : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  void rewrite(Expr* e) override {
    if (e->kind() == ExprKind::SqueezeOp) {
      auto* out = e->output(0)->as<TensorView>();
      if (TensorView* slice = sliceOf(finder_.partOf(out))) {
        replace(out, slice);
      }
    }
  }

  // Null if the part is anything else, or all.
  static TensorView* sliceOf(const Part& part) {
    const std::vector<IterDomain*> ids =
        part.source == nullptr ? std::vector<IterDomain*>() : logicalIds(part.source);
    if (ids.size() != part.dims.size()) {
      return nullptr;
    }
    Extents starts;
    Extents stops;
    bool is_all = true;
    size_t next = 0;
    for (size_t d = 0; d < ids.size(); ++d) {
      Part::Factors rest;
      int64_t number = 0;
      for (int64_t left = *constInt(ids[d]->extent()); left > 1; ++next) {
        const Part::Factor& factor = part.factors[next];
        left /= factor.extent;
        if (!factor.taken.has_value()) {
          rest.push_back(next);
        } else if (rest.empty()) {
          number = number * factor.extent + *factor.taken;
          is_all = false;
        } else {
          return nullptr;
        }
      }
      if (rest.empty() || rest != part.dims[d]) {
        return nullptr;
      }
      const int64_t width = productOf(part.extentsOf(rest));
      starts.push_back(number * width);
      stops.push_back((number + 1) * width);
    }
    return is_all ? nullptr : slice(part.source, starts, stops);
  }

  PartFinder finder_;
};

} // namespace

void mergeParts(Fusion* fusion) {
  PartMerger(fusion).run();
  PartSlicer(fusion).run();
}

} // namespace nvfuser
