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

bool Wanted::rewritesLike(const Wanted& other) const {
  return rewrites == other.rewrites &&
         std::equal(left_out.begin(), left_out.end(), other.left_out.begin(), other.left_out.end(),
                    [](const auto& a, const auto& b) { return a.first == b.first; });
}

} // namespace nvfuser
