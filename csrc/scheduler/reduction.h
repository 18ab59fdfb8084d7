// SPDX-License-Identifier: BSD-3-Clause
// The reduction and persistent schedulers: one kernel for reductions over the same dimensions and
// whatever is computed before, between and after them.
//
//   reduction          nothing runs over the reduced dimensions after the reduction
//   inner_persistent   something does (a normalization), and the reduced dimensions are innermost
//                      in memory
//   outer_persistent   something does, and they are not
//
// What is reduced stays in registers between the passes. Rows that are too long for that are read
// again in every pass; columns that are take two kernels.
#pragma once

#include <scheduler/reduction_analysis.h>
#include <scheduler/reduction_params.h>
#include <scheduler/scheduler.h>

namespace nvfuser {

class ReductionScheduler : public SchedulerEntry {
 public:
  explicit ReductionScheduler(SchedulerType type) : type_(type) {}
  SchedulerType type() const override {
    return type_;
  }
  std::string whyNot(Fusion* fusion) const override;
  void wantRewrites(WholeDefinition& definition, Wanted& wanted) const override;
  std::string whyUseless(const SegmentedFusion& segmented) const override;
  Alternative alternative() const override;
  ChosenParams computeHeuristics(Fusion* fusion, SchedulerRuntimeInfo& info,
                                 HeuristicCache* cache = nullptr) const override;
  // Not those for rows of any length, or of another one.
  bool maySuit(const HeuristicParams& known, SchedulerRuntimeInfo& info,
               const HeuristicCache& cache) const override;
  void schedule(Fusion* fusion, const HeuristicParams& params) const override;

 private:
  SchedulerType type_;
};

// Tensors at which a fusion with reductions is cut into parts that can be scheduled.
ConflictingTensors reductionConflicts(Fusion* fusion);

// Threads that the shortest rows have, of a block that short rows share, and iterations that blocks
// at least take where they share a row or column. The schedule of rows of any length computes with
// them at the launch.
inline constexpr int64_t kFewestThreadsOfRow = 4;
inline constexpr int64_t kShortRowsThreads = 128;
inline constexpr int64_t kFewestIterations = 4;

namespace reduction {

// reduction_heuristics.cpp
ChosenParams chooseParams(SchedulerType type, Fusion* fusion, const ReductionAnalysis& analysis,
                          SchedulerRuntimeInfo& info);

} // namespace reduction

} // namespace nvfuser
