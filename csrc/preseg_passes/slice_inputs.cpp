// SPDX-License-Identifier: BSD-3-Clause
// A part of an input is a view, which no kernel computes, and a part of what is computed element by
// element is computed of parts: slice(f(x, row)) becomes f(slice(x), row). A rotation of halves of
// rows that were normalized, cat(-y[d / 2:], y[:d / 2]) with y = x * rsqrt(mean(x * x)), is then
// computed of two parts of x in the kernel that reduces x, where y itself would have to be written
// before anything else could read it at other places. A part of a count counts from another number
// on, a part of a stack is what was stacked, and one of several repetitions is what is repeated.
#include <preseg_passes/passes.h>

#include <ir/builder.h>
#include <ir/exprs.h>
#include <ir/op_traits.h>
#include <ops/creation.h>
#include <ops/elementwise.h>
#include <ops/shape.h>
#include <ops/shape_internal.h>
#include <ops/utils.h>
#include <preseg_passes/parts_of_tensors.h>
#include <preseg_passes/rewriter.h>
#include <transform/cache.h>
#include <transform/replay.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace nvfuser {

namespace {

using Ids = TensorDomain::Ids;

// What is taken of a dimension; `size` is null where that is all of it.
struct Range {
  Val* start = nullptr;
  Val* stop = nullptr;
  Val* size = nullptr;
  IterType type = IterType::Iteration;
  bool operator==(const Range&) const = default;
  auto operator<=>(const Range&) const = default;
};
using Ranges = std::vector<Range>; // of each dimension of a tensor

bool takesAll(const Ranges& ranges) {
  return std::all_of(ranges.begin(), ranges.end(),
                     [](const Range& r) { return r.size == nullptr; });
}

class SlicePusher {
 public:
  // `taken_apart`: whose parts are made of parts of parts.
  SlicePusher(Fusion* fusion, std::unordered_set<const Val*> taken_apart)
      : fusion_(fusion), taken_apart_(std::move(taken_apart)) {}

  void push(Expr* slice) {
    auto* source = slice->input(0)->as<TensorView>();
    auto* part = slice->output(0)->as<TensorView>();
    if (source->isFusionInput() || part->isFusionOutput()) {
      return;
    }
    through_slices_ = taken_apart_.count(source) != 0;
    reached_.clear();
    const std::optional<Ranges> ranges = rangesOfSlice(part);
    if (!ranges.has_value() || !reaches(source, *ranges)) {
      return;
    }
    location_ = part->sourceLocation();
    TensorView* made = sliced(source, *ranges);
    if (source->isFusionOutput() && !takesAll(*ranges)) {
      parts_[source].push_back({made, *ranges});
    }
    const std::vector<Expr*> uses = part->uses();
    for (Expr* use : uses) {
      if (TensorView* before = beforeBroadcast(made, use)) {
        readInstead(use->output(0)->as<TensorView>(), before);
      } else {
        fusion_->replaceExprInput(use, part, made);
      }
    }
  }

  // What is returned, and else only read in parts that were pushed, is these side by side: its
  // elements are computed once.
  void joinReturned() {
    for (Val* out : fusion_->outputs()) {
      const auto found = parts_.find(out);
      if (found == parts_.end() || !fusion_->liveUses(out).empty() ||
          out->as<TensorView>()->domain()->hasAllocation()) {
        continue;
      }
      auto* whole = out->as<TensorView>();
      const std::optional<size_t> dim = sideBySide(whole, found->second);
      if (!dim.has_value()) {
        continue;
      }
      std::vector<TensorView*> tensors;
      for (const Taken& part : found->second) {
        tensors.push_back(part.tv);
      }
      computeAs(whole, cat(tensors, static_cast<int64_t>(*dim)));
    }
  }

 private:
  struct Taken {
    TensorView* tv = nullptr;
    Ranges ranges = {};
  };

