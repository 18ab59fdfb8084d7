// SPDX-License-Identifier: BSD-3-Clause
// See concretization.h.
#include <definition/concretization.h>

#include <base/error.h>
#include <base/hash.h>
#include <ir/op_traits.h>
#include <ops/utils.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace nvfuser {

using namespace ops_utils;

size_t Concretization::hash() const {
  uint64_t h = reshapes.size();
  const auto add_flags = [&](const std::vector<bool>& flags) {
    h = hashCombine(h, flags.size());
    for (const bool b : flags) {
      h = hashCombine(h, b ? 1 : 2);
    }
  };
  for (const ReshapePattern& r : reshapes) {
    h = hashCombine(h, r.empty ? 1 : 2);
    add_flags(r.in_takes_part);
    add_flags(r.out_is_one);
    for (const auto& g : r.groups) {
      h = hashCombine(h, hashCombine(g.in_end, g.out_end));
    }
  }
  add_flags(symbolic_is_broadcast);
  add_flags(slice_takes_all);
  add_flags(expands_to_one);
  add_flags(input_is_expanded_to_nothing);
  for (const InputSize& each : input_sizes) {
    h = hashCombine(h, hashCombine(static_cast<uint64_t>(each.size), each.same_as));
  }
  h = hashCombine(h, has_gpu_library ? 1 : 2);
  h = hashCombine(h, elements.size());
  for (const Elements each : elements) {
    h = hashCombine(h, static_cast<uint64_t>(each) + 1);
  }
  return h;
}

bool isOpenReshape(const Expr* e) {
  return e->kind() == ExprKind::ReshapeOp && !e->output(0)->as<TensorView>()->hasRoot();
}

std::vector<IterDomain*> symbolicDomains(const Fusion& fusion) {
  std::vector<IterDomain*> out;
  for (const TensorView* tv : fusion.allTvs()) {
    for (IterDomain* id : tv->getLogicalDomain()) {
      if (id->isSymbolicType()) {
        out.push_back(id);
      }
    }
  }
  return out;
}

std::vector<std::pair<const SliceOp*, size_t>> openSliceDims(const Fusion& fusion) {
  std::vector<std::pair<const SliceOp*, size_t>> out;
  for (const Expr* e : fusion.exprs()) {
    if (e->kind() != ExprKind::SliceOp) {
      continue;
    }
    const auto& logical = e->output(0)->as<TensorView>()->getLogicalDomain();
    for (size_t d = 0; d < logical.size(); ++d) {
      if (logical[d]->isSymbolicType() && tryAs<Resize>(logical[d]->definition()) != nullptr) {
        out.emplace_back(static_cast<const SliceOp*>(e), d);
      }
    }
  }
  return out;
}

namespace {

std::unordered_set<const Val*> extentsOfInputs(const Fusion& fusion) {
  std::unordered_set<const Val*> out;
  for (const Val* v : fusion.inputs()) {
    if (v->isTensor()) {
      for (const IterDomain* id : logicalIds(v)) {
        out.insert(id->getMaybeExpandedExtent());
      }
    }
  }
  return out;
}

} // namespace

std::vector<std::pair<const ExpandOp*, size_t>> openExpandDims(const Fusion& fusion) {
  std::vector<std::pair<const ExpandOp*, size_t>> out;
  const std::unordered_set<const Val*> given = extentsOfInputs(fusion);
  for (const Expr* e : fusion.exprs()) {
    if (e->kind() != ExprKind::ExpandOp) {
      continue;
    }
    const auto* op = static_cast<const ExpandOp*>(e);
    const Ids ids = logicalIds(op->input(0));
    for (size_t d = 0; d < ids.size(); ++d) {
      const Val* size = op->shape()[d];
      if (ids[d]->isOne() && !constInt(size) && given.count(size) == 0) {
        out.emplace_back(op, d);
      }
    }
  }
  return out;
}

std::vector<IterDomain*> dimensionsOfOpenSize(const Fusion& fusion) {
  std::vector<IterDomain*> out;
  for (const Val* v : fusion.inputs()) {
    if (!v->isTensor()) {
      continue;
    }
    for (IterDomain* id : logicalIds(v)) {
      const bool has_size = id->isIteration() || id->hasExpandedExtent();
      if (has_size && !id->getMaybeExpandedExtent()->isConst()) {
        out.push_back(id);
      }
    }
  }
  return out;
}

