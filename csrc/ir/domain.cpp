// SPDX-License-Identifier: BSD-3-Clause
// IterDomain transforms and TensorDomain views.
#include <ir/domain.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/visitor.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace nvfuser {

IterDomain::IterDomain(IrBuilderPasskey key, Val* extent, IterType iter_type,
                       ParallelType parallel_type, Val* expanded_extent, bool is_rfactor)
    : Val(key, ValKind::IterDomain, DataType::Index),
      extent_(extent),
      expanded_extent_(expanded_extent),
      iter_type_(iter_type),
      parallel_type_(parallel_type),
      is_rfactor_(is_rfactor) {
  NVF_ERROR(extent != nullptr, "an iteration domain needs an extent");
}

IterDomain::IterDomain(const IterDomain* src, IrCloner* cloner)
    : Val(src, cloner),
      extent_(cloner->clone(src->extent_)),
      expanded_extent_(cloner->clone(src->expanded_extent_)),
      iter_type_(src->iter_type_),
      parallel_type_(src->parallel_type_),
      is_rfactor_(src->is_rfactor_),
      is_clustered_(src->is_clustered_) {}

std::unique_ptr<Val> IterDomain::copyWith(IrCloner* cloner) const {
  return std::make_unique<IterDomain>(this, cloner);
}

void IterDomain::parallelize(ParallelType type) {
  parallel_type_ = type;
  is_clustered_ = false;
}

void IterDomain::parallelizeCluster(ParallelType type) {
  NVF_CHECK(isParallelTypeBlockDim(type), "a cluster is made of blocks: ", type,
            " is no block dimension");
  parallel_type_ = type;
  is_clustered_ = true;
}

IterDomainBuilder::IterDomainBuilder(const IterDomain* id)
    : extent_(id->extent()),
      expanded_extent_(id->expandedExtent()),
      iter_type_(id->iterType()),
      parallel_type_(id->parallelType()) {}

IterDomain* IterDomainBuilder::build() const {
  return IrBuilder::createIn<IterDomain>(extent_->container(), extent_, iter_type_, parallel_type_,
                                         expanded_extent_, is_rfactor_);
}

std::pair<IterDomain*, IterDomain*> IterDomain::split(IterDomain* in, Val* factor, bool inner_split,
                                                      bool is_rfactor) {
  Val* remainder = IrBuilder::ceilDivExpr(in->extent(), factor);
  // An expanded broadcast stays one: the expanded extent belongs to the remainder if the factor is
  // 1, which is what a split of an extent-1 domain means.
  Val* expanded_remainder =
      in->hasExpandedExtent() ? IrBuilder::ceilDivExpr(in->expandedExtent(), factor) : nullptr;
  Val* expanded_factor = in->hasExpandedExtent() ? factor : nullptr;
  auto make = [&](Val* extent, Val* expanded) {
    return IterDomainBuilder(extent)
        .expandedExtent(expanded)
        .iterType(in->iterType())
        .parallelType(in->isDeviceDim() ? in->parallelType() : ParallelType::Serial)
        .isRfactor(is_rfactor)
        .build();
  };
  IterDomain* outer = nullptr;
  IterDomain* inner = nullptr;
  if (inner_split) {
    outer = make(remainder, expanded_remainder);
    inner = make(factor, expanded_factor);
  } else {
    outer = make(factor, expanded_factor);
    inner = make(remainder, expanded_remainder);
  }
  IrBuilder::createIn<Split>(in->container(), outer, inner, in, factor, inner_split);
  return {outer, inner};
}

