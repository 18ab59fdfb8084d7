// SPDX-License-Identifier: BSD-3-Clause
// See viewed_segments.h.
#include <segment/viewed_segments.h>

#include <definition/library_views.h>
#include <ir/builder.h>
#include <ir/exprs.h>

#include <algorithm>

namespace nvfuser {

namespace {

// Elements stay in the order of rows.
bool keepsOrder(const Expr* e) {
  const bool names = e->kind() == ExprKind::ReshapeOp || e->kind() == ExprKind::SqueezeOp ||
                     e->kind() == ExprKind::BroadcastOp;
  return names && isView(e);
}

// Rows one after the other, as a kernel writes a tensor that nobody asked to lie otherwise.
bool liesByRows(const TensorView* tv) {
  return !tv->domain()->hasAllocation() &&
         std::ranges::none_of(logicalIds(tv), &IterDomain::hasExpandedExtent);
}

// What the segment gives other dimensions; null if it does anything else.
TensorView* viewedBy(const Segment& segment, const std::unordered_set<const Val*>& kept) {
  if (segment.outputs.size() != 1 || !std::ranges::all_of(segment.exprs, keepsOrder)) {
    return nullptr;
  }
  const auto* out = segment.outputs.front()->as<TensorView>();
  TensorView* source = nullptr;
  for (Val* in : segment.inputs) {
    if (auto* tv = tryAs<TensorView>(in)) {
      if (source != nullptr) {
        return nullptr;
      }
      source = tv;
    }
  }
  const bool fits = source != nullptr && !isInMemory(source) && kept.count(source) == 0 &&
                    !out->isFusionOutput() && kept.count(out) == 0 && liesByRows(source) &&
                    liesByRows(out);
  return fits ? source : nullptr;
}

} // namespace

void viewInsteadOfCopies(Fusion* fusion, SegmentedFusion& segmented,
                         const std::unordered_set<const Val*>& kept) {
  FusionGuard guard(fusion);
  std::erase_if(segmented.segments, [&](const Segment& segment) {
    TensorView* source = viewedBy(segment, kept);
    if (source == nullptr) {
      return false;
    }
    auto* out = segment.outputs.front()->as<TensorView>();
    fusion->removeExpr(out->definition());
    IrBuilder::create<MemoryViewOp>(out, source, std::vector<Val*>());
    return true;
  });
}

} // namespace nvfuser
