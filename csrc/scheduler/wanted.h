// SPDX-License-Identifier: BSD-3-Clause
// What schedulers want of a whole definition before it is cut into segments: rewrites, and which
// schedulers are not to be asked. Decided once for a definition and the sizes of a call; whoever
// plans or schedules later reads the decisions here.
#pragma once

#include <fusion.h>
#include <ir/evaluator.h>
#include <machine.h>
#include <preseg_passes/rewrites.h>
#include <runtime/kernel_args.h>
#include <scheduler/row_groups.h>
#include <scheduler/schedule_wishes.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace nvfuser {

// Why a scheduler is not asked for rows of at least so many elements, or at all.
struct LeftOutFor {
  std::string why;
  double from_elements = 0;
};

// Schedulers that are not asked.
using LeftOut = std::map<SchedulerType, LeftOutFor>;
// Keeps the shorter rows of two reasons for one scheduler.
void leaveOut(LeftOut& left_out, SchedulerType type, LeftOutFor reason);

// What a scheduler found out about a fusion that does not depend on shapes, kept by whoever asks
// repeatedly. Valid for one fusion as long as it is not changed.
struct HeuristicCache {
  std::shared_ptr<const void> data;
};

// A definition without Symbolic domains, before it is rewritten, and the sizes of a call.
class WholeDefinition {
 public:
  // What schedulers found out is kept with the definition.
  using Cache = std::map<SchedulerType, HeuristicCache>;
  WholeDefinition(Fusion* fusion, std::span<const ArgView> args, const MachineModel& machine,
                  Cache& cache)
      : fusion_(fusion), args_(args), machine_(machine), cache_(cache) {}

  Fusion* fusion() const {
    return fusion_;
  }
  const MachineModel& machine() const {
    return machine_;
  }
  const ScheduleWishes& wishes() const {
    return wishes_;
  }
  void setWishes(const ScheduleWishes& wishes) {
    wishes_ = wishes;
  }
  // Whether kernels that take any extent are wanted, rather than those that are best for the sizes
  // at hand and have this product of HeuristicParams::ownExtents().
  using TakesAny = std::function<bool(int64_t own_extent)>;
  bool takesAnyExtent(int64_t own_extent) const {
    return takes_any_ != nullptr && takes_any_(own_extent);
  }
  void setTakesAnyExtent(TakesAny takes_any) {
    takes_any_ = std::move(takes_any);
  }
  // Otherwise its operations are evaluated one by one.
  bool makesKernels() const {
    return makes_kernels_;
  }
  void setMakesKernels(bool makes) {
    makes_kernels_ = makes;
  }
  HeuristicCache& cacheOf(SchedulerType scheduler) {
    return cache_[scheduler];
  }
  // Of extents that the inputs' sizes decide.
  int64_t product(const std::vector<Val*>& extents);

 private:
  Fusion* fusion_;
  std::span<const ArgView> args_;
  const MachineModel& machine_;
  ScheduleWishes wishes_;
  Cache& cache_;
  TakesAny takes_any_; // null: no
  bool makes_kernels_ = true;
  std::optional<ScalarEvaluator> sizes_; // bound when first asked for
};

struct Wanted {
  Rewrites rewrites;
  LeftOut left_out;
  // The scheduler whose kernels are to profit from the rewrites; it is left out if none does.
  SchedulerType rewritten_for = SchedulerType::None;
  // Where the wishes depend on sizes, the product of HeuristicParams::ownExtents() of kernels that
  // are made for these sizes alone; else 0.
  int64_t own_extent = 0;
  // Of Rewrites::partial_sums, for these sizes: the number of groups, and who reduces their rows.
  int64_t num_row_groups = 0;
  RowGroups row_groups;
  std::map<RowSizes, RowGroups> groups_of; // of Rewrites::groups_of
  AnyRowGroups any_row_groups;             // if the number is left to the launch

  // The same definition can be planned for both.
  bool rewritesLike(const Wanted& other) const;
};

} // namespace nvfuser
