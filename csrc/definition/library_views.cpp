// SPDX-License-Identifier: BSD-3-Clause
// See library_views.h.
#include <definition/library_views.h>

#include <ir/exprs.h>
#include <ir/logical_map.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>

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
  return tv->isFusionInput() || tryAs<LibraryOp>(e) != nullptr || tryAs<MemoryViewOp>(e) != nullptr;
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
    const auto in = logicalIds(view->input(0));
    const auto out = logicalIds(view->output(0));
    if (view->kind() == ExprKind::ReshapeOp) {
      return reshape(in, out);
    }
    std::vector<Digits> viewed(out.size());
    std::map<const IterDomain*, const IterDomain*> of;
    for (const auto& [from, to] : producerConsumerPairs(view->input(0)->as<TensorView>(),
                                                        view->output(0)->as<TensorView>())) {
      of[to] = from;
    }
    const auto& root = view->output(0)->as<TensorView>()->getMaybeRootDomain();
    for (size_t d = 0; d < out.size(); ++d) {
      const IterDomain* id = out[d];
      if (const auto* resize = tryAs<Resize>(id->definition())) {
        id = resize->in();
      }
      const auto own = std::find(root.begin(), root.end(), id);
      const auto it = own == root.end() ? of.end() : of.find(*own);
      const auto at = it == of.end() ? in.end() : std::find(in.begin(), in.end(), it->second);
      if (at != in.end()) {
        viewed[d] = digits_[static_cast<size_t>(at - in.begin())];
      }
      if (id != out[d] && !viewed[d].empty()) { // there are others around what is sliced
        std::erase_if(inner_of_, [&](const auto& e) { return e.second == viewed[d].front(); });
      }
    }
    digits_ = std::move(viewed);
    return true;
  }

 private:
  using Digits = std::vector<int>;

  // Dimensions are merged and split, as many as have one size together.
  bool reshape(const std::vector<IterDomain*>& in, const std::vector<IterDomain*>& out) {
    std::vector<Digits> viewed(out.size());
    size_t i = 0;
    size_t o = 0;
    while (i < in.size() || o < out.size()) {
      const size_t first = o;
      Digits whole;
      std::optional<int64_t> of_in = 1;
      std::optional<int64_t> of_out = 1;
      const auto take = [&](const std::vector<IterDomain*>& ids, size_t& at,
                            std::optional<int64_t>& size) {
        const Val* extent = ids[at++]->getMaybeExpandedExtent();
        size = size.has_value() && extent->isConstInt() ? std::optional(*size * extent->intValue())
                                                        : std::nullopt;
      };
      const auto take_in = [&] {
        const Digits& digits = digits_[i];
        if (digits.empty() && !in[i]->getMaybeExpandedExtent()->isOneInt()) {
          whole.push_back(kOneElement);
        }
        whole.insert(whole.end(), digits.begin(), digits.end());
        take(in, i, of_in);
      };
      if (i < in.size() && o < out.size() &&
          in[i]->getMaybeExpandedExtent()->sameAs(out[o]->getMaybeExpandedExtent())) {
        viewed[o++] = digits_[i++];
        continue;
      }
      do {
        const bool has_more = i < in.size() && (o == out.size() || of_in <= of_out);
        has_more ? take_in() : take(out, o, of_out);
        if (!of_in.has_value() || !of_out.has_value()) {
          return true; // of sizes that are not known nothing is known
        }
      } while (of_in != of_out && (i < in.size() || o < out.size()));
      if (!areNeighbours(whole)) {
        return false;
      }
      std::vector<size_t> parts; // of more than one element
      for (size_t d = first; d < o; ++d) {
        if (!out[d]->getMaybeExpandedExtent()->isOneInt()) {
          parts.push_back(d);
        }
      }
      if (parts.size() == 1) {
        viewed[parts.front()] = whole;
      } else if (!whole.empty()) {
        divide(whole, parts, viewed);
      }
    }
    digits_ = std::move(viewed);
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
  void divide(const Digits& whole, const std::vector<size_t>& parts, std::vector<Digits>& viewed) {
    for (auto& [outer, inner] : inner_of_) {
      inner = inner == whole.front() ? count_ : inner;
    }
    const auto last = inner_of_.find(whole.back());
    const std::optional<int> next =
        last == inner_of_.end() ? std::nullopt : std::optional(last->second);
    for (const size_t part : parts) {
      viewed[part] = {count_++};
      inner_of_[count_ - 1] = count_;
    }
    inner_of_.erase(count_ - 1);
    if (next.has_value()) {
      inner_of_[count_ - 1] = *next;
    }
  }

  static constexpr int kOneElement = -1; // of what is expanded
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
