// SPDX-License-Identifier: BSD-3-Clause
// Which tensors of a fusion are contiguous along which axis.
#include <scheduler/transpose.h>

#include <ir/exprs.h>
#include <scheduler/version_tensors.h>

#include <algorithm>
#include <compare>
#include <map>
#include <optional>
#include <set>

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
    if (v->parent < 0 || v->kind != TensorVersion::Parent::Consumer) {
      return true;
    }
    v = &analysis.versions[static_cast<size_t>(v->parent)];
  }
  return false;
}

// The same for all of the axis or for parts of it: for its readers too, or these have it whole.
bool lacksAxis(const PointwiseAnalysis& analysis, const TensorVersion& version, int64_t axis) {
  const TensorVersion* v = &version;
  while (!hasWholeAxis(analysis, *v, axis)) {
    const auto& term = v->view[static_cast<size_t>(axis)];
    if (analysis.terms.contains(term, AxisTerms::Kind::Resize)) {
      return false;
    }
    if (v->parent < 0 || v->kind != TensorVersion::Parent::Consumer) {
      return true;
    }
    v = &analysis.versions[static_cast<size_t>(v->parent)];
  }
  return readersHaveWholeAxis(analysis, *v, axis);
}

// Loops over the axes reach every element.
bool areAllReached(const PointwiseAnalysis& analysis, const TensorVersion& version) {
  const auto reached = analysis.terms.wholeDimensions(
      {version.view.begin(),
       version.view.begin() + static_cast<std::ptrdiff_t>(analysis.num_axes)});
  const Ids dims = logicalIds(version.tv);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!dims[d]->isBroadcast() && reached.count(static_cast<int64_t>(d)) == 0) {
      return false;
    }
  }
  return true;
}

// Elements of the reference for each element of the tensor; 0 if that is not known.
int64_t repeats(const PointwiseAnalysis& analysis, const TensorView* tv) {
  const auto elements = [](const TensorView* of) {
    int64_t n = 1;
    for (const IterDomain* id : logicalIds(of)) {
      n *= id->isBroadcast() ? 1 : id->extent()->isConstInt() ? id->extent()->intValue() : 0;
    }
    return n;
  };
  const int64_t own = elements(tv);
  return own == 0 ? 0 : elements(analysis.reference) / own;
}

// The axes that the tensor lacks or has parts of, if it can have tiles: each of the others it has
// whole, so that no element of it is in a tile several times.
std::optional<std::vector<int64_t>> lackingInTiles(const PointwiseAnalysis& analysis,
                                                   const pointwise::TensorAccess& access) {
  const TensorVersion& version = *access.version;
  if (dataTypeSizeBits(access.tv->dtype()) < 8) {
    return std::nullopt;
  }
  std::vector<int64_t> lacking;
  const Ids dims = logicalIds(analysis.reference);
  for (int64_t axis = 0; axis < static_cast<int64_t>(analysis.num_axes); ++axis) {
    if (dims[static_cast<size_t>(axis)]->isBroadcast() ||
        readersHaveWholeAxis(analysis, version, axis)) {
      continue;
    }
    if (!lacksAxis(analysis, version, axis)) {
      return std::nullopt;
    }
    lacking.push_back(axis);
  }
  if (!lacking.empty() && !areAllReached(analysis, version)) {
    return std::nullopt;
  }
  // What is written by few of the blocks may as well be written element by element.
  const int64_t times = repeats(analysis, access.tv);
  if (!lacking.empty() && !access.tv->isFusionInput() &&
      (times == 0 || times * dataTypeSizeBits(access.tv->dtype()) > 8 * kVectorBytes)) {
    return std::nullopt;
  }
  return lacking;
}

// A group has so few elements along its innermost axis (three colours), and no neighbour in memory
// that makes a longer tile with it, that no tile is needed. In loops along it the threads of a warp
// access pieces of the other group's rows; in loops along the other one they read all elements of
// this group's lines by and by, from a cache, but would write each by itself.
bool hasFewAlong(const TransposeAnalysis& analysis, const std::vector<int64_t>& order,
                 const std::vector<int64_t>& others,
                 const std::vector<pointwise::TensorAccess>& group) {
  const Ids dims = logicalIds(analysis.pointwise->reference);
  const auto extent = constInt(dims[static_cast<size_t>(order.back())]->extent());
  const bool is_single = order.size() < 2 || order[order.size() - 2] == others.back();
  const bool has_loops = order.back() == analysis.pointwise->loop_order.back();
  return extent.has_value() && is_single &&
         std::ranges::all_of(group, [&](const pointwise::TensorAccess& access) {
           return (has_loops || access.tv->isFusionInput()) &&
                  *extent * dataTypeSizeBits(access.tv->dtype()) < 8 * kVectorBytes;
         });
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
  struct Candidate { // for the second group
    pointwise::TensorAccess access;
    int64_t axis; // the innermost one
    std::vector<int64_t> lacking;
  };
  std::vector<Candidate> candidates;
  // By axis: of those with all axes, and of the others, which are read again from a cache.
  std::map<int64_t, std::pair<int64_t, int64_t>> bits;
  for (const pointwise::TensorAccess& access : pointwise::tensorAccesses(fusion, analysis)) {
    const int64_t axis = innermostAxis(analysis, *access.version);
    if (axis == axis_1) {
      result->group_1.push_back(access);
      continue;
    }
    if (axis < 0 || is_single(axis_1) || is_single(axis)) {
      continue;
    }
    auto lacking = lackingInTiles(analysis, access);
    const auto is_of_tiles = [&](int64_t a) { return a == axis || a == axis_1; };
    if (lacking && std::ranges::none_of(*lacking, is_of_tiles)) {
      const int64_t own = dataTypeSizeBits(access.tv->dtype());
      (lacking->empty() ? bits[axis].first : bits[axis].second) += own;
      candidates.push_back({access, axis, std::move(*lacking)});
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
  std::set<int64_t> lacking;
  for (const Candidate& candidate : candidates) {
    if (candidate.axis == axis_2) {
      result->group_2.push_back(candidate.access);
      lacking.insert(candidate.lacking.begin(), candidate.lacking.end());
    }
  }
  result->not_in_tiles.assign(lacking.begin(), lacking.end());
  result->order_1 = analysis.loop_order;
  result->order_2 = axesInMemoryOrder(analysis, *result->group_2.front().version);
  if (hasFewAlong(*result, result->order_1, result->order_2, result->group_1) ||
      hasFewAlong(*result, result->order_2, result->order_1, result->group_2)) {
    *why_not = kSameOrder;
    return nullptr;
  }
  return result;
}

} // namespace nvfuser
