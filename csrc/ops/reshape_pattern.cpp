// SPDX-License-Identifier: BSD-3-Clause
// See reshape_pattern.h.
#include <ops/reshape_pattern.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/describe.h>
#include <ops/all_ops.h>
#include <ops/shape_internal.h>
#include <ops/utils.h>

#include <algorithm>

namespace nvfuser {

using namespace ops_utils;

ReshapePattern reshapePattern(const TensorView* in, const std::vector<Val*>& new_shape,
                              ScalarEvaluator& sizes, const std::unordered_set<const Val*>& ones) {
  ReshapePattern pattern;
  std::vector<int64_t> in_sizes;
  std::vector<int64_t> out_sizes;
  int64_t in_elements = 1;
  int64_t out_elements = 1;
  for (const IterDomain* id : logicalIds(in)) {
    const int64_t size = sizes.evaluateInt(id->getMaybeExpandedExtent());
    in_elements *= size;
    const bool takes_part = size != 1 || (id->isIteration() && ones.count(id->extent()) == 0);
    pattern.in_takes_part.push_back(takes_part);
    if (takes_part) {
      in_sizes.push_back(size);
    }
  }
  for (const Val* extent : new_shape) {
    const int64_t size = sizes.evaluateInt(extent);
    NVF_CHECK(size >= 0, "reshape: the new size ", extent->toInlineString(), " is ", size, ".");
    out_elements *= size;
    pattern.out_is_one.push_back(size == 1);
    if (size != 1) {
      out_sizes.push_back(size);
    }
  }
  NVF_CHECK(in_elements == out_elements,
            "reshape: Total element counts across view operation must match. The input ",
            describe(in), " has ", in_elements, " elements, the new shape ", out_elements, ".");
  pattern.empty = in_elements == 0;
  if (pattern.empty) {
    pattern.in_takes_part.clear();
    return pattern;
  }
  // Greedy from the left: a group closes as soon as the products agree. Iteration domains that
  // happen to be of size 1 join the group that follows, so that the pattern does not depend on it.
  size_t i = 0;
  size_t o = 0;
  while (o < out_sizes.size()) {
    ReshapePattern::Group group{i, i, o, o + 1};
    int64_t in_product = 1;
    int64_t out_product = out_sizes[o];
    while (in_product != out_product) {
      if (in_product < out_product) {
        in_product *= in_sizes.at(group.in_end++);
      } else {
        out_product *= out_sizes.at(group.out_end++);
      }
    }
    i = group.in_end;
    o = group.out_end;
    pattern.groups.push_back(group);
  }
  // Only ones are left. They join the last group.
  if (!pattern.groups.empty()) {
    pattern.groups.back().in_end = in_sizes.size();
  }
  return pattern;
}

namespace {

// Merges and splits one group of a reshape. Returns the output's domains.
Ids reshapeGroup(const Ids& in, const std::vector<Val*>& out_sizes) {
  if (in.size() == 1 && out_sizes.size() == 1) {
    return in;
  }
  IterDomain* merged = in.front();
  for (size_t i = 1; i < in.size(); ++i) {
    const bool last = i + 1 == in.size() && out_sizes.size() == 1;
    Val* product = IrBuilder::mulExpr(merged->extent(), in[i]->extent());
    // A constant size that the user gave says more than the product.
    Val* extent = last && out_sizes[0]->isConst() ? out_sizes[0] : product;
    auto* out = IterDomainBuilder(extent).isRfactor(true).build();
    IrBuilder::create<Merge>(out, merged, in[i]);
    merged = out;
  }
  // Split off the innermost sizes.
  Ids reversed;
  for (size_t o = out_sizes.size(); o-- > 1;) {
    Val* outer_size = nullptr;
    if (o == 1) {
      outer_size = out_sizes[0];
    } else {
      outer_size = IrBuilder::ceilDivExpr(merged->extent(), out_sizes[o]);
    }
    auto* outer = IterDomainBuilder(outer_size).isRfactor(true).build();
    auto* inner = IterDomainBuilder(out_sizes[o]).isRfactor(true).build();
    IrBuilder::create<Split>(outer, inner, merged, out_sizes[o], /*inner_split=*/true);
    reversed.push_back(inner);
    merged = outer;
  }
  reversed.push_back(merged);
  return {reversed.rbegin(), reversed.rend()};
}

// The view that a reshape between tensors without broadcasts is.
TensorView* regroup(TensorView* in, const ReshapePattern& pattern, const std::vector<Val*>& sizes) {
  const bool is_identity = std::all_of(
      pattern.groups.begin(), pattern.groups.end(),
      [](const auto& g) { return g.in_end - g.in_begin == 1 && g.out_end - g.out_begin == 1; });
  if (is_identity) {
    return in;
  }
  Ids root = copyDimensions(logicalIds(in));
  Ids logical;
  std::vector<Val*> out_sizes;
  for (size_t o = 0; o < sizes.size(); ++o) {
    if (!pattern.out_is_one[o]) {
      out_sizes.push_back(sizes[o]);
    }
  }
  const auto at = [](size_t i) { return static_cast<std::ptrdiff_t>(i); };
  for (const auto& g : pattern.groups) {
    const Ids ids =
        reshapeGroup({root.begin() + at(g.in_begin), root.begin() + at(g.in_end)},
                     {out_sizes.begin() + at(g.out_begin), out_sizes.begin() + at(g.out_end)});
    logical.insert(logical.end(), ids.begin(), ids.end());
  }
  std::vector<Val*> extents;
  for (const IterDomain* id : logical) {
    extents.push_back(id->extent());
  }
  auto* out = makeTensor(std::move(root), std::move(logical), in->dtype());
  IrBuilder::create<ReshapeOp>(out, in, std::move(extents));
  return out;
}

} // namespace

TensorView* ops_utils::firstAlong(TensorView* in, const std::vector<bool>& dims) {
  if (std::none_of(dims.begin(), dims.end(), [](bool b) { return b; })) {
    return in;
  }
  Fusion* fusion = in->fusion();
  std::vector<Val*> stops = shape(in);
  for (size_t d = 0; d < dims.size(); ++d) {
    stops[d] = dims[d] ? fusion->oneVal() : stops[d];
  }
  return sliceTo(in, std::vector<Val*>(dims.size(), fusion->zeroVal()), stops);
}

TensorView* ops_utils::concreteReshape(TensorView* in, const ReshapePattern& pattern,
                                       const std::vector<Val*>& sizes) {
  if (pattern.empty) {
    Ids ids;
    for (size_t d = 0; d < sizes.size(); ++d) {
      ids.push_back(makeDimension(
          sizes[d], pattern.out_is_one[d] ? IterType::Broadcast : IterType::Iteration));
    }
    auto* filled = makeTensor(std::move(ids), in->dtype());
    IrBuilder::create<FullOp>(filled, zeroOf(in->dtype()));
    return filled;
  }
  TensorView* const original = in;
  std::vector<bool> dropped;
  for (const bool takes_part : pattern.in_takes_part) {
    // Without any group, what takes part are iteration domains of size 1.
    dropped.push_back(!takes_part || pattern.groups.empty());
  }
  if (std::any_of(dropped.begin(), dropped.end(), [](bool b) { return b; })) {
    // A broadcast of the definition may have got a loop since, over a size of 1 that nothing shows.
    std::vector<bool> has_loop = dropped;
    for (size_t d = 0; d < dropped.size(); ++d) {
      has_loop[d] = !pattern.in_takes_part[d] && logicalIds(in)[d]->isIteration();
    }
    in = squeezeDims(firstAlong(in, has_loop), dropped, /*squeeze_expanded=*/true);
  }
  in = materializeExpanded(in, std::vector<bool>(static_cast<size_t>(rank(in)), true));
  in = regroup(in, pattern, sizes);
  in = broadcast(in, pattern.out_is_one);
  return in == original ? set(in) : in;
}

TensorView* ops_utils::constantReshape(TensorView* in, const std::vector<Val*>& sizes) {
  const auto moves = [](const Val* size) { return constInt(size).value_or(0) > 1; };
  const Ids ids = logicalIds(in);
  const bool in_moves = std::all_of(ids.begin(), ids.end(), [&](const IterDomain* id) {
    return id->isIteration() && moves(id->extent());
  });
  if (!in_moves || ids.empty() || !std::all_of(sizes.begin(), sizes.end(), moves)) {
    return nullptr;
  }
  ScalarEvaluator constants;
  TensorView* out = regroup(in, reshapePattern(in, sizes, constants), sizes);
  return out == in ? nullptr : out;
}

} // namespace nvfuser
