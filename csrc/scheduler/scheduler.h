// A scheduler is one object: whether it can take a fusion (and why not), which parameters suit
// given shapes, and applying a schedule with given parameters.
#pragma once

#include <base/error.h>
#include <fusion.h>
#include <scheduler/params.h>
#include <scheduler/runtime_info.h>

#include <memory>
#include <string>
#include <vector>

namespace nvfuser {

// What a scheduler found out about a fusion that does not depend on shapes, kept by whoever asks
// for heuristics repeatedly. Valid for one fusion as long as it is not changed.
struct HeuristicCache {
  std::shared_ptr<const void> data;
};

class SchedulerEntry {
 public:
  virtual ~SchedulerEntry() = default;
  virtual SchedulerType type() const = 0;
  // Empty if the fusion can be scheduled, for whatever shapes; otherwise the reason. Linear in the
  // fusion.
  virtual std::string whyNot(Fusion* fusion) const = 0;
  // Only for a fusion that can be scheduled. DoesNotFit: some shapes it cannot be scheduled for.
  virtual std::unique_ptr<HeuristicParams> computeHeuristics(
      Fusion* fusion, SchedulerRuntimeInfo& info, HeuristicCache* cache = nullptr) const = 0;
  // Whether a kernel with these parameters may be the one that they would choose for these shapes
  // alone; cheaper than to ask them. `cache` as they filled it.
  virtual bool maySuit(const HeuristicParams& /*known*/, SchedulerRuntimeInfo& /*info*/,
                       const HeuristicCache& /*cache*/) const {
    return true;
  }
  // Changes the fusion: inserts caches, transforms and binds loops. The fusion is then ready for
  // lowering.
  virtual void schedule(Fusion* fusion, const HeuristicParams& params) const = 0;
};

} // namespace nvfuser