  // Sorts the parts, none of which is all of the tensor, and drops those that are there twice. The
  // dimension along which they are then all of it.
  static std::optional<size_t> sideBySide(const TensorView* whole, std::vector<Taken>& parts) {
    const Ids dims = logicalIds(whole);
    std::optional<size_t> along;
    for (const Taken& part : parts) {
      for (size_t d = 0; d < dims.size(); ++d) {
        const Range& r = part.ranges[d];
        if (r.size == nullptr) {
          continue;
        }
        if (along.value_or(d) != d || !r.start->isConstInt() || !r.stop->isConstInt()) {
          return std::nullopt;
        }
        along = d;
      }
    }
    const auto range = [&](const Taken& part) -> const Range& { return part.ranges[*along]; };
    std::ranges::sort(parts, {}, [&](const Taken& part) { return range(part).start->intValue(); });
    parts.erase(std::unique(parts.begin(), parts.end(),
                            [](const Taken& a, const Taken& b) { return a.tv == b.tv; }),
                parts.end());
    int64_t end = 0;
    for (const Taken& part : parts) {
      if (range(part).start->intValue() != end) {
        return std::nullopt;
      }
      end = range(part).stop->intValue();
    }
    const Val* extent = dims[*along]->getMaybeExpandedExtent();
    return parts.size() > 1 && extent->isConstInt() && extent->intValue() == end ? along
                                                                                 : std::nullopt;
  }

  void readInstead(TensorView* tv, TensorView* by) {
    const std::vector<Expr*> uses = tv->uses();
    for (Expr* use : uses) {
      fusion_->replaceExprInput(use, tv, by);
    }
  }

  // What the dimension was given to that the use takes away again, as that of what is stacked; null
  // if it does not.
  static TensorView* beforeBroadcast(const TensorView* tv, const Expr* use) {
    const auto* added = tryAs<BroadcastOp>(tv->definition());
    const auto* removed = tryAs<SqueezeOp>(use);
    const bool is_undone = added != nullptr && removed != nullptr &&
                           added->isBroadcastDim() == removed->isSqueezeDim() &&
                           !removed->output(0)->isFusionOutput();
    return is_undone ? added->input(0)->as<TensorView>() : nullptr;
  }

  // The same for all constants of one value, so that equal ranges are.
  Val* shared(Val* v) {
    if (!v->isConstInt()) {
      return v;
    }
    Val*& known = constants_[v->intValue()];
    known = known == nullptr ? v : known;
    return known;
  }
  Range shared(const Range& r) {
    return {shared(r.start), shared(r.stop), shared(r.size), r.type};
  }

