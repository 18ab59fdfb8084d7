// The pointwise scheduler: one kernel for any mix of elementwise, broadcast and shape ops whose
// outputs can all run in the loops of one of them (the reference).
#pragma once

#include <scheduler/pointwise_analysis.h>
#include <scheduler/scheduler.h>

#include <span>

namespace nvfuser {

class PointwiseScheduler : public SchedulerEntry {
 public:
  SchedulerType type() const override {
    return SchedulerType::PointWise;
  }
  std::string whyNot(Fusion* fusion) const override;
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
};
std::vector<TensorAccess> tensorAccesses(const Fusion* fusion, const PointwiseAnalysis& analysis);

// The axes of the loop order from the position `first` on.
std::span<const int64_t> innerAxes(const PointwiseAnalysis& analysis, int64_t first);

// The dimensions of a tensor, from the innermost, that lie contiguously in memory and that the
// given axes (outermost first) run over in that order. `partial` is the factor by which a split
// takes only a part of the last one, null otherwise. A dimension that is read through slices and
// pads ends the run; `widths` is what these add to its ends.
struct ContiguousRun {
  std::vector<IterDomain*> dims;
  Val* partial = nullptr;
  std::vector<Val*> widths;
};
ContiguousRun contiguousRun(const PointwiseAnalysis& analysis, const TensorVersion& version,
                            std::span<const int64_t> axes);

// The tensor has all these axes, and its memory lets vectors along them.
bool isVectorizable(const PointwiseAnalysis& analysis, const TensorVersion& version,
                    std::span<const int64_t> axes);

// At the shapes at hand, vectors of `width` elements along the axes are whole and aligned.
bool canUseVectors(const PointwiseAnalysis& analysis, const TensorAccess& access,
                   std::span<const int64_t> axes, int64_t width, SchedulerRuntimeInfo& info);

// pointwise_heuristics.cpp
std::unique_ptr<PointwiseParams> chooseParams(const Fusion* fusion,
                                              const PointwiseAnalysis& analysis,
                                              SchedulerRuntimeInfo& info);

} // namespace pointwise

} // namespace nvfuser
