// SPDX-License-Identifier: BSD-3-Clause
// The schedule primitives of TensorView: split, merge, flatten, reorder, swizzle, resize, and the
// setters of memory type, allocation and loop domain.
#include <ir/tensor_view.h>

#include <base/error.h>
#include <ir/builder.h>
#include <ir/describe.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace nvfuser {

namespace {

int64_t wrapAxis(const TensorView* tv, int64_t axis, std::string_view what) {
  const int64_t n = tv->nDims();
  const int64_t wrapped = axis < 0 ? axis + n : axis;
  NVF_CHECK(wrapped >= 0 && wrapped < n, "Cannot ", what, " axis ", axis, " of ", describeLoops(tv),
            ": it has ", n, " loop axes");
  return wrapped;
}

// The axis may be transformed: not bound to a parallel type, and not shared with other tensors'
// loops.
void checkTransformable(const TensorView* tv, int64_t axis, std::string_view what) {
  const IterDomain* id = tv->axis(axis);
  NVF_CHECK(id->parallelType() == ParallelType::Serial || id->isDeviceDim() ||
                id->parallelType() == ParallelType::Stream,
            "Cannot ", what, " axis ", axis, " of ", describeLoops(tv),
            ": it is not Serial. Parallelization strategy must be set after calling ", what, ".");
  NVF_CHECK(axis >= tv->getComputeAtPosition(), "Cannot ", what, " axis ", axis, " of ",
            describeLoops(tv), ": it lies within the compute at position ",
            tv->getComputeAtPosition());
  NVF_CHECK(axis >= tv->getMaxProducerPosition(), "Cannot ", what, " axis ", axis, " of ",
            describeLoops(tv), ": it lies within the position ", tv->getMaxProducerPosition(),
            " at which producers are computed");
}

using Ids = std::vector<IterDomain*>;

} // namespace

TensorView* TensorView::split(int64_t axis_, int64_t factor, bool inner_split) {
  NVF_CHECK(factor > 0, "Cannot split an axis of ", describeLoops(this), " by ", factor,
            ": the factor must be > 0");
  return split(axis_, IrBuilder::createIn<Val>(container(), factor, DataType::Index), inner_split);
}

TensorView* TensorView::split(int64_t axis_, Val* factor, bool inner_split) {
  const int64_t at = wrapAxis(this, axis_, "split");
  checkTransformable(this, at, "split");
  NVF_CHECK(factor != nullptr && factor->isScalar() && isIntegral(factor->dtype()),
            "Cannot split an axis of ", describeLoops(this),
            ": the factor must be an integer scalar");
  NVF_CHECK(!factor->isConstInt() || factor->intValue() > 0, "Cannot split an axis of ",
            describeLoops(this), ": the factor must be > 0");
  auto [outer, inner] = IterDomain::split(axis(at), factor, inner_split);
  Ids loop = getLoopDomain();
  loop[static_cast<size_t>(at)] = inner;
  loop.insert(loop.begin() + at, outer);
  domain_->setLoopDomain(std::move(loop));
  return this;
}

TensorView* TensorView::merge(int64_t axis_outer, int64_t axis_inner) {
  const int64_t outer = wrapAxis(this, axis_outer, "merge");
  const int64_t inner = wrapAxis(this, axis_inner, "merge");
  NVF_CHECK(outer != inner, "Cannot merge axis ", outer, " of ", describeLoops(this),
            " with itself");
  checkTransformable(this, outer, "merge");
  checkTransformable(this, inner, "merge");
  IterDomain* merged = IterDomain::merge(axis(outer), axis(inner));
  Ids loop = getLoopDomain();
  loop.erase(loop.begin() + std::max(outer, inner));
  loop[static_cast<size_t>(std::min(outer, inner))] = merged;
  domain_->setLoopDomain(std::move(loop));
  return this;
}

TensorView* TensorView::merge(int64_t axis_) {
  const int64_t at = wrapAxis(this, axis_, "merge");
  NVF_CHECK(at + 1 < nDims(), "Cannot merge axis ", axis_, " of ", describeLoops(this),
            " with the next one: it is the last");
  return merge(at, at + 1);
}

TensorView* TensorView::flatten(int64_t from, int64_t to) {
  if (nDims() == 0) {
    return this;
  }
  const int64_t first = wrapAxis(this, from, "flatten");
  const int64_t last = wrapAxis(this, to, "flatten");
  NVF_CHECK(first <= last, "Cannot flatten axes ", from, " to ", to, " of ", describeLoops(this),
            ": nothing there");
  for (int64_t i = first; i < last; ++i) {
    merge(first, first + 1);
  }
  return this;
}

