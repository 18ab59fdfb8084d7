// SPDX-License-Identifier: BSD-3-Clause
// See overwrites.h.
#include <executor/overwrites.h>

#include <executor/planner.h>
#include <ir/visitor.h>
#include <runtime/in_place_hazard.h>
#include <segment/loops.h>

#include <algorithm>
#include <unordered_set>

namespace nvfuser {

namespace {

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
         std::ranges::equal(a.sizeSpan(), b.sizeSpan()) &&
         std::ranges::equal(a.strideSpan(), b.strideSpan());
}

// Rows that are not a multiple of the widest access apart may be read by vectors that reach into
// the next one, which another block writes.
bool hasWholeRows(const ArgView& view) {
  for (int32_t d = 0; d < view.rank; ++d) {
    if (view.strides[d] != 1 && view.sizes[d] != 1 &&
        view.strides[d] * dataTypeSizeBytes(view.dtype) % kWidestAccess != 0) {
      return false;
    }
  }
  return true;
}

// Where a view, or a part of a tensor, begins in its memory.
int64_t offsetOf(const LaunchPlan::View* view) {
  return view == nullptr ? 0 : view->offset;
}

// Inputs of a step in the memory of a value.
int64_t readersOf(const LaunchPlan& plan, const LaunchPlan::Step& step, uint32_t memory) {
  return std::ranges::count_if(step.inputs,
                               [&](uint32_t input) { return plan.memoryOf(input) == memory; });
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
      const uint32_t memory = plan.memoryOf(input);
      if (memory < plan.num_args || output < plan.num_args || memory == output ||
          readersOf(plan, step, memory) != 1 || offsetOf(plan.viewedBy(input)) != 0 ||
          offsetOf(plan.partOf(output)) != 0) {
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
        found.push_back({memory, output});
      }
    }
  }
  return found;
}

} // namespace nvfuser
