// SPDX-License-Identifier: BSD-3-Clause
// Heuristic parameters: what a scheduler decides for given shapes. They print, compare and hash,
// can be edited by hand, and are all that a schedule depends on besides the fusion, so that equal
// parameters mean an equal kernel.
#pragma once

#include <runtime/executor_params.h>
#include <type.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace nvfuser {

class HeuristicParams {
 public:
  explicit HeuristicParams(SchedulerType type) : scheduler_type(type) {}
  virtual ~HeuristicParams() = default;

  const SchedulerType scheduler_type;
  // Launch extents that the schedule is made for; they may be larger than what is launched in the
  // end.
  LaunchParams lparams;
  CompileParams cparams;
  std::string tag;
  // L2 is asked to give up what is read last: see cache_policy.h.
  bool evict_inputs_last = false;
  // Results go past the caches of the host: see cache_policy.h.
  bool stream_outputs = false;

  // What parameters of every scheduler have beside lparams and cparams, see param_fields.h.
  template <class Visitor>
  static void sharedFields(Visitor&& visit) {
    visit("evict_inputs_last", &HeuristicParams::evict_inputs_last);
    visit("stream_outputs", &HeuristicParams::stream_outputs);
  }

  virtual std::string toString() const;
  virtual size_t hash() const;
  virtual bool sameAs(const HeuristicParams& other) const;
  virtual std::unique_ptr<HeuristicParams> clone() const {
    return std::make_unique<HeuristicParams>(*this);
  }
  // Extents that a kernel with these parameters is made for alone; empty if it takes others.
  virtual std::vector<int64_t> ownExtents() const {
    return {};
  }
  // Gives up what a kernel need not have to be right: one element after the other, no copies ahead.
  virtual void makePlain() {}
  bool operator==(const HeuristicParams& other) const {
    return sameAs(other);
  }

 protected:
  // A line for each shared field that is not as usual.
  std::string sharedText() const;
};

} // namespace nvfuser