IterDomain* IterDomain::merge(IterDomain* outer, IterDomain* inner, bool is_rfactor) {
  IterType type = outer->iterType();
  if (outer->isBroadcast() && inner->isBroadcast()) {
    type = IterType::Broadcast;
  } else if (outer->isReduction() || inner->isReduction()) {
    NVF_CHECK((outer->isReduction() || outer->isBroadcast()) &&
                  (inner->isReduction() || inner->isBroadcast()),
              "merge: a reduction axis can only be merged with a reduction axis, got ",
              outer->toString(), " and ", inner->toString());
    type = IterType::Reduction;
  } else if (outer->isBroadcast()) {
    type = inner->iterType();
  } else if (inner->isBroadcast()) {
    type = outer->iterType();
  } else if (outer->isSymbolicType() || inner->isSymbolicType()) {
    type = IterType::Symbolic;
  }
  Val* expanded = nullptr;
  if (outer->hasExpandedExtent() || inner->hasExpandedExtent()) {
    expanded = IrBuilder::mulExpr(outer->getMaybeExpandedExtent(), inner->getMaybeExpandedExtent());
  }
  IterDomain* out = IterDomainBuilder(IrBuilder::mulExpr(outer->extent(), inner->extent()))
                        .expandedExtent(type == IterType::Broadcast ? expanded : nullptr)
                        .iterType(type)
                        .isRfactor(is_rfactor)
                        .build();
  IrBuilder::createIn<Merge>(outer->container(), out, outer, inner);
  return out;
}

IterDomain* IterDomain::resize(IterDomain* in, Val* left, Val* right, bool is_rfactor,
                               std::optional<IterType> iter_type) {
  Val* extent = IrBuilder::addExpr(IrBuilder::addExpr(left, in->getMaybeExpandedExtent()), right);
  if (extent->isConstInt()) {
    NVF_CHECK(extent->intValue() >= 0, "Invalid resized domain extent: ", extent->intValue());
  }
  IterType type = IterType::Symbolic;
  if (iter_type.has_value()) {
    type = *iter_type;
  } else if (extent->isConstInt()) {
    type = extent->isOneInt() ? IterType::Broadcast : IterType::Iteration;
  } else if (left->isZeroInt() && right->isZeroInt()) {
    type = in->iterType();
  }
  IterDomain* out = IterDomainBuilder(extent).iterType(type).isRfactor(is_rfactor).build();
  IrBuilder::createIn<Resize>(in->container(), out, in, left, right);
  return out;
}

namespace {

IterDomain* serialCopy(IterDomain* id) {
  return IterDomainBuilder(id).parallelType(ParallelType::Serial).build();
}

} // namespace

std::pair<IterDomain*, IterDomain*> IterDomain::swizzle(SwizzleType type, IterDomain* x,
                                                        IterDomain* y) {
  IterDomain* out_x = serialCopy(x);
  IterDomain* out_y = serialCopy(y);
  IrBuilder::createIn<Swizzle>(x->container(), out_x, out_y, x, y, type);
  return {out_x, out_y};
}

std::pair<IterDomain*, IterDomain*> IterDomain::align(IterDomain* x, IterDomain* y, Val* stride,
                                                      int64_t width) {
  NVF_CHECK(width > 0, "align: the width of a vector must be positive, got ", width);
  IterDomain* out_x = serialCopy(x);
  IterDomain* out_y = nullptr;
  if (y->isBroadcast()) {
    out_y = serialCopy(y);
  } else {
    Val* vector = IrBuilder::index(width);
    Val* most = IrBuilder::addExpr(y->extent(), IrBuilder::index(width - 1));
    Val* extent = IrBuilder::mulExpr(IrBuilder::ceilDivExpr(most, vector), vector);
    out_y = IterDomainBuilder(extent).iterType(y->iterType()).build();
  }
  IrBuilder::createIn<Align>(x->container(), out_x, out_y, x, y, stride, width);
  return {out_x, out_y};
}

