// SPDX-License-Identifier: BSD-3-Clause
// The pointwise scheduler: one kernel for any mix of elementwise, broadcast and shape ops whose
// outputs can all run in the loops of one of them (the reference).
#pragma once

#include <scheduler/pointwise_analysis.h>
#include <scheduler/pointwise_params.h>
#include <scheduler/scheduler.h>

#include <span>

namespace nvfuser {

class PointwiseScheduler : public SchedulerEntry {
 public:
  SchedulerType type() const override {
    return SchedulerType::PointWise;
  }
  std::string whyNot(Fusion* fusion) const override;
  void wantRewrites(WholeDefinition& definition, Wanted& wanted) const override;
  ChosenParams computeHeuristics(Fusion* fusion, SchedulerRuntimeInfo& info,
                                 HeuristicCache* cache = nullptr) const override;
  Alternative alternative() const override {
    return {Alternative::Kind::PlainParams, SchedulerType::PointWise};
  }
  void schedule(Fusion* fusion, const HeuristicParams& params) const override;
};

namespace pointwise {

// An input or output as a kernel with the given parameters accesses it.
struct TensorAccess {
  TensorView* tv;
  // Among inputs and then outputs.
  int64_t position;
  const TensorVersion* version;
  int64_t number; // of all accesses: of inputs, each in all the ways it is read, and of outputs
};
std::vector<TensorAccess> tensorAccesses(const Fusion* fusion, const PointwiseAnalysis& analysis);

// The axes of the loop order from the position `first` on.
std::span<const int64_t> innerAxes(const PointwiseAnalysis& analysis, int64_t first);

// The run of these axes (outermost first) along the memory of a tensor.
ContiguousRun runAlong(const PointwiseAnalysis& analysis, const TensorVersion& version,
                       std::span<const int64_t> axes);
// The same of any terms of its dimensions.
ContiguousRun runAlongTerms(const PointwiseAnalysis& analysis, const TensorVersion& version,
                            std::span<const AxisTerms::Id> terms);

// The tensor has all these axes, and its memory lets vectors along them.
bool isVectorizable(const PointwiseAnalysis& analysis, const TensorVersion& version,
                    std::span<const int64_t> axes);

// pointwise_vectors.cpp

// The input whose memory a scatter writes; null for any other tensor.
const TensorView* updatedByStore(const TensorView* tv);

// At the shapes at hand, vectors of `width` elements along the axes are whole and aligned.
bool canUseVectors(const PointwiseAnalysis& analysis, const TensorAccess& access,
                   std::span<const int64_t> axes, int64_t width, SchedulerRuntimeInfo& info);

// pointwise_heuristics.cpp
std::unique_ptr<PointwiseParams> chooseParams(const Fusion* fusion,
                                              const PointwiseAnalysis& analysis,
                                              SchedulerRuntimeInfo& info);

} // namespace pointwise

} // namespace nvfuser
