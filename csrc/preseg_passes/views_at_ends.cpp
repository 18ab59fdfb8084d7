// SPDX-License-Identifier: BSD-3-Clause
// Views at the ends of a definition, which no kernel has to compute: model code flattens the tokens
// of a batch before it computes with them, and gives the result its batches back.
// * What is made of an input by a reshape or by squeezing dimensions of size 1 is an input too: the
//   same memory seen with other dimensions. A kernel that computes it has one tensor more between
//   memory and registers, which schedulers have to see through, and some can not.
// * What is returned after a reshape, a squeeze or a broadcast of one element is made without it.
//   If it is returned without it too, both are the same memory. So are an operand of a library and
//   what is returned of it, also with permuted dimensions.
// * Parts that are returned of one tensor, each in one piece of its memory, are views of it if they
//   are all of it, or if it is returned too: the gradients of what was stacked.
#include <preseg_passes/passes.h>

#include <ir/builder.h>
#include <ir/exprs.h>
#include <ir/logical_map.h>
#include <ops/elementwise.h>
#include <ops/shape_internal.h>
#include <preseg_passes/input_bits.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace nvfuser {

namespace {

using Ids = TensorDomain::Ids;

bool isInLogicalOrder(const TensorView* tv) {
  const Ids memory = TensorDomain::noReductions(tv->getMaybeAllocationDomain());
  return memory == TensorDomain::noReductions(tv->getLogicalDomain());
}

// Positions among the dimensions of an input that a dimension is made of.
struct Range {
  size_t first;
  size_t last;
};

// The contiguity of an input whose dimensions are merged and split as the reshape does. nullopt: it
// has to be copied, as there are gaps between what is merged.
std::optional<TensorDomain::Contiguity> contiguityOf(const TensorView* source,
                                                     const TensorView* reshaped) {
  const Ids& dims = source->getLogicalDomain();
  const TensorDomain::Contiguity& contiguity = source->getContiguity();
  if (!isInLogicalOrder(source) || std::ranges::any_of(dims, &IterDomain::hasExpandedExtent)) {
    return std::nullopt;
  }
  std::unordered_map<const IterDomain*, Range> ranges;
  const Ids& root = reshaped->getMaybeRootDomain();
  for (size_t i = 0; i < root.size(); ++i) {
    ranges[root[i]] = {i, i};
  }
  const Ids& logical = reshaped->getLogicalDomain();
  for (const Expr* e : transformsBetween(root, logical)) {
    if (e->kind() != ExprKind::Merge && e->kind() != ExprKind::Split) {
      return std::nullopt;
    }
    const Range range{ranges.at(e->input(0)->as<IterDomain>()).first,
                      e->kind() == ExprKind::Merge
                          ? ranges.at(static_cast<const Merge*>(e)->inner()).last
                          : ranges.at(e->input(0)->as<IterDomain>()).last};
    for (size_t i = range.first; i < range.last && e->kind() == ExprKind::Merge; ++i) {
      if (!contiguity.at(i).value_or(true)) {
        return std::nullopt;
      }
    }
    for (Val* out : e->outputs()) {
      if (out->isA<IterDomain>()) {
        ranges[out->as<IterDomain>()] = range;
      }
    }
  }
  TensorDomain::Contiguity out(logical.size(), std::nullopt);
  const IterDomain* next = nullptr;
  for (size_t i = logical.size(); i-- > 0;) {
    if (logical[i]->isBroadcast()) {
      continue;
    }
    const Range own = ranges.at(logical[i]);
    if (next != nullptr && ranges.at(next).first <= own.last) {
      out[i] = true; // parts of one dimension
    } else {
      size_t last = own.last;
      while (last > own.first && !contiguity.at(last).has_value()) {
        --last;
      }
      out[i] = contiguity.at(last).value_or(true);
    }
    next = logical[i];
  }
  return out;
}

class InputViewer {
 public:
  InputViewer(Fusion* fusion, const std::unordered_set<const TensorView*>& kept, MovedViews& views)
      : fusion_(fusion), kept_(kept), views_(views) {}

