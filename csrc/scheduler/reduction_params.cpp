// SPDX-License-Identifier: BSD-3-Clause
// See reduction_params.h.
#include <scheduler/reduction_params.h>

#include <base/integer_math.h>

namespace nvfuser {

int64_t ReductionParams::rowsOfThread() const {
  if (fastest_dim || !persistent_kernel) {
    return 1;
  }
  int64_t rows = 1;
  for (const int64_t extent : reduced_extents) {
    rows *= extent;
  }
  const int64_t blocks = cross_grid_outer_reduction ? lparams.gdimy() : cluster_size;
  return ceilDiv(rows, lparams.bdimy() * blocks);
}

std::string ReductionParams::toString() const {
  std::ostringstream os;
  os << "\n===== " << kTitle << " ========\n";
  if (!tag.empty()) {
    os << "Tag: " << tag << "\n";
  }
  os << "Scheduler: " << schedulerName(scheduler_type) << "\n"
     << (persistent_kernel ? "Persistent kernel" : "Non-persistent kernel") << "\n"
     << "Grid: (" << lparams.gdimx() << ", " << lparams.gdimy() << ", " << lparams.gdimz()
     << ") Block: (" << lparams.bdimx() << ", " << lparams.bdimy() << ", " << lparams.bdimz()
     << ")\n";
  const ReductionParams usual(scheduler_type);
  fields([&](const char* name, auto member) {
    if (this->*member != usual.*member) {
      os << name << ": " << fieldText(this->*member) << "\n";
    }
  });
  os << sharedText() << "====================================\n";
  return os.str();
}

} // namespace nvfuser