namespace {

// Extents of an input's expanded dimensions that may be 0.
std::vector<Val*> expandedExtents(const Val* input) {
  std::vector<Val*> out;
  if (input->isTensor()) {
    for (const IterDomain* id : input->as<TensorView>()->getLogicalDomain()) {
      if (id->hasExpandedExtent() && constInt(id->expandedExtent()).value_or(0) == 0) {
        out.push_back(id->expandedExtent());
      }
    }
  }
  return out;
}

// Whether iteration domains that happen to be of size 1 disappear.
bool dropsIterations(const ReshapePattern& r) {
  return r.groups.empty() && std::any_of(r.in_takes_part.begin(), r.in_takes_part.end(),
                                         [](bool takes_part) { return takes_part; });
}

} // namespace

bool needsConcretization(const Fusion& fusion) {
  bool found = !symbolicDomains(fusion).empty() || !openExpandDims(fusion).empty();
  for (const Val* v : fusion.inputs()) {
    found = found || !expandedExtents(v).empty();
  }
  return found || fusion.hasExpr(isOpenReshape);
}

namespace {

// Whether some inputs with dimensions meet none of the others but through what has none.
bool areInputsApart(const Fusion& fusion) {
  std::unordered_map<const Val*, const Val*> parent;
  const auto find = [&](const Val* v) {
    for (auto it = parent.find(v); it != parent.end(); it = parent.find(v)) {
      v = it->second;
    }
    return v;
  };
  const auto has_dims = [](const Val* v) { return v->isTensor() && !logicalIds(v).empty(); };
  for (const Expr* e : fusion.exprs()) {
    const Val* first = nullptr;
    for (const auto* vals : {&e->inputs(), &e->outputs()}) {
      for (const Val* v : *vals) {
        const Val* root = has_dims(v) ? find(v) : first;
        if (first != nullptr && root != first) {
          parent[root] = first;
        }
        first = first == nullptr ? root : first;
      }
    }
  }
  const Val* met = nullptr;
  for (const Val* v : fusion.inputs()) {
    if (has_dims(v)) {
      const Val* root = find(v);
      if (met != nullptr && root != met) {
        return true;
      }
      met = root;
    }
  }
  return false;
}

std::vector<InputSize> onlyOnes(const std::vector<int64_t>& sizes) {
  std::vector<InputSize> out;
  for (const int64_t size : sizes) {
    out.push_back({.size = size == 1 ? 1 : InputSize::kOpen, .same_as = out.size()});
  }
  return out;
}

} // namespace

SizesSeen::SizesSeen(const Fusion& fusion, bool are_given)
    : has_positions_(fusion.hasExpr(dependsOnSizes)),
      are_constants_(has_positions_ && !are_given),
      are_apart_(!has_positions_ && areInputsApart(fusion)) {
  std::unordered_map<const IterDomain*, size_t> from_inner;
  for (const Val* v : fusion.inputs()) {
    const Ids ids = v->isTensor() ? logicalIds(v) : Ids{};
    for (size_t d = 0; d < ids.size(); ++d) {
      from_inner[ids[d]] = ids.size() - d;
    }
  }
  for (const IterDomain* id : dimensionsOfOpenSize(fusion)) {
    from_inner_.push_back(from_inner.at(id));
  }
}

bool SizesSeen::isAlways(size_t dim, int64_t size) {
  if (sizes_[dim] == InputSize::kOpen && size > 1) {
    sizes_[dim] = size;
  } else if (sizes_[dim] != size) {
    sizes_[dim] = kVaries;
  }
  return are_constants_ && sizes_[dim] == size;
}

std::vector<InputSize> SizesSeen::decide(const std::vector<int64_t>& sizes, bool ones) {
  sizes_.resize(sizes.size(), InputSize::kOpen);
  std::vector<InputSize> out;
  std::map<std::pair<int64_t, size_t>, size_t> first;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    const int64_t size = sizes[dim];
    InputSize& decided = out.emplace_back(InputSize{.same_as = dim});
    if (isAlways(dim, size) || (size == 1 && ones)) {
      decided.size = size;
    } else if (size > 1 && matter()) {
      const std::pair key(size, has_positions_ ? 0 : from_inner_[dim]);
      decided.same_as = first.try_emplace(key, dim).first->second;
    }
  }
  return out;
}

