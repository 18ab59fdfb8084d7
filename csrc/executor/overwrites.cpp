// SPDX-License-Identifier: BSD-3-Clause
// See overwrites.h.
#include <executor/overwrites.h>

#include <executor/planner.h>
#include <ir/visitor.h>
#include <runtime/in_place_hazard.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

namespace {

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
      case ExprKind::ReductionOp:
      case ExprKind::WelfordOp:
        return true;
      default:
        return isElementwise(e);
    }
  });
}

// The loops of a segment are those of its largest tensors: of one of these each thread has elements
// of its own. A dimension of size 1 is no loop if it is none of any tensor.
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

// What an input is loaded into, or what the one operation that reads it makes: if it is read in one
// place for everything that is computed of it.
TensorView* loadedInto(const Fusion* scheduled, const TensorView* input) {
  const std::vector<Expr*> reads = scheduled->liveUses(input);
  if (reads.size() != 1 || !isElementwise(reads.front())) {
    return nullptr;
  }
  auto* loaded = reads.front()->output(0)->as<TensorView>();
  return sameShape(loaded, input) ? loaded : nullptr;
}

// Whether element i of the output is computed of element i of what was loaded: it can't be written
// before that.
bool isComputedOf(const Fusion* scheduled, TensorView* loaded, const TensorView* output) {
  std::vector<TensorView*> stack{loaded};
  std::unordered_set<const TensorView*> seen{loaded};
  while (!stack.empty()) {
    const TensorView* tv = stack.back();
    stack.pop_back();
    for (const Expr* use : scheduled->liveUses(tv)) {
      for (TensorView* out : isElementwise(use) ? tensorOutputs(use) : std::vector<TensorView*>()) {
        if (sameShape(out, output) && seen.insert(out).second) {
          stack.push_back(out);
        }
      }
    }
  }
  return seen.count(output) != 0;
}

bool haveSameLayout(const ArgView& a, const ArgView& b) {
  return a.is_tensor && b.is_tensor && a.dtype == b.dtype &&
         a.storage_elements == b.storage_elements &&
         std::ranges::equal(a.sizeSpan(), b.sizeSpan()) &&
         std::ranges::equal(a.strideSpan(), b.strideSpan());
}

// Rows that are no multiple of the widest access may be read by vectors that reach into the next
// one, which another block writes.
bool hasWholeRows(const ArgView& view) {
  for (int32_t d = 0; d < view.rank; ++d) {
    if (view.strides[d] == 1 && view.sizes[d] != 1) {
      return view.sizes[d] * dataTypeSizeBytes(view.dtype) % kWidestAccess == 0;
    }
  }
  return true;
}

// Others may see the same memory.
bool isViewOrViewed(const LaunchPlan& plan, uint32_t value) {
  return std::any_of(plan.views.begin(), plan.views.end(), [&](const LaunchPlan::View& view) {
    return view.value == value || view.source == value;
  });
}

} // namespace

std::vector<LaunchPlan::Overwrite> overwrites(const LaunchPlan& plan,
                                              const LaunchPlan::Step& step) {
  std::vector<LaunchPlan::Overwrite> found;
  if (step.launch.module == nullptr || step.launch.empty || step.segment == nullptr ||
      !visitsEachElementOnce(*step.segment)) {
    return found;
  }
  const Segment& segment = *step.segment;
  const Fusion& scheduled = *step.variant->scheduled;
  const bool has_rows = segment.scheduler != SchedulerType::PointWise;
  for (size_t o = 0; o < step.outputs.size(); ++o) {
    const uint32_t output = step.outputs[o];
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const uint32_t input = step.inputs[i];
      if (input < plan.num_args || output < plan.num_args || input == output ||
          isViewOrViewed(plan, input) ||
          std::count(step.inputs.begin(), step.inputs.end(), input) != 1) {
        continue;
      }
      const ArgView& view = plan.locals[input - plan.num_args];
      if (!haveSameLayout(view, plan.locals[output - plan.num_args]) ||
          (has_rows && !hasWholeRows(view)) ||
          !isLargest(segment, segment.fusion->inputs()[i]->as<TensorView>())) {
        continue;
      }
      TensorView* loaded = loadedInto(&scheduled, scheduled.inputs()[i]->as<TensorView>());
      if (loaded != nullptr &&
          isComputedOf(&scheduled, loaded, scheduled.outputs()[o]->as<TensorView>())) {
        found.push_back({input, output});
      }
    }
  }
  return found;
}

} // namespace nvfuser
