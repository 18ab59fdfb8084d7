// SPDX-License-Identifier: BSD-3-Clause
// A concatenation of all the parts that dimensions are split into is a permutation:
//
//   cat(x[:, 0::2], x[:, 1::2], dim=-1)    ->    x of [n / 2, 2, d] as [n / 2, 2 * d]
//
// which is a view, read once and by vectors. So downsampling layers put pixels side by side (the
// patch merging of Swin). Elements of the innermost dimension that are parts of their own stay
// parts: the permutation would be read across.
#include <preseg_passes/canonical_form.h>

#include <ir/exprs.h>
#include <ops/shape.h>
#include <ops/shape_internal.h>
#include <ops/utils.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>
#include <optional>

namespace nvfuser {

namespace {

// A part of a tensor whose dimensions are split, and one element taken of some. All sizes are
// known.
struct Part {
  struct Factor {
    int64_t extent = 0;
    std::optional<int64_t> taken = std::nullopt;
    bool is_dim = true; // of the part; one that is taken has size 1 until it is squeezed away
  };
  TensorView* source = nullptr;
  std::vector<Factor> factors = {};

  // Where the dimensions of the part are among the factors.
  std::vector<size_t> dims() const {
    std::vector<size_t> out;
    for (size_t i = 0; i < factors.size(); ++i) {
      if (factors[i].is_dim) {
        out.push_back(i);
      }
    }
    return out;
  }
};

// One element of a dimension, or all.
bool take(Part& part, const SliceOp* slice) {
  const std::vector<size_t> dims = part.dims();
  for (size_t i = 0; i < dims.size(); ++i) {
    Part::Factor& factor = part.factors[dims[i]];
    const auto start = constInt(slice->starts()[i]);
    const auto stop = constInt(slice->stops()[i]);
    if (start == 0 && stop == factor.extent) {
      continue;
    }
    if (!start.has_value() || stop != *start + 1 || factor.taken.has_value()) {
      return false;
    }
    factor.taken = start;
  }
  return !dims.empty();
}

bool leaveOut(Part& part, const SqueezeOp* squeeze) {
  const std::vector<size_t> dims = part.dims();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (squeeze->isSqueezeDim()[i]) {
      if (!part.factors[dims[i]].taken.has_value()) {
        return false;
      }
      part.factors[dims[i]].is_dim = false;
    }
  }
  return !dims.empty();
}

// Each dimension stays or is split into several.
bool split(Part& part, const Expr* reshape) {
  const std::vector<IterDomain*> into = logicalIds(reshape->output(0));
  const auto pieces = piecesOf(logicalIds(reshape->input(0)), into);
  std::vector<Part::Factor> factors;
  size_t dim = 0;
  for (const Part::Factor& factor : part.factors) {
    if (!factor.is_dim) {
      factors.push_back(factor);
      continue;
    }
    if (pieces.empty() || factor.taken.has_value()) {
      return false;
    }
    for (const size_t piece : pieces[dim++]) {
      factors.push_back({*constInt(into[piece]->extent())});
    }
  }
  part.factors = std::move(factors);
  return dim > 0;
}

// The part that a tensor is: of itself, if it is no part of anything.
Part partOf(TensorView* tv) {
  const Expr* e = tv->definition();
  if (e != nullptr && (e->kind() == ExprKind::SliceOp || e->kind() == ExprKind::SqueezeOp ||
                       e->kind() == ExprKind::ReshapeOp)) {
    Part part = partOf(e->input(0)->as<TensorView>());
    const bool follows = e->kind() == ExprKind::SliceOp ? take(part, static_cast<const SliceOp*>(e))
                         : e->kind() == ExprKind::SqueezeOp
                             ? leaveOut(part, static_cast<const SqueezeOp*>(e))
                             : split(part, e);
    if (follows) {
      return part;
    }
  }
  Part whole{tv};
  for (const IterDomain* id : logicalIds(tv)) {
    const auto extent = constInt(id->extent());
    if (!id->isIteration() || !extent.has_value()) {
      return {};
    }
    whole.factors.push_back({*extent});
  }
  return whole;
}

class PartMerger : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  using Factor = Part::Factor;

  void rewrite(Expr* e) override {
    if (e->kind() != ExprKind::CatOp) {
      return;
    }
    const auto* cat = static_cast<const CatOp*>(e);
    std::vector<Part> parts;
    for (TensorView* in : ops_utils::joinedBy(cat)) {
      parts.push_back(partOf(in));
      if (!isLike(parts.back(), parts.front())) {
        return;
      }
    }
    if (parts.empty()) {
      return;
    }
    const std::vector<size_t> order = orderOf(parts);
    const Part& part = parts.front();
    if (order.empty() || part.factors.back().taken.has_value()) {
      return;
    }
    const size_t along = part.dims().at(static_cast<size_t>(cat->dim()));
    if (TensorView* whole = merged(part, order, along)) {
      replace(e->output(0)->as<TensorView>(), whole);
    }
  }

