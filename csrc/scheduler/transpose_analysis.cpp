// SPDX-License-Identifier: BSD-3-Clause
// Which tensors of a fusion are contiguous along which axis.
#include <scheduler/transpose.h>

#include <ir/exprs.h>
#include <scheduler/version_tensors.h>

#include <algorithm>
#include <compare>
#include <map>

namespace nvfuser {

namespace {

using Ids = std::vector<IterDomain*>;

// Whether anything can make memory orders differ; a quick look that spares most fusions the
// analysis.
bool mayTranspose(const Fusion* fusion) {
  for (const TensorView* tv : fusion->allTvs()) {
    if (tv->domain()->hasAllocation()) {
      return true;
    }
    const Expr* def = tv->definition();
    if (def != nullptr && def->kind() == ExprKind::LoadStoreOp && tv->hasRoot()) {
      return true;
    }
  }
  return false;
}

// Dimensions in memory order, without broadcasts; empty if the memory is not made of them.
std::vector<size_t> concreteOrder(const TensorView* tv) {
  const Ids dims = logicalIds(tv);
  std::vector<size_t> order = tv->domain()->memoryOrder();
  std::erase_if(order, [&](size_t d) { return dims[d]->isBroadcast(); });
  return order;
}

// The dimension that moves fastest when the axis does, or -1.
int64_t fastestDimension(const AxisTerms& terms, AxisTerms::Id id) {
  using Kind = AxisTerms::Kind;
  const AxisTerms::Node& node = terms[id];
  switch (node.kind) {
    case Kind::Merge:
      return fastestDimension(terms, node.b);
    case Kind::SplitInner:
    case Kind::Resize: // a slice or a pad shifts it
      return fastestDimension(terms, node.a);
    case Kind::Dimension:
      return node.a;
    default:
      return -1;
  }
}

// Which part of its fastest dimension the axis is: outer (0) or inner (1) of each split, the first
// split first. The parts of one dimension lie in memory in this order.
std::vector<int> partOfDimension(const AxisTerms& terms, AxisTerms::Id id) {
  using Kind = AxisTerms::Kind;
  std::vector<int> path;
  while (terms[id].kind != Kind::Dimension && terms[id].kind != Kind::Missing) {
    const AxisTerms::Node& node = terms[id];
    if (node.kind == Kind::SplitOuter || node.kind == Kind::SplitInner) {
      path.push_back(node.kind == Kind::SplitInner ? 1 : 0);
    }
    id = node.kind == Kind::Merge && node.b != AxisTerms::kMissing ? node.b : node.a;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

// The reference's axes in the order of the tensor's memory; those that it lacks come first.
std::vector<int64_t> axesInMemoryOrder(const PointwiseAnalysis& analysis,
                                       const TensorVersion& version) {
  struct Key {
    int64_t place; // of the fastest dimension in memory
    std::vector<int> part;
    size_t in_loops; // place in the loop order
    auto operator<=>(const Key&) const = default;
  };
  const std::vector<size_t> memory = concreteOrder(version.tv);
  std::vector<Key> keys;
  for (size_t i = 0; i < analysis.loop_order.size(); ++i) {
    const AxisTerms::Id axis = version.view[static_cast<size_t>(analysis.loop_order[i])];
    keys.push_back({analysis.placeOf(axis, memory), partOfDimension(analysis.terms, axis), i});
  }
  std::sort(keys.begin(), keys.end());
  std::vector<int64_t> order;
  for (const Key& key : keys) {
    order.push_back(analysis.loop_order[key.in_loops]);
  }
  return order;
}

// The axis along which the tensor is contiguous, or -1.
int64_t innermostAxis(const PointwiseAnalysis& analysis, const TensorVersion& version) {
  const std::vector<size_t> memory = concreteOrder(version.tv);
  if (memory.empty() || !memoryDims(version.tv).back().contiguous) {
    return -1;
  }
  for (size_t axis = 0; axis < analysis.num_axes; ++axis) {
    if (fastestDimension(analysis.terms, version.view[axis]) ==
        static_cast<int64_t>(memory.back())) {
      return static_cast<int64_t>(axis);
    }
  }
  return -1;
}

// Its elements differ along all of the axis: of the dimensions that the axis is made of the tensor
// lacks none, and is broadcast along none.
bool hasWholeAxis(const PointwiseAnalysis& analysis, const TensorVersion& version, int64_t axis) {
  const auto& term = version.view[static_cast<size_t>(axis)];
  if (!analysis.hasAxis(version, axis) || analysis.terms.contains(term, AxisTerms::Kind::Missing)) {
    return false;
  }
  const Ids dims = logicalIds(version.tv);
  std::vector<int64_t> contained;
  analysis.terms.dimensionsOf(term, contained);
  return std::none_of(contained.begin(), contained.end(),
                      [&](int64_t d) { return dims[static_cast<size_t>(d)]->isBroadcast(); });
}

// As what reads the version has it, up to the reference: one element that was cut out of it is the
// same for all of the axis, or for a part of it.
bool readersHaveWholeAxis(const PointwiseAnalysis& analysis, const TensorVersion& version,
                          int64_t axis) {
  const TensorVersion* v = &version;
  while (hasWholeAxis(analysis, *v, axis)) {
    if (v->parent < 0 || !v->parent_is_consumer) {
      return true;
    }
    v = &analysis.versions[static_cast<size_t>(v->parent)];
  }
  return false;
}

// The tensor has tiles of its own in every block, and no element of it is there several times.
bool mayExchange(const PointwiseAnalysis& analysis, const pointwise::TensorAccess& access) {
  const TensorVersion& version = *access.version;
  if (dataTypeSizeBits(access.tv->dtype()) < 8) {
    return false;
  }
  const Ids dims = logicalIds(analysis.reference);
  for (size_t axis = 0; axis < analysis.num_axes; ++axis) {
    if (!dims[axis]->isBroadcast() &&
        !readersHaveWholeAxis(analysis, version, static_cast<int64_t>(axis))) {
      return false;
    }
  }
  return true;
}

} // namespace

std::vector<int64_t> TransposeAnalysis::tileAxes(const std::vector<int64_t>& order,
                                                 int64_t merged) {
  const auto n = std::min(merged, static_cast<int64_t>(order.size()));
  return {order.end() - n, order.end()};
}

std::unique_ptr<TransposeAnalysis> TransposeAnalysis::run(Fusion* fusion, std::string* why_not) {
  static const char* const kSameOrder =
      "no two groups of inputs and outputs have different innermost dimensions";
  const auto& exprs = fusion->exprs();
  const bool stores_anywhere = std::any_of(exprs.begin(), exprs.end(), [](const Expr* e) {
    return e->kind() == ExprKind::ScatterStoreOp;
  });
  if (!mayTranspose(fusion) || stores_anywhere) {
    *why_not = kSameOrder;
    return nullptr;
  }
  auto result = std::make_unique<TransposeAnalysis>();
  result->pointwise = PointwiseAnalysis::run(fusion, why_not);
  const PointwiseAnalysis& analysis = *result->pointwise;
  if (!why_not->empty()) {
    return nullptr;
  }
  if (analysis.num_axes < 2) {
    *why_not = kSameOrder;
    return nullptr;
  }
  const int64_t axis_1 = analysis.loop_order.back();
  const Ids dims = logicalIds(analysis.reference);
  const auto is_single = [&](int64_t axis) { // a tile spans two axes of several elements
    return dims[static_cast<size_t>(axis)]->isBroadcast();
  };
  std::map<int64_t, int64_t> bits; // of the candidates for the second group, by axis
  std::vector<std::pair<pointwise::TensorAccess, int64_t>> accesses;
  for (const pointwise::TensorAccess& access : pointwise::tensorAccesses(fusion, analysis)) {
    const int64_t axis = innermostAxis(analysis, *access.version);
    if (axis == axis_1) {
      result->group_1.push_back(access);
    } else if (axis >= 0 && !is_single(axis_1) && !is_single(axis) &&
               mayExchange(analysis, access)) {
      bits[axis] += dataTypeSizeBits(access.tv->dtype());
      accesses.emplace_back(access, axis);
    }
  }
  if (bits.empty() || result->group_1.empty()) {
    *why_not = kSameOrder;
    return nullptr;
  }
  const int64_t axis_2 =
      std::max_element(bits.begin(), bits.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      })->first;
  for (const auto& [access, axis] : accesses) {
    if (axis == axis_2) {
      result->group_2.push_back(access);
    }
  }
  result->order_1 = analysis.loop_order;
  result->order_2 = axesInMemoryOrder(analysis, *result->group_2.front().version);
  return result;
}

} // namespace nvfuser