  // Of the inputs as they are, not of views that it makes. Whether there are any.
  bool run() {
    std::vector<std::pair<const Expr*, TensorView*>> found;
    for (const Expr* e : fusion_->exprs()) {
      if (TensorView* view = viewFor(e)) {
        found.emplace_back(e, view);
      }
    }
    std::unordered_set<const TensorView*> added;
    for (const auto& [e, view] : found) {
      if (added.insert(view).second) {
        auto* source = e->input(0)->as<TensorView>();
        view->setSourceLocation(source->sourceLocation());
        fusion_->addInput(view);
        views_.inputs.push_back({view, source, {}});
      }
      const std::vector<Expr*> uses = e->output(0)->uses();
      for (Expr* use : uses) {
        fusion_->replaceExprInput(use, e->output(0), view);
      }
    }
    if (!found.empty()) {
      fusion_->removeDeadUses();
    }
    return !found.empty();
  }

 private:
  // What stands for the expression's result; null if that has to be computed.
  TensorView* viewFor(const Expr* e) {
    if (e->kind() != ExprKind::SqueezeOp && e->kind() != ExprKind::ReshapeOp) {
      return nullptr;
    }
    const auto* source = e->input(0)->as<TensorView>();
    const auto* seen = e->output(0)->as<TensorView>();
    if (!source->isFusionInput() || source->isCpuScalar() || kept_.count(source) != 0 ||
        seen->isFusionOutput() || source->dtype() == DataType::Float4_e2m1fn) {
      return nullptr;
    }
    if (const auto* squeeze = tryAs<SqueezeOp>(e)) {
      if (!isSqueezedOnly(squeeze, source)) {
        return nullptr;
      }
      TensorView*& view = without_[source]; // all squeezes of an input give one view
      view = view == nullptr ? without(source, squeeze->isSqueezeDim()) : view;
      return view;
    }
    const bool is_read_so = fusion_->liveUses(source).size() == 1 || isLookedUpOnly(seen);
    const auto contiguity = is_read_so ? contiguityOf(source, seen) : std::nullopt;
    return contiguity.has_value() ? reshaped(seen, *contiguity) : nullptr;
  }

  // A lookup reads its table in memory, whoever else reads the input.
  bool isLookedUpOnly(const TensorView* table) const {
    const std::vector<Expr*> uses = fusion_->liveUses(table);
    return std::ranges::all_of(uses,
                               [table](const Expr* use) { return lookedUpTensor(use) == table; });
  }

  // A kernel that reads the input in another way as well would load it twice.
  bool isSqueezedOnly(const SqueezeOp* squeeze, const TensorView* source) const {
    const auto& dims = source->getLogicalDomain();
    for (size_t d = 0; d < dims.size(); ++d) {
      if (squeeze->isSqueezeDim()[d] && (!dims[d]->isBroadcast() || dims[d]->hasExpandedExtent())) {
        return false;
      }
    }
    const std::vector<Expr*> uses = fusion_->liveUses(source);
    return std::ranges::all_of(uses, [&](const Expr* use) {
      const auto* other = tryAs<SqueezeOp>(use);
      return other != nullptr && other->isSqueezeDim() == squeeze->isSqueezeDim();
    });
  }

  static TensorView* reshaped(const TensorView* like, const TensorDomain::Contiguity& contiguity) {
    Ids ids;
    for (const IterDomain* id : like->getLogicalDomain()) {
      ids.push_back(IterDomainBuilder(id).build());
    }
    return tensorInMemory(ids, ids, contiguity, like->dtype());
  }

