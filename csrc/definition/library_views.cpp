// SPDX-License-Identifier: BSD-3-Clause
// See library_views.h.
#include <definition/library_views.h>

#include <ir/exprs.h>
#include <ir/logical_map.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>

namespace nvfuser {

bool isView(const Expr* e) {
  if (e->outputs().size() != 1 || !e->output(0)->isTensor()) {
    return false;
  }
  const auto* out = e->output(0)->as<TensorView>();
  if (out->domain()->hasAllocation()) {
    return false; // a memory order that somebody asked for
  }
  switch (e->kind()) {
    case ExprKind::BroadcastOp:
    case ExprKind::SqueezeOp:
      return true;
    case ExprKind::SliceOp:
    case ExprKind::ReshapeOp:
      // Two values of fp4 lie in a byte.
      return !isFloat4(out->dtype());
    case ExprKind::LoadStoreOp:
      return e->as<LoadStoreOp>()->type() == LoadStoreOpType::Set && out->hasRoot();
    default:
      return false;
  }
}

bool isInMemory(const TensorView* tv) {
  const Expr* e = tv->definition();
  return tv->isFusionInput() || tryAs<LibraryOp>(e) != nullptr || (e != nullptr && isOfMemory(e));
}

namespace {

// Or a copy of what is.
bool isExpanded(const Val* tensor) {
  const auto& ids = tensor->as<TensorView>()->getLogicalDomain();
  const auto* copy = tryAs<LoadStoreOp>(tensor->definition());
  return std::any_of(ids.begin(), ids.end(),
                     [](const IterDomain* id) { return id->hasExpandedExtent(); }) ||
         (copy != nullptr && isExpanded(copy->in()));
}

// How the dimensions of a view lie in the memory that it is a view of: a number whose digits are
// the dimensions of that, or parts of these.
class ViewedMemory {
 public:
  explicit ViewedMemory(const TensorView* source) {
    const auto ids = logicalIds(source);
    digits_.resize(ids.size());
    const auto& contiguity = source->getContiguity();
    std::optional<int> outer; // the digit before, if nothing lies between it and the next one
    size_t i = 0;
    for (const IterDomain* id : source->getMaybeAllocationDomain()) {
      const auto at = std::find(ids.begin(), ids.end(), id);
      const bool is_dense = contiguity.at(i++).value_or(true);
      if (at != ids.end() && !id->isBroadcast()) {
        const int digit = count_++;
        digits_[static_cast<size_t>(at - ids.begin())] = {digit};
        if (outer.has_value()) {
          inner_of_[*outer] = digit;
        }
        outer = is_dense ? std::optional(digit) : std::nullopt;
      }
    }
  }

  // False: no strides say where the elements of the view are.
  bool apply(const Expr* view) {
    const auto* out = view->output(0)->as<TensorView>();
    const auto in = logicalIds(view->input(0));
    is_known_ = is_known_ && (view->kind() != ExprKind::ReshapeOp || out->hasRoot());
    if (!is_known_) { // nobody has related the dimensions of a reshape yet
      return true;
    }
    std::unordered_map<const IterDomain*, Digits> of;
    for (const auto& [from, to] : producerConsumerPairs(view->input(0)->as<TensorView>(), out)) {
      const auto at = std::find(in.begin(), in.end(), from) - in.begin();
      of[to] = from->hasExpandedExtent() ? Digits{kOneElement} : digits_[static_cast<size_t>(at)];
    }
    for (const Expr* e : transformsBetween(out->getMaybeRootDomain(), out->getLogicalDomain())) {
      if (!transform(e, of)) {
        return false;
      }
    }
    digits_.clear();
    for (const IterDomain* id : logicalIds(out)) {
      digits_.push_back(of[id]);
    }
    return true;
  }

 private:
  using Digits = std::vector<int>;

  bool transform(const Expr* e, std::unordered_map<const IterDomain*, Digits>& of) {
    const Digits whole = of[e->input(0)->as<IterDomain>()];
    if (const auto* merge = tryAs<Merge>(e)) {
      Digits& merged = of[merge->out()] = whole;
      const Digits& inner = of[merge->inner()];
      merged.insert(merged.end(), inner.begin(), inner.end());
      return areNeighbours(merged);
    }
    if (const auto* split = tryAs<Split>(e)) {
      if (!whole.empty()) {
        divide(whole, of[split->outer()], of[split->inner()]);
      }
      return true;
    }
    of[e->output(0)->as<IterDomain>()] = whole;
    if (!whole.empty()) { // there are others around what is sliced
      std::erase_if(inner_of_, [&](const auto& each) { return each.second == whole.front(); });
    }
    return true;
  }

  bool areNeighbours(const Digits& digits) const {
    for (size_t k = 0; k + 1 < digits.size(); ++k) {
      const auto it = inner_of_.find(digits[k]);
      if (it == inner_of_.end() || it->second != digits[k + 1]) {
        return false;
      }
    }
    return true;
  }

  // The digits of the parts take the place of the whole's.
  void divide(const Digits& whole, Digits& outer, Digits& inner) {
    outer = {count_++};
    inner = {count_++};
    for (auto& [digit, next] : inner_of_) {
      next = next == whole.front() ? outer.front() : next;
    }
    inner_of_[outer.front()] = inner.front();
    if (const auto last = inner_of_.find(whole.back()); last != inner_of_.end()) {
      inner_of_[inner.front()] = last->second;
    }
  }

  static constexpr int kOneElement = -1; // of what is expanded
  bool is_known_ = true;
  int count_ = 0;
  std::map<int, int> inner_of_; // the digit that follows without a gap
  std::vector<Digits> digits_;  // of each dimension
};

// Of views in topological order: the last ones that are views of what lies in memory, or of what a
// kernel of ours writes, in the order of its dimensions. (Of what is expanded or sliced our kernels
// make nothing more.)
bool areViews(std::span<Expr* const> views, bool of_memory) {
  ViewedMemory memory(views.front()->input(0)->as<TensorView>());
  return std::all_of(views.begin(), views.end(), [&](const Expr* view) {
    const bool is_made =
        of_memory || (view->kind() != ExprKind::SliceOp && !isExpanded(view->input(0)));
    return is_made && memory.apply(view);
  });
}

} // namespace

std::vector<Expr*> viewsBehind(const TensorView* operand) {
  std::vector<Expr*> views;
  while (!isInMemory(operand)) {
    Expr* def = operand->definition();
    if (def == nullptr || !isView(def)) {
      break;
    }
    views.push_back(def);
    operand = def->input(0)->as<TensorView>();
  }
  std::reverse(views.begin(), views.end());
  bool of_memory = isInMemory(operand);
  while (!views.empty() && !areViews(views, of_memory)) {
    views.erase(views.begin());
    of_memory = false;
  }
  return views;
}

namespace {

bool isNeededByOthers(const Fusion* fusion, const Expr* view, const Expr* reader) {
  const Val* out = view->output(0);
  const std::vector<Expr*> uses = fusion->liveUses(out);
  return out->isFusionOutput() ||
         std::any_of(uses.begin(), uses.end(), [&](const Expr* use) { return use != reader; });
}

} // namespace

bool areNeededByOthers(const Fusion* fusion, const std::vector<Expr*>& views, const Expr* op) {
  for (size_t i = 0; i < views.size(); ++i) {
    if (isNeededByOthers(fusion, views[i], i + 1 < views.size() ? views[i + 1] : op)) {
      return true;
    }
  }
  return false;
}

} // namespace nvfuser
