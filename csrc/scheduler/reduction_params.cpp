// SPDX-License-Identifier: BSD-3-Clause
// See reduction_params.h.
#include <scheduler/reduction_params.h>

#include <base/integer_math.h>

namespace nvfuser {

int64_t ReductionParams::reducedElements() const {
  int64_t elements = 1;
  for (const int64_t extent : reduced_extents) {
    elements *= extent;
  }
  return elements;
}

int64_t ReductionParams::rowsOfThread() const {
  if (fastest_dim || !persistent_kernel) {
    return 1;
  }
  const int64_t blocks = cross_grid_outer_reduction ? lparams.gdimy() : cluster_size;
  return ceilDiv(reducedElements(), lparams.bdimy() * blocks);
}

bool ReductionParams::fillsThreads() const {
  const int64_t of_thread = batches_per_block_inner_reduction * unroll_factor_inner_reduction;
  return !reduced_extents.empty() &&
         reducedElements() == of_thread * lparams.bdimx() * cluster_size;
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