TensorView* TensorView::reorder(const std::unordered_map<int64_t, int64_t>& old2new) {
  const auto n = static_cast<size_t>(nDims());
  std::vector<int64_t> new2old(n, -1);
  std::vector<bool> moved(n, false);
  for (const auto& [from, to] : old2new) {
    const int64_t old_pos = wrapAxis(this, from, "reorder");
    const int64_t new_pos = wrapAxis(this, to, "reorder");
    NVF_CHECK(!moved[static_cast<size_t>(old_pos)] && new2old[static_cast<size_t>(new_pos)] == -1,
              "Cannot reorder ", describeLoops(this),
              ": found duplicate axes in the map of old to new positions");
    moved[static_cast<size_t>(old_pos)] = true;
    new2old[static_cast<size_t>(new_pos)] = old_pos;
  }
  size_t next = 0;
  for (int64_t& old_pos : new2old) {
    if (old_pos == -1) {
      while (moved[next]) {
        ++next;
      }
      old_pos = static_cast<int64_t>(next++);
    }
  }
  return reorder(new2old);
}

TensorView* TensorView::reorder(const std::vector<int64_t>& permutation) {
  const int64_t n = nDims();
  NVF_CHECK(static_cast<int64_t>(permutation.size()) == n, "Cannot reorder ", describeLoops(this),
            ": the permutation has ", permutation.size(), " entries for ", n, " axes");
  Ids loop;
  std::unordered_set<int64_t> seen;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t old_pos = wrapAxis(this, permutation[static_cast<size_t>(i)], "reorder");
    NVF_CHECK(seen.insert(old_pos).second, "Cannot reorder ", describeLoops(this),
              ": found duplicate axes in the permutation");
    const int64_t fixed = std::max(compute_at_pos_, max_producer_pos_);
    NVF_CHECK(old_pos == i || (old_pos >= fixed && i >= fixed), "Cannot reorder axis ", old_pos,
              " of ", describeLoops(this), ": it lies within the compute at position ", fixed);
    loop.push_back(axis(old_pos));
  }
  domain_->setLoopDomain(std::move(loop));
  return this;
}

TensorView* TensorView::swizzle(SwizzleType type, int64_t x, int64_t y) {
  const int64_t ax = wrapAxis(this, x, "swizzle");
  const int64_t ay = wrapAxis(this, y, "swizzle");
  NVF_CHECK(ax != ay, "Cannot swizzle axis ", x, " of ", describeLoops(this), " with itself");
  checkTransformable(this, ax, "swizzle");
  checkTransformable(this, ay, "swizzle");
  auto powerOfTwo = [](const Val* v) {
    if (!v->isConstInt()) {
      return false;
    }
    const int64_t e = v->intValue();
    return e > 0 && (e & (e - 1)) == 0;
  };
  NVF_CHECK(powerOfTwo(axis(ax)->extent()) && axis(ax)->extent()->sameAs(axis(ay)->extent()),
            "Cannot swizzle axes ", x, " and ", y, " of ", describeLoops(this),
            ": their extents must be the same constant power of two");
  auto [out_x, out_y] = IterDomain::swizzle(type, axis(ax), axis(ay));
  Ids loop = getLoopDomain();
  loop[static_cast<size_t>(ax)] = out_x;
  loop[static_cast<size_t>(ay)] = out_y;
  domain_->setLoopDomain(std::move(loop));
  return this;
}

TensorView* TensorView::resize(int64_t axis_, Val* left, Val* right) {
  const int64_t at = wrapAxis(this, axis_, "resize");
  checkTransformable(this, at, "resize");
  Ids loop = getLoopDomain();
  loop[static_cast<size_t>(at)] = IterDomain::resize(axis(at), left, right);
  domain_->setLoopDomain(std::move(loop));
  return this;
}

void TensorView::setMemoryType(MemoryType type) {
  NVF_CHECK(!(isFusionInput() || isFusionOutput()) || type == MemoryType::Global ||
                type == MemoryType::Symmetric,
            "Tried to set an input or output to the fusion to a non-global memory type: ",
            describeLoops(this));
  memory_type_ = type;
}

namespace {

void checkAllocation(const TensorView* tv, const Ids& allocation) {
  std::unordered_set<const IterDomain*> known;
  for (const IterDomain* id : tv->domain()->allIds()) {
    known.insert(id);
  }
  std::unordered_set<const IterDomain*> seen;
  for (const IterDomain* id : allocation) {
    NVF_CHECK(known.count(id) != 0, "Cannot set the allocation domain of ", describeLoops(tv), ": ",
              id->toString(), " is no dimension of it");
    NVF_CHECK(seen.insert(id).second, "Cannot set the allocation domain of ", describeLoops(tv),
              ": ", id->toString(), " is there twice");
  }
}

} // namespace

void TensorView::setAllocationDomain(std::vector<IterDomain*> allocation, bool contiguous) {
  TensorDomain::Contiguity contiguity = TensorDomain::contiguityFilledWith(allocation, contiguous);
  setAllocationDomain(std::move(allocation), std::move(contiguity));
}

void TensorView::setAllocationDomain(std::vector<IterDomain*> allocation,
                                     TensorDomain::Contiguity contiguity) {
  checkAllocation(this, allocation);
  domain_->setAllocationDomain(std::move(allocation), std::move(contiguity));
}

void TensorView::setLoopDomain(std::vector<IterDomain*> loop) {
  NVF_CHECK(std::max(compute_at_pos_, max_producer_pos_) == 0, "Cannot set the loop domain of ",
            describeLoops(this), ": its loops are shared with other tensors");
  domain_->setLoopDomain(std::move(loop));
}

} // namespace nvfuser
