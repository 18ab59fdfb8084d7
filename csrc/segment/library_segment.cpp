// See library_segment.h.
#include <segment/library_segment.h>

#include <ir/exprs.h>
#include <ir/visitor.h>
#include <transform/cache.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

namespace {

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

// What a kernel of ours makes is better made as it is needed.
bool isInMemory(const TensorView* tv) {
  return tv->isFusionInput() ||
         (tv->definition() != nullptr && tv->definition()->kind() == ExprKind::LibraryOp);
}

// The views between a tensor in memory and the operand, in topological order; empty if there is
// none, or something else.
std::vector<Expr*> viewsBehind(const TensorView* operand) {
  std::vector<Expr*> views;
  while (!isInMemory(operand)) {
    Expr* def = operand->definition();
    if (def == nullptr || !isView(def)) {
      return {};
    }
    views.push_back(def);
    operand = def->input(0)->as<TensorView>();
  }
  std::reverse(views.begin(), views.end());
  return views;
}

bool isNeededByOthers(const Fusion* fusion, const Expr* view, const Expr* reader) {
  const Val* out = view->output(0);
  const std::vector<Expr*> uses = fusion->liveUses(out);
  return out->isFusionOutput() ||
         std::any_of(uses.begin(), uses.end(), [&](const Expr* use) { return use != reader; });
}

bool areNeededByOthers(const Fusion* fusion, const std::vector<Expr*>& views, const Expr* op) {
  for (size_t i = 0; i < views.size(); ++i) {
    if (isNeededByOthers(fusion, views[i], i + 1 < views.size() ? views[i + 1] : op)) {
      return true;
    }
  }
  return false;
}

} // namespace

const LibraryOp* librarySegmentOp(const std::vector<Expr*>& exprs) {
  const auto* op = exprs.empty() ? nullptr : dynamic_cast<const LibraryOp*>(exprs.back());
  const bool fits = op != nullptr && std::all_of(exprs.begin(), exprs.end() - 1, [](const Expr* e) {
                      return isView(e) && !e->output(0)->isFusionOutput();
                    });
  return fits ? op : nullptr;
}

void separateViewsForLibraryOps(Fusion* fusion) {
  FusionGuard guard(fusion);
  const std::vector<Expr*> exprs = fusion->exprs();
  for (Expr* op : exprs) {
    if (op->kind() != ExprKind::LibraryOp) {
      continue;
    }
    std::unordered_map<Val*, Val*> replaced;
    for (TensorView* operand : tensorInputs(op)) {
      const std::vector<Expr*> views = viewsBehind(operand);
      if (!areNeededByOthers(fusion, views, op)) {
        continue;
      }
      Val* copy = views.front()->input(0);
      for (Expr* view : views) {
        std::vector<Val*> inputs = view->inputs();
        inputs.front() = copy;
        copy = recompute(view->output(0)->as<TensorView>(), inputs);
      }
      replaced[operand] = copy;
    }
    if (!replaced.empty()) {
      copyExprWith(fusion, op, replaced);
    }
  }
}

std::unordered_map<const Expr*, const Expr*> viewsOfLibraryOps(const Fusion* fusion,
                                                               const std::vector<Expr*>& exprs) {
  const std::unordered_set<const Expr*> inside(exprs.begin(), exprs.end());
  std::unordered_map<const Expr*, const Expr*> out;
  for (const Expr* op : exprs) {
    if (op->kind() != ExprKind::LibraryOp) {
      continue;
    }
    for (const TensorView* operand : tensorInputs(op)) {
      const std::vector<Expr*> views = viewsBehind(operand);
      const bool all_inside = std::all_of(views.begin(), views.end(),
                                          [&](const Expr* e) { return inside.count(e) != 0; });
      if (all_inside && !areNeededByOthers(fusion, views, op)) {
        for (const Expr* view : views) {
          out[view] = op;
        }
      }
    }
  }
  return out;
}

} // namespace nvfuser