std::vector<IterDomain*> IterDomain::transformedLike(const Expr* transform,
                                                     const std::vector<IterDomain*>& in,
                                                     bool is_rfactor) {
  const auto list = [](std::pair<IterDomain*, IterDomain*> both) {
    return std::vector{both.first, both.second};
  };
  if (const auto* s = tryAs<Split>(transform)) {
    return list(split(in[0], s->factor(), s->innerSplit(), is_rfactor));
  }
  if (transform->kind() == ExprKind::Merge) {
    return {merge(in[0], in[1], is_rfactor)};
  }
  if (const auto* s = tryAs<Swizzle>(transform)) {
    return list(swizzle(s->swizzleType(), in[0], in[1]));
  }
  if (const auto* a = tryAs<Align>(transform)) {
    return list(align(in[0], in[1], a->stride(), a->width()));
  }
  if (const auto* s = tryAs<Swizzle1D>(transform)) {
    IterDomain* out = serialCopy(in[0]);
    IrBuilder::createIn<Swizzle1D>(in[0]->container(), out, in[0], s->parallelType());
    return {out};
  }
  const auto* r = tryAs<Resize>(transform);
  NVF_ERROR(r != nullptr, "can't repeat ", transform->toString());
  IterDomain* out = IterDomainBuilder(r->out()->extent())
                        .iterType(r->out()->iterType())
                        .isRfactor(is_rfactor)
                        .build();
  IrBuilder::createIn<Resize>(in[0]->container(), out, in[0], r->left(), r->right());
  return {out};
}

namespace {

TensorDomain::Contiguity contiguityOrDefault(const TensorDomain::Ids& ids,
                                             TensorDomain::Contiguity contiguity) {
  if (contiguity.empty()) {
    return TensorDomain::contiguityFilledWith(ids, false);
  }
  NVF_CHECK(contiguity.size() == ids.size(), "Length of contiguity argument (", contiguity.size(),
            ") must match the number of allocation dimensions (", ids.size(), ")");
  return contiguity;
}

} // namespace

TensorDomain::TensorDomain(IrBuilderPasskey key, Ids logical, Contiguity contiguity)
    : Val(key, ValKind::TensorDomain, DataType::Null),
      logical_(std::move(logical)),
      loop_(logical_),
      contiguity_(contiguityOrDefault(logical_, std::move(contiguity))) {}

TensorDomain::TensorDomain(IrBuilderPasskey key, Ids root, Ids logical, Ids loop,
                           Contiguity contiguity)
    : TensorDomain(key, std::move(root), std::move(logical), {}, std::move(loop),
                   std::move(contiguity)) {}

TensorDomain::TensorDomain(IrBuilderPasskey key, Ids root, Ids logical, Ids allocation, Ids loop,
                           Contiguity contiguity)
    : Val(key, ValKind::TensorDomain, DataType::Null),
      root_(std::move(root)),
      logical_(std::move(logical)),
      allocation_(std::move(allocation)),
      loop_(std::move(loop)),
      contiguity_(contiguityOrDefault(maybeAllocation(), std::move(contiguity))) {
  if (root_ == logical_) {
    root_.clear();
  }
  order_is_given_ = hasAllocation();
  if (allocation_ == logical_) {
    allocation_.clear();
  }
}

TensorDomain::TensorDomain(const TensorDomain* src, IrCloner* cloner)
    : Val(src, cloner),
      root_(cloner->clone(src->root_)),
      logical_(cloner->clone(src->logical_)),
      allocation_(cloner->clone(src->allocation_)),
      loop_(cloner->clone(src->loop_)),
      contiguity_(src->contiguity_),
      order_is_given_(src->order_is_given_) {}

std::unique_ptr<Val> TensorDomain::copyWith(IrCloner* cloner) const {
  return std::make_unique<TensorDomain>(this, cloner);
}

void TensorDomain::setLoopDomain(Ids loop) {
  loop_ = std::move(loop);
}

void TensorDomain::setAllocationDomain(Ids allocation, Contiguity contiguity) {
  allocation_ = std::move(allocation);
  order_is_given_ = true;
  if (allocation_ == logical_) {
    allocation_.clear();
  }
  setContiguity(std::move(contiguity));
}

