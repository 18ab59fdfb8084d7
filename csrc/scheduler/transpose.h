// SPDX-License-Identifier: BSD-3-Clause
// The transpose scheduler: pointwise fusions of which some inputs and outputs are contiguous along
// one dimension and some along another. Both sides of global memory are accessed by vectors; the
// elements change threads in shared memory.
#pragma once

#include <scheduler/pointwise.h>
#include <scheduler/transpose_params.h>

namespace nvfuser {

class TransposeScheduler : public SchedulerEntry {
 public:
  SchedulerType type() const override {
    return SchedulerType::Transpose;
  }
  std::string whyNot(Fusion* fusion) const override;
  ChosenParams computeHeuristics(Fusion* fusion, SchedulerRuntimeInfo& info,
                                 HeuristicCache* cache = nullptr) const override;
  Alternative alternative() const override {
    return {Alternative::Kind::OtherScheduler, SchedulerType::PointWise};
  }
  void schedule(Fusion* fusion, const HeuristicParams& params) const override;
};

// What a transpose schedule is made from, independent of shapes.
//
// The first group of tensors is contiguous along the innermost axis of the loop order, the second
// along another axis. Tensors that belong to neither, or lack an axis, are accessed as the first
// group's loops come to them.
class TransposeAnalysis {
 public:
  // Why there is no schedule, or empty.
  static std::unique_ptr<TransposeAnalysis> run(Fusion* fusion, std::string* why_not);

  std::unique_ptr<PointwiseAnalysis> pointwise;
  // Axes of the reference in the memory order of each group, innermost last. The loop order is the
  // first's.
  std::vector<int64_t> order_1;
  std::vector<int64_t> order_2;
  // Inputs and outputs.
  std::vector<pointwise::TensorAccess> group_1;
  std::vector<pointwise::TensorAccess> group_2;
  // Axes that some of the second group lack: no part of the tiles.
  std::vector<int64_t> not_in_tiles;

  // The last `merged` axes of an order: one dimension of the tiles.
  static std::vector<int64_t> tileAxes(const std::vector<int64_t>& order, int64_t merged);
};

namespace pointwise {

// transpose_heuristics.cpp
std::unique_ptr<TransposeParams> chooseTransposeParams(const TransposeAnalysis& analysis,
                                                       SchedulerRuntimeInfo& info);

} // namespace pointwise

} // namespace nvfuser