  static bool isLike(const Part& part, const Part& first) {
    return part.source != nullptr && part.source == first.source &&
           std::equal(part.factors.begin(), part.factors.end(), first.factors.begin(),
                      first.factors.end(), [](const Factor& a, const Factor& b) {
                        return a.extent == b.extent && a.is_dim == b.is_dim &&
                               a.taken.has_value() == b.taken.has_value();
                      });
  }

  // The factors of which elements are taken, slowest first, if the parts are all combinations in
  // that order.
  static std::vector<size_t> orderOf(const std::vector<Part>& parts) {
    std::vector<size_t> order;
    std::vector<int64_t> strides(parts.front().factors.size(), 0); // in numbers of parts
    int64_t combinations = 1;
    for (size_t f = 0; f < parts.front().factors.size(); ++f) {
      const Factor& factor = parts.front().factors[f];
      if (!factor.taken.has_value()) {
        continue;
      }
      const auto second = std::find_if(parts.begin(), parts.end(),
                                       [&](const Part& part) { return isOnly(part, f); });
      if (factor.is_dim || second == parts.end()) {
        return {};
      }
      strides[f] = second - parts.begin();
      combinations *= factor.extent;
      order.push_back(f);
    }
    if (combinations != static_cast<int64_t>(parts.size())) {
      return {};
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      int64_t number = 0;
      for (const size_t f : order) {
        number += strides[f] * *parts[i].factors[f].taken;
      }
      if (number != static_cast<int64_t>(i)) {
        return {};
      }
    }
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return strides[a] > strides[b]; });
    return order;
  }

  // The second of factor `f` and the first of all others.
  static bool isOnly(const Part& part, size_t f) {
    for (size_t i = 0; i < part.factors.size(); ++i) {
      if (part.factors[i].taken.value_or(0) != (i == f ? 1 : 0)) {
        return false;
      }
    }
    return true;
  }

  // The factors that are taken of go before that of the concatenation's dimension, which holds all.
  // Null if a size is 1.
  static TensorView* merged(const Part& part, const std::vector<size_t>& order, size_t along) {
    std::vector<Val*> split;
    for (const Factor& factor : part.factors) {
      split.push_back(IrBuilder::index(factor.extent));
    }
    std::vector<int64_t> permutation;
    std::vector<Val*> shape;
    for (const size_t f : part.dims()) {
      int64_t extent = part.factors[f].extent;
      if (f == along) {
        for (const size_t taken : order) {
          permutation.push_back(static_cast<int64_t>(taken));
          extent *= part.factors[taken].extent;
        }
      }
      permutation.push_back(static_cast<int64_t>(f));
      shape.push_back(IrBuilder::index(extent));
    }
    TensorView* factors = ops_utils::constantReshape(part.source, split);
    return factors == nullptr ? nullptr
                              : ops_utils::constantReshape(permute(factors, permutation), shape);
  }
};

class PartSlicer : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  void rewrite(Expr* e) override {
    if (e->kind() == ExprKind::SqueezeOp) {
      if (TensorView* slice = sliceOf(partOf(e->output(0)->as<TensorView>()))) {
        replace(e->output(0)->as<TensorView>(), slice);
      }
    }
  }

  // Null if the part is anything else, or if nothing is split.
  static TensorView* sliceOf(const Part& part) {
    if (part.source == nullptr) {
      return nullptr;
    }
    const std::vector<IterDomain*> dims = logicalIds(part.source);
    std::vector<int64_t> starts(dims.size(), 0);
    std::vector<int64_t> stops;
    size_t sliced = 0;
    size_t next = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      stops.push_back(*constInt(dims[i]->extent()));
      const Part::Factor& factor = part.factors.at(next++);
      if (factor.extent == stops[i] && factor.is_dim) {
        continue;
      }
      // The other pieces of the dimension are one.
      const bool is_first = factor.taken.has_value() && !factor.is_dim && factor.extent > 0 &&
                            next < part.factors.size() &&
                            factor.extent * part.factors[next].extent == stops[i];
      if (!is_first) {
        return nullptr;
      }
      const Part::Factor& rest = part.factors[next++];
      starts[i] = *factor.taken * rest.extent;
      stops[i] = starts[i] + rest.extent;
      ++sliced;
      if (rest.taken.has_value()) {
        return nullptr;
      }
    }
    return sliced != 0 && next == part.factors.size() ? slice(part.source, starts, stops) : nullptr;
  }
};

} // namespace

void mergeParts(Fusion* fusion) {
  PartMerger(fusion).run();
  PartSlicer(fusion).run();
}

} // namespace nvfuser
