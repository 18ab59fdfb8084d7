// SPDX-License-Identifier: BSD-3-Clause
// Views of inputs.
#include <executor/output_views.h>

#include <base/error.h>
#include <ir/op_traits.h>

#include <algorithm>

namespace nvfuser {
namespace {

int64_t strideBefore(const TensorLayout& layout, size_t d) {
  return d < layout.sizes.size() ? layout.sizes[d] * layout.strides[d] : 1;
}

void insertDimension(TensorLayout& to, const TensorLayout& from, size_t next) {
  to.sizes.push_back(1);
  to.strides.push_back(strideBefore(from, next));
}

class ViewBuilder {
 public:
  ViewBuilder(ViewLayout start, ScalarEvaluator& evaluator)
      : view_(std::move(start)), evaluator_(evaluator) {}

  bool apply(const Expr* e) {
    const auto* out = e->output(0)->as<TensorView>();
    switch (e->kind()) {
      case ExprKind::LoadStoreOp:
        return permute(out);
      case ExprKind::BroadcastOp: {
        TensorLayout to;
        size_t next = 0;
        for (bool inserted : static_cast<const BroadcastOp*>(e)->isBroadcastDim()) {
          if (inserted) {
            insertDimension(to, view_.layout, next);
          } else {
            copyDimension(to, next++);
          }
        }
        view_.layout = std::move(to);
        return true;
      }
      case ExprKind::SqueezeOp: {
        TensorLayout to;
        const std::vector<bool>& removed = static_cast<const SqueezeOp*>(e)->isSqueezeDim();
        for (size_t d = 0; d < removed.size(); ++d) {
          if (!removed[d]) {
            copyDimension(to, d);
          }
        }
        view_.layout = std::move(to);
        return true;
      }
      case ExprKind::ExpandOp: {
        const Shape sizes = logicalSizes(out, evaluator_);
        for (size_t d = 0; d < sizes.size(); ++d) {
          if (sizes[d] != view_.layout.sizes[d]) {
            view_.layout.sizes[d] = sizes[d];
            view_.layout.strides[d] = 0;
          }
        }
        return true;
      }
      case ExprKind::SliceOp:
        return slice(out);
      case ExprKind::ReshapeOp: {
        const Shape sizes = logicalSizes(out, evaluator_);
        auto strides = reshapeStrides(view_.layout, sizes);
        if (!strides.has_value()) {
          return false;
        }
        view_.layout = {sizes, *strides};
        return true;
      }
      default:
        return false;
    }
  }

  // The memory order that a tensor was given explicitly must be the one it has.
  bool hasAllocationOrder(const TensorView* tv) {
    if (!tv->domain()->isOrderGiven()) {
      return true;
    }
    const TensorLayout dense = denseLayout(tv, evaluator_);
    for (size_t d = 0; d < dense.sizes.size(); ++d) {
      if (dense.sizes[d] > 1 && dense.strides[d] != view_.layout.strides[d]) {
        return false;
      }
    }
    return true;
  }

  ViewLayout take() {
    return std::move(view_);
  }

 private:
  void copyDimension(TensorLayout& to, size_t d) const {
    to.sizes.push_back(view_.layout.sizes[d]);
    to.strides.push_back(view_.layout.strides[d]);
  }

  bool permute(const TensorView* out) {
    if (!out->hasRoot()) {
      return true;
    }
    const std::vector<IterDomain*>& root = out->getRootDomain();
    TensorLayout to;
    for (const IterDomain* id : out->getLogicalDomain()) {
      auto it = std::find(root.begin(), root.end(), id);
      if (it == root.end()) {
        return false;
      }
      copyDimension(to, static_cast<size_t>(it - root.begin()));
    }
    view_.layout = std::move(to);
    return true;
  }