  // The other dimensions keep their strides.
  static TensorView* without(const TensorView* source, const std::vector<bool>& is_squeezed) {
    DimensionCopies of;
    Ids logical;
    const auto& dims = source->getLogicalDomain();
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!is_squeezed[d]) {
        logical.push_back(of[dims[d]] = IterDomainBuilder(dims[d]).build());
      }
    }
    return tensorInMemoryOf(source, logical, of);
  }

  Fusion* fusion_;
  const std::unordered_set<const TensorView*>& kept_;
  MovedViews& views_;
  std::unordered_map<const TensorView*, TensorView*> without_; // squeezed dimensions, by input
};

bool isMadeByLibrary(const Val* tensor) {
  return tryAs<LibraryOp>(tensor->definition()) != nullptr;
}

// The same elements in the same order, with other dimensions.
bool changesShape(const Expr* e) {
  return e->kind() == ExprKind::ReshapeOp || e->kind() == ExprKind::SqueezeOp ||
         e->kind() == ExprKind::BroadcastOp;
}

// A library reads it, perhaps as a view.
bool isReadByLibrary(const Val* tensor) {
  return std::ranges::any_of(tensor->uses(), [](const Expr* use) {
    const bool is_view = changesShape(use) || isPlainCopy(use) || !permutationOf(use).empty();
    return use->kind() == ExprKind::LibraryOp ||
           (is_view && !use->output(0)->isFusionOutput() && isReadByLibrary(use->output(0)));
  });
}

// It is in memory whoever else needs it, or is a view of what is.
bool isWrittenAnyway(const Val* tensor) {
  const Expr* e = tensor->definition();
  return tensor->isFusionOutput() || isMadeByLibrary(tensor) || isReadByLibrary(tensor) ||
         (e != nullptr && changesShape(e) && isWrittenAnyway(e->input(0)));
}

// A reshape, or one that adds or removes dimensions of size 1; or the copy of what is in memory,
// such as share_common_expressions.cpp makes of an equal result.
bool keepsElements(const Expr* e) {
  const auto* squeeze = tryAs<SqueezeOp>(e);
  return squeeze != nullptr ? !squeeze->squeezeExpanded()
                            : changesShape(e) || (isPlainCopy(e) && isWrittenAnyway(e->input(0)));
}

// From the order in memory of what an expression makes to that of what it is made of, if these are
// the same elements. False if it is not made so.
bool followOrder(const Expr* e, std::vector<size_t>& order) {
  std::vector<size_t> followed;
  if (e->kind() == ExprKind::ReshapeOp) { // each dimension of neighbours, or of one
    const auto pieces = piecesOf(logicalIds(e->output(0)), logicalIds(e->input(0)));
    for (const size_t d : pieces.empty() ? std::vector<size_t>{} : order) {
      followed.insert(followed.end(), pieces[d].begin(), pieces[d].end());
    }
  } else {
    const std::vector<int64_t> permutation = permutationOf(e);
    for (const size_t d : isPlainCopy(e) || !permutation.empty() ? order : std::vector<size_t>{}) {
      followed.push_back(permutation.empty() ? d : static_cast<size_t>(permutation[d]));
    }
  }
  order = followed;
  return !order.empty();
}

// What is in memory as what is returned will be, whose dimensions are permuted: the transpose of an
// operand of a product, which lies as the operand does.
TensorView* permutedInMemory(const TensorView* returned) {
  const Ids logical = TensorDomain::noReductions(returned->getLogicalDomain());
  const Ids memory = TensorDomain::noReductions(returned->getMaybeAllocationDomain());
  std::vector<size_t> order; // in memory, by positions in the tensor that is looked at
  for (const IterDomain* id : memory) {
    const auto at = std::ranges::find(logical, id);
    if (at == logical.end()) {
      return nullptr;
    }
    order.push_back(static_cast<size_t>(at - logical.begin()));
  }
  bool is_permuted = false;
  for (const Expr* e = returned->definition(); e != nullptr && followOrder(e, order);) {
    is_permuted = is_permuted || !permutationOf(e).empty();
    auto* tv = e->input(0)->as<TensorView>();
    if (is_permuted && std::ranges::is_sorted(order) && isWrittenAnyway(tv)) {
      return tv;
    }
    e = tv->definition();
  }
  return nullptr;
}