void TensorDomain::setContiguity(Contiguity contiguity) {
  contiguity_ = contiguityOrDefault(maybeAllocation(), std::move(contiguity));
}

TensorDomain::Ids TensorDomain::allIds() const {
  Ids out;
  std::unordered_set<const IterDomain*> seen;
  auto add = [&](IterDomain* id) {
    if (seen.insert(id).second) {
      out.push_back(id);
    }
  };
  Ids found;
  for (const Ids* ids : {&loop_, &allocation_, &logical_, &root_}) {
    found.insert(found.end(), ids->begin(), ids->end());
  }
  found = domainsBetween({}, found);
  for (const Ids* ids : {&root_, &logical_, &allocation_}) {
    std::for_each(ids->begin(), ids->end(), add);
  }
  std::sort(found.begin(), found.end(),
            [](const IterDomain* a, const IterDomain* b) { return a->name() < b->name(); });
  std::for_each(found.begin(), found.end(), add);
  return out;
}

std::vector<Expr*> TensorDomain::exprsToLoop() const {
  return transformsBetween(maybeRoot(), loop_);
}

TensorDomain* TensorDomain::copyOfKept(const Ids& leading) const {
  std::unordered_map<const IterDomain*, IterDomain*> copies;
  Ids logical = leading;
  for (const IterDomain* id : noReductions(logical_)) {
    logical.push_back(IterDomainBuilder(id).build());
    copies[id] = logical.back();
  }
  auto* copy = IrBuilder::create<TensorDomain>(logical, contiguityFilledWith(logical, true));
  Ids memory = leading;
  Contiguity contiguity = contiguityFilledWith(leading, true);
  for (size_t i = 0; i < maybeAllocation().size(); ++i) {
    if (auto it = copies.find(maybeAllocation()[i]); it != copies.end()) {
      memory.push_back(it->second);
      contiguity.push_back(contiguity_.at(i));
    }
  }
  // Memory may be made of other dimensions than the logical ones; nothing follows from those here.
  if (isOrderGiven() && memory.size() == logical.size()) {
    copy->setAllocationDomain(memory, contiguity);
  }
  return copy;
}

std::vector<size_t> TensorDomain::orderOf(const Ids& ids, const Ids& ordered) {
  const Ids numbered = noReductions(ids);
  std::vector<size_t> order;
  for (const IterDomain* id : noReductions(ordered)) {
    const auto at = std::find(numbered.begin(), numbered.end(), id);
    if (at == numbered.end()) {
      return {};
    }
    order.push_back(static_cast<size_t>(at - numbered.begin()));
  }
  return order.size() == numbered.size() ? order : std::vector<size_t>();
}

TensorDomain::Ids TensorDomain::noReductions(const Ids& ids) {
  Ids out;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(out),
               [](const IterDomain* id) { return !id->isReduction(); });
  return out;
}

TensorDomain::Contiguity TensorDomain::contiguityFilledWith(const Ids& ids, bool flag) {
  Contiguity out;
  out.reserve(ids.size());
  for (const IterDomain* id : ids) {
    out.push_back(id->isBroadcast() || id->isReduction() ? std::nullopt
                                                         : std::optional<bool>(flag));
  }
  return out;
}

std::vector<Expr*> transformsBetween(const std::vector<IterDomain*>& from,
                                     const std::vector<IterDomain*>& to) {
  return exprsBefore({to.begin(), to.end()}, {from.begin(), from.end()});
}

std::vector<IterDomain*> domainsBetween(const std::vector<IterDomain*>& from,
                                        const std::vector<IterDomain*>& to) {
  std::vector<IterDomain*> out = to;
  for (const Expr* e : transformsBetween(from, to)) {
    for (const std::vector<Val*>* vals : {&e->inputs(), &e->outputs()}) {
      std::transform(vals->begin(), vals->end(), std::back_inserter(out),
                     [](Val* v) { return v->as<IterDomain>(); });
    }
  }
  return out;
}

} // namespace nvfuser
