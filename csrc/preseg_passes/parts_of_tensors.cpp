// SPDX-License-Identifier: BSD-3-Clause
#include <preseg_passes/parts_of_tensors.h>

#include <ir/exprs.h>
#include <ir/op_traits.h>
#include <ops/shape_internal.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace nvfuser {

int64_t productOf(const Extents& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

Extents Part::extentsOf(const Factors& some) const {
  Extents out;
  for (const size_t f : some) {
    out.push_back(factors[f].extent);
  }
  return out;
}

Part::Factors Part::orderOfAll() const {
  Factors order;
  for (const Factors& dim : dims) {
    order.insert(order.end(), dim.begin(), dim.end());
  }
  const bool is_all = !order.empty() && order.size() == factors.size() &&
                      std::ranges::none_of(factors, &Factor::repeats);
  return is_all && order.back() + 1 == order.size() ? order : Factors();
}

bool Part::isAll() const {
  size_t next = 0;
  const auto ids = source == nullptr ? std::vector<IterDomain*>() : logicalIds(source);
  const bool has_dims =
      ids.size() == dims.size() &&
      std::equal(ids.begin(), ids.end(), dims.begin(),
                 [&](const IterDomain* id, const Factors& dim) {
                   return constInt(id->extent()) == productOf(extentsOf(dim)) &&
                          std::ranges::all_of(dim, [&](size_t f) { return f == next++; });
                 });
  return has_dims && source != nullptr && next == factors.size() &&
         std::ranges::none_of(factors, &Factor::repeats);
}

namespace {

// A factor becomes several, all of what it is in. The number of the first one is the same.
void splitFactor(Part& part, size_t f, const Extents& into) {
  const Part::Factor old = part.factors[f];
  std::vector<Part::Factor> pieces;
  int64_t inner = old.extent;
  for (const int64_t extent : into) {
    inner /= extent;
    pieces.push_back({extent, std::nullopt, old.repeats});
    if (old.taken.has_value()) {
      pieces.back().taken = *old.taken / inner % extent;
    }
  }
  const auto at = part.factors.begin() + static_cast<int64_t>(f);
  part.factors.insert(part.factors.erase(at), pieces.begin(), pieces.end());
  for (Part::Factors& dim : part.dims) {
    Part::Factors renumbered;
    for (const size_t g : dim) {
      if (g != f) {
        renumbered.push_back(g < f ? g : g + into.size() - 1);
        continue;
      }
      for (size_t i = 0; i < into.size(); ++i) {
        renumbered.push_back(f + i);
      }
    }
    dim = std::move(renumbered);
  }
}

// The number of the leading factors of a dimension that have `extent` elements, which takes a split
// of one of them perhaps; null if there are none.
std::optional<size_t> leadingFactors(Part& part, size_t dim, int64_t extent) {
  for (size_t i = 0; i < part.dims[dim].size(); ++i) {
    if (extent == 1) {
      return i;
    }
    const size_t f = part.dims[dim][i];
    const int64_t has = part.factors[f].extent;
    if (extent % has == 0) {
      extent /= has;
      continue;
    }
    if (has % extent != 0) {
      return std::nullopt;
    }
    splitFactor(part, f, {extent, has / extent});
    return i + 1;
  }
  return extent == 1 ? std::optional(part.dims[dim].size()) : std::nullopt;
}

// Repetitions of which one is taken are none.
void dropTakenRepetitions(Part& part) {
  for (size_t f = part.factors.size(); f-- > 0;) {
    if (!part.factors[f].repeats || !part.factors[f].taken.has_value()) {
      continue;
    }
    part.factors.erase(part.factors.begin() + static_cast<int64_t>(f));
    for (Part::Factors& dim : part.dims) {
      for (size_t& g : dim) {
        g -= g > f ? 1 : 0;
      }
    }
  }
}

// One of equal ranges that a dimension is split into, or all of it.
bool take(Part& part, const std::vector<Val*>& starts, const std::vector<Val*>& stops) {
  for (size_t d = 0; d < part.dims.size(); ++d) {
    const auto start = constInt(starts[d]);
    const auto stop = constInt(stops[d]);
    const int64_t extent = productOf(part.extentsOf(part.dims[d]));
    if (start == 0 && stop == extent) {
      continue;
    }
    const int64_t width = stop.value_or(0) - start.value_or(0);
    if (!start.has_value() || width <= 0 || extent % width != 0 || *start % width != 0) {
      return false;
    }
    const auto leading = leadingFactors(part, d, extent / width);
    if (!leading.has_value()) {
      return false;
    }
    Part::Factors& dim = part.dims[d];
    int64_t number = *start / width;
    for (size_t i = *leading; i-- > 0;) {
      Part::Factor& factor = part.factors[dim[i]];
      factor.taken = number % factor.extent;
      number /= factor.extent;
    }
    dim.erase(dim.begin(), dim.begin() + static_cast<int64_t>(*leading));
  }
  dropTakenRepetitions(part);
  return true;
}

// Dimensions of size 1 become several equal elements.
bool repeatAs(Part& part, const std::vector<IterDomain*>& expanded) {
  for (size_t d = 0; d < part.dims.size(); ++d) {
    const auto extent = constInt(expanded[d]->getMaybeExpandedExtent());
    if (!extent.has_value() || *extent < 1 ||
        (*extent > 1 && part.dims[d].empty() && !expanded[d]->isBroadcast())) {
      return false;
    }
    if (part.dims[d].empty() && *extent > 1) {
      part.dims[d].push_back(part.factors.size());
      part.factors.push_back({*extent, std::nullopt, true});
    }
  }
  return true;
}

bool leaveOut(Part& part, const SqueezeOp* squeeze) {
  std::vector<Part::Factors> dims;
  for (size_t d = 0; d < part.dims.size(); ++d) {
    if (!squeeze->isSqueezeDim()[d]) {
      dims.push_back(part.dims[d]);
    } else if (!part.dims[d].empty()) {
      return false;
    }
  }
  part.dims = std::move(dims);
  return true;
}

bool addDims(Part& part, const BroadcastOp* broadcast) {
  std::vector<Part::Factors> dims;
  auto next = part.dims.begin();
  for (const bool is_new : broadcast->isBroadcastDim()) {
    dims.push_back(is_new ? Part::Factors{} : *next++);
  }
  part.dims = std::move(dims);
  return true;
}

bool reshapeTo(Part& part, const std::vector<IterDomain*>& into) {
  Part::Factors all;
  for (const Part::Factors& dim : part.dims) {
    all.insert(all.end(), dim.begin(), dim.end());
  }
  part.dims = {all};
  for (const IterDomain* id : into) {
    const auto extent = constInt(id->getMaybeExpandedExtent());
    // What is left is the last of the dimensions, so that a split renumbers all of them.
    const auto leading = extent.has_value() && *extent > 0
                             ? leadingFactors(part, part.dims.size() - 1, *extent)
                             : std::nullopt;
    if (!leading.has_value()) {
      return false;
    }
    Part::Factors& rest = part.dims.back();
    const auto end = rest.begin() + static_cast<int64_t>(*leading);
    Part::Factors dim(rest.begin(), end);
    rest.erase(rest.begin(), end);
    part.dims.insert(part.dims.end() - 1, std::move(dim));
  }
  part.dims.pop_back();
  return true;
}

// The order is empty where an operation is no permutation.
bool permuteBy(Part& part, const std::vector<int64_t>& order) {
  if (order.empty()) {
    return false;
  }
  std::vector<Part::Factors> dims;
  for (const int64_t d : order) {
    dims.push_back(part.dims[static_cast<size_t>(d)]);
  }
  part.dims = std::move(dims);
  return true;
}

// Of the taken factors those of which the parts have different elements, split so that these are
// all of the factor, and alike in all parts. Null if they are not.
std::optional<Part::Factors> separateFactors(std::vector<Part>& parts) {
  Part::Factors out;
  for (size_t f = 0; f < parts.front().factors.size(); ++f) {
    std::set<int64_t> taken;
    for (const Part& part : parts) {
      const Part::Factor& first = parts.front().factors[f];
      if (f >= part.factors.size() || part.factors[f].extent != first.extent ||
          part.factors[f].taken.has_value() != first.taken.has_value()) {
        return std::nullopt;
      }
      taken.insert(part.factors[f].taken.value_or(0));
    }
    if (taken.size() == 1) {
      continue;
    }
    const auto count = static_cast<int64_t>(taken.size());
    const int64_t step = *std::next(taken.begin()) - *taken.begin();
    const int64_t extent = parts.front().factors[f].extent;
    if (extent % (count * step) != 0 || *taken.rbegin() - *taken.begin() != (count - 1) * step) {
      return std::nullopt;
    }
    // The pieces around it are alike in all parts if the elements follow one another like that.
    const bool has_outer = count * step != extent;
    Extents into = {count};
    if (has_outer) {
      into.insert(into.begin(), extent / (count * step));
    }
    if (step != 1) {
      into.push_back(step);
    }
    for (Part& part : parts) {
      splitFactor(part, f, into);
    }
    f += has_outer ? 1 : 0;
    out.push_back(f);
    f += step != 1 ? 1 : 0;
  }
  return out;
}

// The factors in the order in which the parts follow one another, slowest first; empty if they do
// otherwise.
Part::Factors orderOf(const std::vector<Part>& parts, Part::Factors factors) {
  const auto numberOf = [&](const Part& part, size_t f) { return *part.factors[f].taken; };
  std::vector<int64_t> strides(parts.front().factors.size(), 0); // in numbers of parts
  int64_t combinations = 1;
  for (const size_t f : factors) {
    // The second of this factor and the first of all others.
    const auto second = std::find_if(parts.begin(), parts.end(), [&](const Part& part) {
      return std::ranges::all_of(factors,
                                 [&](size_t g) { return numberOf(part, g) == (g == f ? 1 : 0); });
    });
    if (second == parts.end()) {
      return {};
    }
    strides[f] = second - parts.begin();
    combinations *= parts.front().factors[f].extent;
  }
  if (combinations != static_cast<int64_t>(parts.size())) {
    return {};
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    int64_t number = 0;
    for (const size_t f : factors) {
      number += strides[f] * numberOf(parts[i], f);
    }
    if (number != static_cast<int64_t>(i)) {
      return {};
    }
  }
  std::ranges::sort(factors, [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  return factors;
}

// The parts side by side are one if they differ in what they take of some factors alone: all of
// these.
std::optional<Part> joined(std::vector<Part> parts, size_t dim) {
  const auto factors = separateFactors(parts);
  const Part::Factors order =
      factors.has_value() && !factors->empty() ? orderOf(parts, *factors) : Part::Factors();
  for (const size_t f : order) {
    for (Part& part : parts) {
      part.factors[f].taken.reset();
    }
  }
  const bool are_alike = std::ranges::all_of(parts, [&](const Part& part) {
    return part.source == parts.front().source && part.factors == parts.front().factors &&
           part.dims == parts.front().dims;
  });
  if (order.empty() || !are_alike) {
    return std::nullopt;
  }
  Part whole = parts.front();
  whole.dims[dim].insert(whole.dims[dim].begin(), order.begin(), order.end());
  return whole;
}

Part wholeOf(TensorView* tv) {
  Part whole{tv};
  for (const IterDomain* id : logicalIds(tv)) {
    const auto extent = constInt(id->extent());
    if (!id->isIteration() || !extent.has_value() || *extent < 1) {
      return {};
    }
    whole.dims.emplace_back();
    if (*extent != 1) {
      whole.dims.back().push_back(whole.factors.size());
      whole.factors.push_back({*extent});
    }
  }
  return whole;
}

} // namespace

const Part& PartFinder::partOf(TensorView* tv) {
  const auto found = parts_.find(tv);
  if (found != parts_.end()) {
    return found->second;
  }
  Part part = partOfInput(tv);
  if (part.source == nullptr) {
    part = wholeOf(tv);
  }
  return parts_[tv] = std::move(part);
}

std::optional<Part> PartFinder::partOf(TensorView* tv, const std::vector<Val*>& starts,
                                       const std::vector<Val*>& stops) {
  Part part = partOf(tv);
  return part.source != nullptr && take(part, starts, stops) ? std::optional(std::move(part))
                                                             : std::nullopt;
}

std::optional<Part> PartFinder::joinedBy(const CatOp* cat) {
  std::vector<Part> parts;
  for (TensorView* in : ops_utils::joinedBy(cat)) {
    parts.push_back(partOf(in));
    if (parts.back().source == nullptr || parts.back().source != parts.front().source) {
      return std::nullopt;
    }
  }
  return parts.size() < 2 ? std::nullopt
                          : joined(std::move(parts), static_cast<size_t>(cat->dim()));
}

Part PartFinder::partOfInput(TensorView* tv) {
  const Expr* e = tv->definition();
  if (e == nullptr || isBoundary(e)) {
    return {};
  }
  switch (e->kind()) {
    case ExprKind::CatOp:
      return joinedBy(static_cast<const CatOp*>(e)).value_or(Part());
    case ExprKind::SliceOp:
      return viewedPart(e, [&](Part& part) {
        const auto* slice = static_cast<const SliceOp*>(e);
        return take(part, slice->starts(), slice->stops());
      });
    case ExprKind::ExpandOp:
      return viewedPart(e, [&](Part& part) { return repeatAs(part, logicalIds(tv)); });
    case ExprKind::SqueezeOp:
      return viewedPart(
          e, [&](Part& part) { return leaveOut(part, static_cast<const SqueezeOp*>(e)); });
    case ExprKind::BroadcastOp:
      return viewedPart(
          e, [&](Part& part) { return addDims(part, static_cast<const BroadcastOp*>(e)); });
    case ExprKind::ReshapeOp:
      return viewedPart(e, [&](Part& part) { return reshapeTo(part, logicalIds(tv)); });
    case ExprKind::LoadStoreOp:
      return viewedPart(e, [&](Part& part) {
        return (!tv->hasRoot() && isPlainCopy(e)) || permuteBy(part, permutationOf(e));
      });
    default:
      return {};
  }
}

Part PartFinder::viewedPart(const Expr* view, const std::function<bool(Part&)>& follow) {
  auto* in = tryAs<TensorView>(view->input(0));
  Part part = in == nullptr ? Part() : partOf(in);
  return part.source != nullptr && follow(part) ? part : Part();
}

} // namespace nvfuser
