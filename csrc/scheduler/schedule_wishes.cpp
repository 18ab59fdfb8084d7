// SPDX-License-Identifier: BSD-3-Clause
// See schedule_wishes.h.
#include <scheduler/schedule_wishes.h>

#include <base/options.h>

namespace nvfuser {

ScheduleWishes ScheduleWishes::ofOptions() {
  ScheduleWishes wishes;
  wishes.bulk_pointwise = isOptionEnabled(EnableOption::TmaPointwise);
  wishes.bulk_reductions = isOptionEnabled(EnableOption::TmaReduction);
  wishes.bulk_rows = isOptionEnabled(EnableOption::TmaInnerPersistent);
  wishes.loading_warp = isOptionEnabled(EnableOption::WsNormalization);
  wishes.generates_topks = !isOptionDisabled(DisableOption::GenerateTopK);
  wishes.writes_cats_in_parts = !isOptionDisabled(DisableOption::CatsInParts);
  return wishes;
}

} // namespace nvfuser
