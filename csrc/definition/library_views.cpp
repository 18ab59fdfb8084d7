// SPDX-License-Identifier: BSD-3-Clause
// See library_views.h.
#include <definition/library_views.h>

#include <ir/exprs.h>

#include <algorithm>

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

// Dimensions are in another order than in the operand.
bool permutes(const Expr* view) {
  return view->kind() == ExprKind::LoadStoreOp;
}

// Or a copy of what is.
bool isExpanded(const Val* tensor) {
  const auto& ids = tensor->as<TensorView>()->getLogicalDomain();
  const auto* copy = tryAs<LoadStoreOp>(tensor->definition());
  return std::any_of(ids.begin(), ids.end(),
                     [](const IterDomain* id) { return id->hasExpandedExtent(); }) ||
         (copy != nullptr && isExpanded(copy->in()));
}

// Of views, the last one first, those that are views of whatever a kernel of ours writes: it lies
// in memory in the order of its dimensions, so that it can be reshaped, but not once it is permuted
// or expanded. (Of what is sliced our kernels make nothing more.)
size_t numViewsOfResult(const std::vector<Expr*>& views) {
  bool reshapes = false;
  for (size_t i = 0; i < views.size(); ++i) {
    if (views[i]->kind() == ExprKind::SliceOp || (reshapes && permutes(views[i])) ||
        isExpanded(views[i]->input(0))) {
      return i;
    }
    reshapes = reshapes || views[i]->kind() == ExprKind::ReshapeOp;
  }
  return views.size();
}

} // namespace

std::vector<Expr*> viewsBehind(const TensorView* operand) {
  std::vector<Expr*> views;
  while (!isInMemory(operand)) {
    Expr* def = operand->definition();
    if (def == nullptr || !isView(def)) {
      views.resize(numViewsOfResult(views));
      break;
    }
    views.push_back(def);
    operand = def->input(0)->as<TensorView>();
  }
  std::reverse(views.begin(), views.end());
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
