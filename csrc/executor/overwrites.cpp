// SPDX-License-Identifier: BSD-3-Clause
// See overwrites.h.
#include <executor/overwrites.h>

#include <runtime/in_place_hazard.h>
#include <segment/segment.h>

#include <algorithm>

namespace nvfuser {

namespace {

// Vectors of what is sliced, padded or concatenated may be read with elements beside those that are
// needed, which other threads write.
bool isElementByElement(const Segment& segment) {
  if (segment.scheduler != SchedulerType::PointWise) {
    return false;
  }
  const std::vector<Expr*>& exprs = segment.fusion->exprs();
  return std::all_of(exprs.begin(), exprs.end(), [](const Expr* e) {
    return e->kind() == ExprKind::ElementwiseOp || e->kind() == ExprKind::BroadcastOp ||
           e->kind() == ExprKind::SqueezeOp ||
           (e->kind() == ExprKind::LoadStoreOp && !e->output(0)->as<TensorView>()->hasRoot());
  });
}

bool haveSameLayout(const ArgView& a, const ArgView& b) {
  return a.is_tensor && b.is_tensor && dataTypeSizeBits(a.dtype) == dataTypeSizeBits(b.dtype) &&
         a.storage_elements == b.storage_elements &&
         std::ranges::equal(a.sizeSpan(), b.sizeSpan()) &&
         std::ranges::equal(a.strideSpan(), b.strideSpan());
}

} // namespace

std::vector<Overwrite> overwrites(const LaunchPlan& plan, const LaunchPlan::Step& step) {
  std::vector<Overwrite> found;
  if (step.launch.module == nullptr || step.launch.empty || !isElementByElement(*step.segment)) {
    return found;
  }
  const Segment& segment = *step.segment;
  const auto local = [&](uint32_t value) -> const ArgView& {
    return plan.locals[value - plan.num_args];
  };
  for (size_t o = 0; o < step.outputs.size(); ++o) {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const uint32_t input = step.inputs[i];
      const uint32_t output = step.outputs[o];
      if (input < plan.num_args || output < plan.num_args || input == output ||
          !haveSameLayout(local(input), local(output))) {
        continue;
      }
      auto* in = segment.fusion->inputs()[i]->as<TensorView>();
      auto* out = segment.fusion->outputs()[o]->as<TensorView>();
      if (inPlaceHazard(segment.fusion.get(), in, out).empty()) {
        found.push_back({input, output});
      }
    }
  }
  return found;
}

} // namespace nvfuser
