// SPDX-License-Identifier: BSD-3-Clause
// See loops.h.
#include <segment/loops.h>

#include <runtime/in_place_hazard.h>

#include <algorithm>

namespace nvfuser {

bool visitsEachElementOnce(const Segment& segment) {
  switch (segment.scheduler) {
    case SchedulerType::PointWise:
    case SchedulerType::Reduction:
    case SchedulerType::InnerPersistent:
    case SchedulerType::OuterPersistent:
    case SchedulerType::InnerOuterPersistent:
      break;
    default:
      return false;
  }
  // Vectors of what is sliced, padded or concatenated may be read with elements beside those that
  // are needed, which other threads write.
  const std::vector<Expr*>& exprs = segment.fusion->exprs();
  return std::all_of(exprs.begin(), exprs.end(), [](const Expr* e) {
    switch (e->kind()) {
      case ExprKind::BroadcastOp:
      case ExprKind::SqueezeOp:
      case ExprKind::FullOp:
      case ExprKind::IotaOp:
      case ExprKind::RngOp:
      case ExprKind::ReductionOp:
      case ExprKind::WelfordOp:
      case ExprKind::OnlineSoftmaxOp:
        return true;
      default:
        return isElementwise(e);
    }
  });
}

bool isLargest(const Segment& segment, const TensorView* tv) {
  const TensorDomain::Ids own = logicalIds(tv);
  const std::vector<TensorView*> all = segment.fusion->allTvs();
  return std::all_of(all.begin(), all.end(), [&](const TensorView* other) {
    const TensorDomain::Ids ids = logicalIds(other);
    for (size_t d = 0; d < ids.size() && ids.size() == own.size(); ++d) {
      if (own[d]->isBroadcast() && !ids[d]->isBroadcast()) {
        return false;
      }
    }
    return ids.size() <= own.size();
  });
}

} // namespace nvfuser
