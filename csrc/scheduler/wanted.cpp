// SPDX-License-Identifier: BSD-3-Clause
// See wanted.h.
#include <scheduler/wanted.h>

#include <base/error.h>
#include <runtime/bind_inputs.h>

#include <algorithm>

namespace nvfuser {

int64_t WholeDefinition::product(const std::vector<Val*>& extents) {
  if (!sizes_.has_value()) {
    sizes_.emplace();
    // Behind them are views of them.
    const std::span<Val* const> inputs(fusion_->inputs());
    bindInputs(inputs.first(args_.size()), args_, *sizes_);
  }
  int64_t out = 1;
  for (const Val* extent : extents) {
    out *= sizes_->evaluateInt(extent);
  }
  return out;
}

void leaveOut(LeftOut& left_out, SchedulerType type, LeftOutFor reason) {
  const auto [it, is_new] = left_out.try_emplace(type, reason);
  if (!is_new && reason.from_elements < it->second.from_elements) {
    it->second = std::move(reason);
  }
}

bool Wanted::rewritesLike(const Wanted& other) const {
  return rewrites == other.rewrites &&
         std::equal(left_out.begin(), left_out.end(), other.left_out.begin(), other.left_out.end(),
                    [](const auto& a, const auto& b) {
                      return a.first == b.first && a.second.from_elements == b.second.from_elements;
                    });
}

} // namespace nvfuser