  bool slice(const TensorView* out) {
    const std::vector<IterDomain*>& logical = out->getLogicalDomain();
    for (size_t d = 0; d < logical.size(); ++d) {
      const auto* resize = tryAs<Resize>(logical[d]->definition());
      const int64_t size = evaluator_.evaluateInt(logical[d]->getMaybeExpandedExtent());
      if (resize == nullptr) {
        // Not sliced, or expanded: then its stride is 0 and any part is like any other.
        view_.layout.sizes[d] = size;
        continue;
      }
      const int64_t left = evaluator_.evaluateInt(resize->left());
      if (left > 0 || size - left > view_.layout.sizes[d]) {
        return false;
      }
      view_.offset += -left * view_.layout.strides[d];
      view_.layout.sizes[d] = size;
    }
    return true;
  }

  ViewLayout view_;
  ScalarEvaluator& evaluator_;
};

} // namespace

std::optional<ViewChain> findViewChain(const Fusion* fusion, const TensorView* out) {
  ViewChain chain;
  const TensorView* tv = out;
  while (!tv->isFusionInput()) {
    const Expr* e = tv->definition();
    if (e == nullptr || !movesElements(e) || tv->dtype() == DataType::Float4_e2m1fn) {
      return std::nullopt;
    }
    chain.exprs.push_back(e);
    tv = e->input(0)->as<TensorView>();
  }
  if (tv->isCpuScalar()) {
    return std::nullopt;
  }
  std::reverse(chain.exprs.begin(), chain.exprs.end());
  const std::vector<Val*>& inputs = fusion->inputs();
  chain.input = static_cast<int>(std::find(inputs.begin(), inputs.end(), tv) - inputs.begin());
  return chain;
}

std::optional<ViewLayout> layoutOfView(const ViewChain& chain, const TensorView* out,
                                       const ArgView& input, ScalarEvaluator& evaluator) {
  ViewLayout start;
  start.layout = {Shape(input.sizeSpan()), Shape(input.strideSpan())};
  ViewBuilder builder(std::move(start), evaluator);
  for (const Expr* e : chain.exprs) {
    if (!builder.apply(e)) {
      return std::nullopt;
    }
  }
  if (!builder.hasAllocationOrder(out)) {
    return std::nullopt;
  }
  ViewLayout view = builder.take();
  // Where an expanded dimension of size 0 was squeezed there is no memory to look at.
  if (view.layout.numel() != 0 && std::ranges::count(input.sizeSpan(), 0) != 0) {
    return std::nullopt;
  }
  return view;
}

// Groups of input dimensions that are contiguous to each other are cut into output dimensions from
// the inside out. (The rule is that of torch's Tensor.view.)
std::optional<Shape> reshapeStrides(const TensorLayout& from, const Shape& sizes) {
  Shape strides(sizes.size(), 1);
  if (from.numel() == 0) {
    return contiguousStrides(std::span<const int64_t>(sizes.data(), sizes.size()));
  }
  size_t out = sizes.size();
  size_t in = from.sizes.size();
  while (in > 0) {
    // A maximal group of input dimensions ending at `in`.
    int64_t stride = from.strides[in - 1];
    int64_t count = from.sizes[in - 1];
    --in;
    while (in > 0 &&
           (from.sizes[in - 1] == 1 || count == 1 || from.strides[in - 1] == stride * count)) {
      if (from.sizes[in - 1] != 1 && count == 1) {
        stride = from.strides[in - 1];
      }
      count *= from.sizes[in - 1];
      --in;
    }
    int64_t taken = 1;
    while (out > 0 && (taken < count || sizes[out - 1] == 1)) {
      strides[out - 1] = taken * stride;
      taken *= sizes[out - 1];
      --out;
    }
    if (taken != count) {
      return std::nullopt;
    }
  }
  while (out > 0) {
    // Only ones are left.
    if (sizes[--out] != 1) {
      return std::nullopt;
    }
    strides[out] = out + 1 < sizes.size() ? strides[out + 1] * sizes[out + 1] : 1;
  }
  return strides;
}

} // namespace nvfuser
