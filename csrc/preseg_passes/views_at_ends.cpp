// SPDX-License-Identifier: BSD-3-Clause
// Views at the ends of a definition, which no kernel has to compute: model code flattens the tokens
// of a batch before it computes with them, and gives the result its batches back.
// * What is made of an input by a reshape or by squeezing dimensions of size 1 is an input too: the
//   same memory seen with other dimensions. A kernel that computes it has one tensor more between
//   memory and registers, which schedulers have to see through, and some can not.
// * What is returned after a reshape, a squeeze or a broadcast of one element is made without it.
//   If it is returned without it too, both are the same memory. So are an operand of a library and
//   what is returned of it, also with permuted dimensions.
#include <preseg_passes/passes.h>

#include <ir/builder.h>
#include <ir/exprs.h>
#include <ir/logical_map.h>
#include <ops/elementwise.h>
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

// What is returned in another shape than it is computed in. Null: nothing, or it is no tensor that
// a kernel could make for the caller.
TensorView* madeBefore(const TensorView* returned) {
  const Expr* e = returned->definition();
  const auto is_whole = [](const TensorView* tv) {
    return tv->definition() != nullptr && isInLogicalOrder(tv) &&
           std::ranges::none_of(tv->getLogicalDomain(), &IterDomain::hasExpandedExtent);
  };
  if (TensorView* made = e == nullptr ? nullptr : permutedInMemory(returned);
      made != nullptr && is_whole(made)) {
    return made;
  }
  if (e == nullptr || !keepsElements(e)) {
    return nullptr;
  }
  auto* made = e->input(0)->as<TensorView>();
  return is_whole(made) && is_whole(returned) ? made : nullptr;
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
  for (int round = 0; round < kMostRounds && viewOutputs(fusion, kept, views); ++round) {
  }
}

void takeViewsOfInputs(Fusion* fusion, const std::unordered_set<const TensorView*>& kept,
                       MovedViews& views) {
  const FusionGuard guard(fusion);
  for (int round = 0; round < kMostRounds && InputViewer(fusion, kept, views).run(); ++round) {
  }
}

} // namespace nvfuser
