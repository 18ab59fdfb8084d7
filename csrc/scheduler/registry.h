// SPDX-License-Identifier: BSD-3-Clause
// The schedulers that exist, in order of priority, and the questions that callers ask about them.
//
// For the segmenter:
//   * canSchedule(fusion) of a candidate segment is cheap (linear in its size) and needs no shapes.
//   * If the whole fusion cannot be scheduled, conflictingTensors() lists the tensors at which a
//     cut (the tensor becomes an output of the producing and an input of the consuming segment)
//     takes away a reason. Cutting at all of them gives segments that can be scheduled; cutting at
//     some may be enough.
#pragma once

#include <scheduler/scheduler.h>

#include <string>
#include <vector>

namespace nvfuser {

// Null if the scheduler does not exist (yet).
const SchedulerEntry* schedulerEntry(SchedulerType type);
// All that make kernels, highest priority first. Evaluation (expr_eval) is not among them: it takes
// what none of them does.
const std::vector<const SchedulerEntry*>& schedulerEntries();

// SchedulerEntry::whyNot(), but that no kernel is made of an operation that a library evaluates.
std::string whyNot(const SchedulerEntry& entry, Fusion* fusion);

struct CanSchedule {
  bool ok = false;
  // "Scheduler _pointwise_ ***rejected*** because : cannot find reference tensor"
  std::string reason;
  explicit operator bool() const {
    return ok;
  }
};
CanSchedule canSchedule(Fusion* fusion, SchedulerType type);
// The scheduler with the highest priority that takes the fusion and is not left out for rows as
// long as its longest one; None if there is none.
SchedulerType chooseScheduler(Fusion* fusion, const LeftOut& left_out = {});
bool isLeftOut(const Fusion* fusion, SchedulerType type, const LeftOut& left_out);
// Elements of the rows of its reductions; infinitely many where that is not known.
double longestRow(const Fusion& fusion);
std::vector<SchedulerType> compatibleSchedulers(Fusion* fusion);

// What all schedulers want of a definition, but for those that are left out.
Wanted wantedRewrites(WholeDefinition& definition, LeftOut left_out);

// Error if the scheduler cannot take the fusion.
ChosenParams chooseParams(Fusion* fusion, SchedulerType type, SchedulerRuntimeInfo& info,
                          HeuristicCache* cache = nullptr);
// The same; error too if there are none for these shapes.
std::unique_ptr<HeuristicParams> computeHeuristics(Fusion* fusion, SchedulerType type,
                                                   SchedulerRuntimeInfo& info,
                                                   HeuristicCache* cache = nullptr);
void scheduleWith(Fusion* fusion, SchedulerType type, const HeuristicParams& params);

// Why no kernel takes a fusion: what refuses it in the scheduler that is meant for what it does.
std::string whyNoScheduler(Fusion* fusion);

// Empty if the fusion can be scheduled as a whole.
ConflictingTensors conflictingTensors(Fusion* fusion, const LeftOut& left_out = {});

} // namespace nvfuser