Concretization concretizationInfo(const Fusion& fusion, ScalarEvaluator& sizes,
                                  SizesOfOne ones_of_inputs, SizesSeen* seen) {
  Concretization info;
  for (const IterDomain* id : symbolicDomains(fusion)) {
    info.symbolic_is_broadcast.push_back(sizes.evaluateInt(id->extent()) == 1);
  }
  for (const auto& [slice, d] : openSliceDims(fusion)) {
    const auto* resize =
        slice->output(0)->as<TensorView>()->getLogicalDomain()[d]->definition()->as<Resize>();
    // One that is left of one is a broadcast.
    const int64_t size = sizes.evaluateInt(resize->in()->extent());
    info.slice_takes_all.push_back(size > 1 && sizes.evaluateInt(slice->starts()[d]) == 0 &&
                                   sizes.evaluateInt(slice->stops()[d]) == size);
  }
  for (const auto& [expansion, d] : openExpandDims(fusion)) {
    info.expands_to_one.push_back(sizes.evaluateInt(expansion->shape()[d]) == 1);
  }
  for (const Val* v : fusion.inputs()) {
    const std::vector<Val*> expanded = expandedExtents(v);
    info.input_is_expanded_to_nothing.push_back(
        std::any_of(expanded.begin(), expanded.end(),
                    [&](const Val* extent) { return sizes.evaluateInt(extent) == 0; }));
  }
  std::unordered_set<const Val*> ones;
  const auto decide_reshapes = [&] {
    info.reshapes.clear();
    for (const Expr* e : fusion.exprs()) {
      if (isOpenReshape(e)) {
        info.reshapes.push_back(reshapePattern(e->input(0)->as<TensorView>(),
                                               e->as<ReshapeOp>()->newShape(), sizes, ones));
      }
    }
  };
  decide_reshapes();
  // A reshape drops dimensions that happen to be of size 1: they are broadcasts then, as what is
  // dropped has no loop that others could share.
  const bool drops = ones_of_inputs == SizesOfOne::MayBeBroadcasts &&
                     std::any_of(info.reshapes.begin(), info.reshapes.end(), dropsIterations);
  if (drops || seen != nullptr) {
    const std::vector<IterDomain*> dims = dimensionsOfOpenSize(fusion);
    std::vector<int64_t> values;
    for (const IterDomain* id : dims) {
      values.push_back(sizes.evaluateInt(id->getMaybeExpandedExtent()));
    }
    info.input_sizes = seen == nullptr ? onlyOnes(values) : seen->decide(values, drops);
    for (size_t i = 0; i < info.input_sizes.size(); ++i) {
      if (info.input_sizes[i].size == 1) {
        ones.insert(dims[i]->getMaybeExpandedExtent());
      }
    }
    if (!ones.empty()) {
      decide_reshapes();
    }
    bool is_any_decided = false;
    for (size_t i = 0; i < info.input_sizes.size(); ++i) {
      is_any_decided = is_any_decided || info.input_sizes[i] != InputSize{.same_as = i};
    }
    if (!is_any_decided) {
      info.input_sizes.clear();
    }
  }
  return info;
}

bool mayMakeNothing(const Fusion& fusion) {
  const std::unordered_set<const Val*> given = extentsOfInputs(fusion);
  for (const TensorView* tv : fusion.allTvs()) {
    for (const IterDomain* id : logicalIds(tv)) {
      const Val* size = id->getMaybeExpandedExtent();
      if (constInt(size).value_or(0) == 0 && given.count(size) == 0) {
        return true;
      }
    }
  }
  return false;
}

namespace {

// The tensor whose elements are accumulated, or put into another one; null if there is none.
const TensorView* accumulated(const Expr* e) {
  switch (e->kind()) {
    case ExprKind::ReductionOp:
    case ExprKind::WelfordOp:
      return e->input(0)->as<TensorView>();
    case ExprKind::ScatterOp:
      return static_cast<const ScatterOp*>(e)->index();
    default:
      return nullptr;
  }
}

} // namespace

std::vector<Elements> elementsOf(const Fusion& fusion, ScalarEvaluator& sizes) {
  std::unordered_map<const Val*, bool> known;
  const auto is_zero = [&](const IterDomain* id) {
    const Val* size = id->getMaybeExpandedExtent();
    auto [it, is_new] = known.try_emplace(size, false);
    if (is_new) {
      const std::optional<ScalarValue> value = sizes.evaluate(size);
      it->second = value.has_value() && sizes.evaluateInt(size) == 0;
    }
    return it->second;
  };
  const auto has_none = [&](const Val* v) {
    const Ids ids = logicalIds(v);
    return std::any_of(ids.begin(), ids.end(), is_zero);
  };
  std::vector<Elements> out;
  bool any = false;
  for (const Expr* e : fusion.exprs()) {
    Elements elements = Elements::Some;
    if (std::all_of(e->outputs().begin(), e->outputs().end(), has_none)) {
      elements = Elements::None;
    } else if (const TensorView* in = accumulated(e); in != nullptr && has_none(in)) {
      elements = Elements::MadeOfNone;
    }
    out.push_back(elements);
    any = any || elements != Elements::Some;
  }
  return any ? out : std::vector<Elements>();
}

} // namespace nvfuser