  std::optional<Ranges> rangesOfSlice(const TensorView* part) {
    const auto* op = static_cast<const SliceOp*>(part->definition());
    const Ids dims = logicalIds(part);
    const Ids sliced = logicalIds(op->input(0));
    Ranges out(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d]->isSymbolicType()) {
        return std::nullopt;
      }
      if (tryAs<Resize>(dims[d]->definition()) != nullptr) {
        out[d] = shared({op->starts()[d], op->stops()[d], dims[d]->extent(), dims[d]->iterType()});
      } else if (sliced[d]->hasExpandedExtent() &&
                 !sliced[d]->getMaybeExpandedExtent()->sameAs(dims[d]->getMaybeExpandedExtent())) {
        // Fewer are left, perhaps one.
        return std::nullopt;
      }
    }
    return out;
  }

  // Which part of an operand the part of the result is made of.
  static std::optional<Ranges> rangesOf(const TensorView* in, const Expr* e, const Ranges& ranges) {
    const auto* out = e->output(0)->as<TensorView>();
    const Ids out_dims = logicalIds(out);
    const Ids in_dims = logicalIds(in);
    Ranges of_in(in_dims.size());
    // By positions in the root: only a permutation has one here.
    IterDomainMap to_in = PairwiseLogicalMap(in, out).consumerToProducer();
    for (size_t d = 0; d < out_dims.size(); ++d) {
      if (ranges[d].size == nullptr) {
        continue;
      }
      const auto it = to_in.find(out_dims[d]);
      const auto at =
          it == to_in.end() ? in_dims.end() : std::find(in_dims.begin(), in_dims.end(), it->second);
      const bool is_repeated = out_dims[d]->hasExpandedExtent();
      if (at == in_dims.end() || (*at)->isSymbolicType() || is_repeated) {
        return std::nullopt;
      }
      if (!(*at)->isBroadcast()) {
        of_in[static_cast<size_t>(at - in_dims.begin())] = ranges[d];
      } else if ((*at)->hasExpandedExtent()) {
        return std::nullopt;
      }
    }
    return of_in;
  }

  // A part of a part.
  std::optional<Ranges> rangesOfSource(const TensorView* part, const Ranges& ranges) {
    std::optional<Ranges> out = rangesOfSlice(part);
    for (size_t d = 0; out.has_value() && d < ranges.size(); ++d) {
      const Range& taken = ranges[d];
      Range& of_source = (*out)[d];
      if (taken.size == nullptr || of_source.size == nullptr) {
        of_source = taken.size == nullptr ? of_source : taken;
        continue;
      }
      if (!of_source.start->isConstInt() || !taken.start->isConstInt() ||
          !taken.stop->isConstInt()) {
        return std::nullopt; // a chain that grows
      }
      const int64_t first = of_source.start->intValue();
      of_source =
          shared({IrBuilder::index(first + taken.start->intValue()),
                  IrBuilder::index(first + taken.stop->intValue()), taken.size, taken.type});
    }
    return out;
  }

  static bool isSupported(const Expr* e) {
    return e->kind() == ExprKind::FullOp || isCount(e) ||
           (isByPosition(e) && !isBoundary(e) &&
            (e->kind() != ExprKind::ExpandOp || isGenerated(e->input(0))));
  }

  // Of counts and constants: parts of it cost no more than the whole, however often it is repeated.
  static bool isGenerated(const Val* tv) {
    constexpr int kMostSteps = 8;
    for (int step = 0; step < kMostSteps; ++step) {
      const Expr* e = tv->definition();
      const auto ins = e == nullptr ? std::vector<TensorView*>() : tensorInputs(e);
      if (ins.size() != 1) {
        return e != nullptr && (isCount(e) || e->kind() == ExprKind::FullOp);
      }
      tv = ins.front();
    }
    return false;
  }

  // Integers, of which a part counts from another one on.
  static bool isCount(const Expr* e) {
    return e->kind() == ExprKind::IotaOp && isIntegral(e->output(0)->dtype());
  }

  // Of what is stacked: the part that is taken, and what is taken of that.
  static std::optional<Taken> takenOfStack(const Expr* e, const Ranges& ranges) {
    const auto* cat = tryAs<CatOp>(e);
    if (cat == nullptr) {
      return std::nullopt;
    }
    const auto dim = static_cast<size_t>(cat->dim());
    const Range& taken = ranges[dim];
    const bool is_one =
        taken.size != nullptr && taken.size->isOneInt() && taken.start->isConstInt();
    Taken part{is_one ? stackedAt(cat, taken.start->intValue()) : nullptr, ranges};
    part.ranges[dim] = {};
    return part.tv == nullptr ? std::nullopt : std::optional(std::move(part));
  }

  // What such a part repeats none of and is all of; null if there is none.
  TensorView* repeatedAs(TensorView* tv, const Ranges& ranges) {
    const Expr* e = tv->definition();
    if (e == nullptr || e->kind() != ExprKind::ReshapeOp) {
      return nullptr;
    }
    std::vector<Val*> starts;
    std::vector<Val*> stops;
    startsAndStops(tv, ranges, starts, stops);
    const std::optional<Part> part = finder_.partOf(tv, starts, stops);
    return part.has_value() && part->source != tv && part->isAll() ? part->source : nullptr;
  }

  // All that would be sliced is an input, or a constant, or stacked, or repeated.
  bool reaches(TensorView* tv, const Ranges& ranges) {
    if (tv->isFusionInput()) {
      return !tv->isCpuScalar();
    }
    Expr* e = tv->definition();
    if (through_slices_ && e != nullptr && e->kind() == ExprKind::SliceOp) {
      const std::optional<Ranges> of_source = rangesOfSource(tv, ranges);
      return of_source.has_value() && reaches(e->input(0)->as<TensorView>(), *of_source);
    }
    if (const std::optional<Taken> part = takenOfStack(e, ranges)) {
      return takesAll(part->ranges) || reaches(part->tv, part->ranges);
    }
    if (repeatedAs(tv, ranges) != nullptr) {
      return true;
    }
    if (e == nullptr || !isSupported(e)) {
      return false;
    }
    if (!reached_.emplace(tv, ranges).second) {
      return true; // or it was found that something is not reached
    }
    if (reached_.size() > kMostOperations) {
      return false;
    }
    for (Val* v : e->inputs()) {
      if (!v->isTensor() || v->as<TensorView>()->getLogicalDomain().empty()) {
        continue;
      }
      const std::optional<Ranges> of_in = rangesOf(v->as<TensorView>(), e, ranges);
      if (!of_in.has_value() || (!takesAll(*of_in) && !reaches(v->as<TensorView>(), *of_in))) {
        return false;
      }
    }
    return true;
  }

  TensorView* sliced(TensorView* tv, const Ranges& ranges) {
    if (takesAll(ranges)) {
      return tv;
    }
    if (!tv->isFusionInput() && tv->definition()->kind() == ExprKind::SliceOp) {
      return sliced(tv->definition()->input(0)->as<TensorView>(), *rangesOfSource(tv, ranges));
    }
    if (const std::optional<Taken> part = takenOfStack(tv->definition(), ranges)) {
      return sliced(part->tv, part->ranges);
    }
    if (TensorView* repeated = repeatedAs(tv, ranges)) {
      return repeated;
    }
    TensorView*& known = sliced_[{tv, ranges}];
    if (known == nullptr) {
      known = tv->isFusionInput() ? slicedInput(tv, ranges) : computed(tv, ranges);
      known->setSourceLocation(location_);
    }
    return known;
  }

  static void startsAndStops(const TensorView* tv, const Ranges& ranges, std::vector<Val*>& starts,
                             std::vector<Val*>& stops) {
    const Ids dims = logicalIds(tv);
    for (size_t d = 0; d < dims.size(); ++d) {
      const Range& r = ranges[d];
      const bool all = r.size == nullptr;
      starts.push_back(all ? tv->container()->zeroVal() : r.start);
      stops.push_back(all ? dims[d]->getMaybeExpandedExtent() : r.stop);
    }
  }

  static TensorView* slicedInput(TensorView* tv, const Ranges& ranges) {
    const Ids dims = logicalIds(tv);
    std::vector<Val*> starts;
    std::vector<Val*> stops;
    startsAndStops(tv, ranges, starts, stops);
    std::vector<Val*> sizes;
    ops_utils::DecidedTypes types;
    for (size_t d = 0; d < dims.size(); ++d) {
      const Range& r = ranges[d];
      const bool all = r.size == nullptr;
      sizes.push_back(all ? dims[d]->getMaybeExpandedExtent() : r.size);
      types.push_back(all ? std::nullopt : std::optional(r.type));
    }
    return ops_utils::sliceTo(tv, starts, stops, types, sizes);
  }

  TensorView* computed(TensorView* tv, const Ranges& ranges) {
    Expr* e = tv->definition();
    std::unordered_map<Val*, Val*> replaced;
    for (Val* v : e->inputs()) {
      if (v->isTensor() && !v->as<TensorView>()->getLogicalDomain().empty()) {
        auto* in = v->as<TensorView>();
        replaced[in] = sliced(in, *rangesOf(in, e, ranges));
      }
    }
    if (replaced.size() == 1) {
      if (TensorView* before = beforeBroadcast(replaced.begin()->second->as<TensorView>(), e)) {
        return before;
      }
    }
    TensorView* out = likePart(tv, ranges);
    replaced[tv] = out;
    if (isCount(e)) {
      const auto* count = static_cast<const IotaOp*>(e);
      Val* first = IrBuilder::addExpr(count->start(),
                                      IrBuilder::mulExpr(ranges.front().start, count->step()));
      IrBuilder::createIn<IotaOp>(fusion_, out, ranges.front().size, first, count->step());
    } else if (e->kind() == ExprKind::ExpandOp) {
      std::vector<Val*> shape;
      for (const IterDomain* id : out->getLogicalDomain()) {
        shape.push_back(id->getMaybeExpandedExtent());
      }
      IrBuilder::createIn<ExpandOp>(fusion_, out, replaced.at(e->input(0)), std::move(shape));
    } else {
      copyExprWith(fusion_, e, replaced);
    }
    return out;
  }

  // A tensor with the dimensions of a part.
  static TensorView* likePart(TensorView* tv, const Ranges& ranges) {
    const Ids dims = logicalIds(tv);
    std::unordered_map<const IterDomain*, IterDomain*> of;
    Ids logical;
    for (size_t d = 0; d < dims.size(); ++d) {
      const Range& r = ranges[d];
      IterDomainBuilder builder(dims[d]);
      logical.push_back(r.size == nullptr ? builder.isRfactor(false).build()
                                          : IterDomainBuilder(r.size).iterType(r.type).build());
      of[dims[d]] = logical.back();
    }
    Ids root;
    if (tv->hasRoot()) {
      for (const IterDomain* id : tv->getRootDomain()) {
        root.push_back(of.at(id));
      }
    }
    return ops_utils::makeTensor(std::move(root), std::move(logical), tv->dtype());
  }

  // That are computed again for a part.
  static constexpr size_t kMostOperations = 96;

  Fusion* fusion_;
  const std::unordered_set<const Val*> taken_apart_;
  PartFinder finder_;
  std::unordered_map<int64_t, Val*> constants_;
  std::map<std::pair<TensorView*, Ranges>, TensorView*> sliced_; // for all slices
  std::unordered_map<const Val*, std::vector<Taken>> parts_;     // of each that is returned
  // Of the slice that is pushed.
  bool through_slices_ = false; // what is sliced may be made of slices
  std::set<std::pair<const TensorView*, Ranges>> reached_;
  std::string location_;
};

} // namespace

void sliceInputs(Fusion* fusion) {
  const std::vector<Expr*> exprs = fusion->exprs();
  const auto is_slice = [](const Expr* e) { return e->kind() == ExprKind::SliceOp; };
  // What is taken apart is made of parts of what it is made of. A chain of slices, each of which is
  // the only reader of the one before, would be computed again and again.
  std::unordered_set<const Val*> taken_apart;
  for (const Expr* e : exprs) {
    const std::vector<Expr*> readers =
        is_slice(e) ? fusion->liveUses(e->input(0)) : std::vector<Expr*>();
    if (readers.size() > 1 && std::ranges::all_of(readers, is_slice)) {
      taken_apart.insert(e->input(0));
    }
  }
  // What parts of parts are made of is found by those that were sliced last, and shared.
  SlicePusher pusher(fusion, std::move(taken_apart));
  for (size_t i = exprs.size(); i-- > 0;) {
    if (is_slice(exprs[i])) {
      pusher.push(exprs[i]);
    }
  }
  fusion->removeDeadUses();
  pusher.joinReturned();
  fusion->removeDeadUses();
}

} // namespace nvfuser