// A kernel may make it for the caller.
bool isWhole(const TensorView* tv) {
  return tv->definition() != nullptr && isInLogicalOrder(tv) &&
         std::ranges::none_of(tv->getLogicalDomain(), &IterDomain::hasExpandedExtent);
}

// What is returned in another shape than it is computed in. Null: nothing, or it is no tensor that
// a kernel could make for the caller.
TensorView* madeBefore(const TensorView* returned) {
  const Expr* e = returned->definition();
  if (TensorView* made = e == nullptr ? nullptr : permutedInMemory(returned);
      made != nullptr && isWhole(made)) {
    return made;
  }
  if (e == nullptr || !keepsElements(e)) {
    return nullptr;
  }
  auto* made = e->input(0)->as<TensorView>();
  return isWhole(made) && isWhole(returned) ? made : nullptr;
}

// The outermost dimension that is cut by a slice that cuts no other, if what it takes is in one
// piece in memory.
std::optional<size_t> cutDimension(const SliceOp* slice) {
  const Ids& logical = slice->output(0)->as<TensorView>()->getLogicalDomain();
  const Ids sliced = logicalIds(slice->input(0));
  std::optional<size_t> cut;
  for (size_t d = 0; d < logical.size(); ++d) {
    if (logical[d]->definition() == nullptr) {
      if (!cut.has_value() && !sliced[d]->extent()->isOneInt()) {
        return std::nullopt; // pieces
      }
    } else if (cut.has_value()) {
      return std::nullopt;
    } else {
      cut = d;
    }
  }
  return cut;
}

// Slices that are returned of one tensor.
using Slices = std::vector<const SliceOp*>;

// One after the other, from the first element to the last one. Of a dimension of any size, several
// are taken for all of it.
bool areAllOf(const TensorView* made, const Slices& slices) {
  const size_t dim = cutDimension(slices.front()).value();
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const SliceOp* slice : slices) {
    const auto start = ops_utils::requestedPosition(slice->starts()[dim]);
    const auto stop = ops_utils::requestedPosition(slice->stops()[dim]);
    if (cutDimension(slice) != dim || !start.has_value() || !stop.has_value()) {
      return false;
    }
    ranges.emplace_back(*start, *stop);
  }
  std::ranges::sort(ranges);
  int64_t next = 0;
  for (const auto& [start, stop] : ranges) {
    if (start != next) {
      return false;
    }
    next = stop;
  }
  const Val* extent = made->getLogicalDomain()[dim]->extent();
  return extent->isConstInt() ? extent->intValue() == next : slices.size() > 1;
}

// Behind the first element of what is sliced.
Val* offsetOf(const SliceOp* slice) {
  const size_t dim = cutDimension(slice).value();
  const Ids sliced = logicalIds(slice->input(0));
  Val* offset = slice->starts()[dim];
  for (size_t d = dim + 1; d < sliced.size(); ++d) {
    offset = IrBuilder::mulExpr(offset, sliced[d]->extent());
  }
  return offset;
}

