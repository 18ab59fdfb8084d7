// SPDX-License-Identifier: BSD-3-Clause
// A scheduler is one object: whether it can take a fusion (and why not), which parameters suit
// given shapes, and applying a schedule with given parameters.
#pragma once

#include <base/error.h>
#include <fusion.h>
#include <scheduler/params.h>
#include <scheduler/runtime_info.h>
#include <scheduler/wanted.h>
#include <segment/segment.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nvfuser {

// Parameters for some shapes, or why there are none: what the scheduler would keep on chip does not
// fit there.
struct ChosenParams {
  template <class Params>
  ChosenParams(std::unique_ptr<Params> chosen) : params(std::move(chosen)) {}
  static ChosenParams doesNotFit(std::string why) {
    ChosenParams out{std::unique_ptr<HeuristicParams>()};
    out.why_not = std::move(why);
    return out;
  }

  std::unique_ptr<HeuristicParams> params;
  std::string why_not; // if there are no parameters
};

// What to try where no kernel could be made of a segment with the parameters of the heuristics, or
// the kernel cannot be launched, before the segment is cut.
struct Alternative {
  enum class Kind : uint8_t {
    None,
    PlainParams,    // HeuristicParams::makePlain
    OtherScheduler, // for this segment, if it takes it
    LeaveOut        // the scheduler, in the whole definition
  };
  Kind kind = Kind::None;
  SchedulerType scheduler = SchedulerType::None;
};

class SchedulerEntry {
 public:
  virtual ~SchedulerEntry() = default;
  virtual SchedulerType type() const = 0;
  // Empty if the fusion can be scheduled, for whatever shapes; otherwise the reason. Linear in the
  // fusion.
  virtual std::string whyNot(Fusion* fusion) const = 0;
  // What is to be rewritten in a whole definition before it is cut, for its sizes. Asked of all
  // schedulers, from the lowest priority up; `wanted` has the schedulers that are left out, to
  // which this one may add.
  virtual void wantRewrites(WholeDefinition& /*definition*/, Wanted& /*wanted*/) const {}
  // Why kernels of this scheduler have no use for what was rewritten for it
  // (Wanted::rewritten_for), by how the definition was cut; empty if they have.
  virtual std::string whyUseless(const SegmentedFusion& /*segmented*/) const {
    return {};
  }
  // Only for a fusion that can be scheduled.
  virtual ChosenParams computeHeuristics(Fusion* fusion, SchedulerRuntimeInfo& info,
                                         HeuristicCache* cache = nullptr) const = 0;
  virtual Alternative alternative() const {
    return {};
  }
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

// What a scheduler knows of a fusion that it takes, whatever the shapes: of the cache, where it is
// kept. Errors: UserError if it cannot take the fusion.
template <class Analysis>
std::shared_ptr<const Analysis> analysisOf(Fusion* fusion, SchedulerType scheduler,
                                           HeuristicCache* cache = nullptr) {
  if (cache != nullptr && cache->data != nullptr) {
    return std::static_pointer_cast<const Analysis>(cache->data);
  }
  std::string why;
  std::shared_ptr<const Analysis> analysis = Analysis::run(fusion, &why);
  NVF_CHECK(why.empty(), "The ", schedulerName(scheduler),
            " scheduler cannot take this fusion: ", why);
  if (cache != nullptr) {
    cache->data = analysis;
  }
  return analysis;
}

} // namespace nvfuser
