// SPDX-License-Identifier: BSD-3-Clause
// What users ask of schedules beside the shapes. Who plans reads the options, and schedulers get
// this value.
#pragma once

namespace nvfuser {

struct ScheduleWishes {
  // Bulk copies load what pointwise kernels read, what reductions read, and persistent rows.
  bool bulk_pointwise = false;
  bool bulk_reductions = false;
  bool bulk_rows = false;
  // A warp of its own loads persistent rows.
  bool loading_warp = false;
  // Reductions may compute a topk; the parts of a concatenation may be outputs.
  bool generates_topks = true;
  bool writes_cats_in_parts = true;

  // As NVFUSER_ENABLE and NVFUSER_DISABLE say.
  static ScheduleWishes ofOptions();
};

} // namespace nvfuser