// Whether there are any.
bool viewParts(Fusion* fusion, const std::unordered_set<const TensorView*>& kept,
               MovedViews& views) {
  std::vector<TensorView*> taken_apart;
  std::unordered_map<const TensorView*, Slices> slices_of;
  const std::unordered_set<const Val*> read = fusion->outputsWithLiveUses();
  for (const Val* v : fusion->outputs()) {
    const auto* returned = v->as<TensorView>();
    const auto* slice = tryAs<SliceOp>(returned->definition());
    if (slice == nullptr || kept.count(returned) != 0 || read.count(returned) != 0 ||
        !isWhole(returned) || returned->dtype() == DataType::Float4_e2m1fn ||
        !cutDimension(slice).has_value()) {
      continue;
    }
    auto* made = slice->input(0)->as<TensorView>();
    if (kept.count(made) == 0 && isWhole(made)) {
      Slices& slices = slices_of[made];
      if (slices.empty()) {
        taken_apart.push_back(made);
      }
      slices.push_back(slice);
    }
  }
  bool changed = false;
  for (TensorView* made : taken_apart) {
    const Slices& slices = slices_of.at(made);
    if (!made->isFusionOutput() && !areAllOf(made, slices)) {
      continue;
    }
    changed = true;
    for (const SliceOp* slice : slices) {
      auto* part = slice->output(0)->as<TensorView>();
      Val* offset = offsetOf(slice);
      if (made->isFusionOutput()) {
        fusion->removeOutput(part);
      } else {
        made->setMemoryType(MemoryType::Global);
        fusion->replaceOutput(part, made);
      }
      part->setMemoryType(MemoryType::Local);
      views.makeInstead(part, made, offset);
    }
  }
  if (changed) {
    fusion->removeDeadUses();
  }
  return changed;
}

// Whether there are any.
bool viewOutputs(Fusion* fusion, const std::unordered_set<const TensorView*>& kept,
                 MovedViews& views) {
  bool changed = false;
  std::optional<InputBits> bits;                             // once they are asked for
  std::unordered_map<const TensorView*, TensorView*> copies; // that are made for the caller alone
  const std::unordered_set<const Val*> read = fusion->outputsWithLiveUses();
  const std::vector<Val*> outputs = fusion->outputs();
  for (Val* v : outputs) {
    auto* returned = v->as<TensorView>();
    if (kept.count(returned) != 0 || !returned->isFusionOutput()) {
      continue;
    }
    TensorView* made = madeBefore(returned);
    if (made == nullptr || kept.count(made) != 0) {
      continue;
    }
    // Kernels read what is in memory anyway.
    if (read.count(returned) != 0 && !isMadeByLibrary(made) && !isReadByLibrary(returned)) {
      continue;
    }
    changed = true;
    if (const auto copy = copies.find(made); copy != copies.end()) {
      made = copy->second;
    }
    if (made->isFusionOutput()) { // both are the same memory
      fusion->removeOutput(returned);
      views.makeInstead(returned, made);
      continue;
    }
    if (made->uses().size() > 1 && !isReadByLibrary(made)) {
      if (!bits.has_value()) {
        bits.emplace(fusion->exprs());
      }
      if (bits->areKnownFor(made->definition())) {
        made = copies[made] = set(made); // others compute it again rather than to read it
      }
    }
    made->setMemoryType(MemoryType::Global);
    fusion->replaceOutput(returned, made);
    returned->setMemoryType(MemoryType::Local);
    views.makeInstead(returned, made);
  }
  if (changed) {
    fusion->removeDeadUses();
  }
  return changed;
}

// Views of views. Each needs time that grows with the definition; few are needed, as canonical
// definitions have one reshape where there were several.
constexpr int kMostRounds = 4;

} // namespace

void makeOutputsBeforeViews(Fusion* fusion, const std::unordered_set<const TensorView*>& kept,
                            MovedViews& views) {
  const FusionGuard guard(fusion);
  for (int round = 0; round < kMostRounds; ++round) {
    const bool found = viewOutputs(fusion, kept, views);
    if (!viewParts(fusion, kept, views) && !found) {
      break;
    }
  }
}

void takeViewsOfInputs(Fusion* fusion, const std::unordered_set<const TensorView*>& kept,
                       MovedViews& views) {
  const FusionGuard guard(fusion);
  for (int round = 0; round < kMostRounds && InputViewer(fusion, kept, views).run(); ++round) {
  }
}

} // namespace nvfuser
