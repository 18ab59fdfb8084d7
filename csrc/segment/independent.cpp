// SPDX-License-Identifier: BSD-3-Clause
// See independent.h.
#include <segment/independent.h>

#include <ir/visitor.h>
#include <segment/kernel_size.h>
#include <segment/launch_order.h>

#include <algorithm>
#include <map>
#include <string>

namespace nvfuser {
namespace {

// More than so many are not compared with each other, so that planning stays linear.
constexpr size_t kMostTries = 4;

// The loops of a segment: dimensions of what its widest reduction is of, or of its widest result if
// nothing is reduced, in the order of memory; which are reduced, and their sizes.
struct Pattern {
  SchedulerType scheduler = SchedulerType::None;
  std::vector<std::pair<bool, std::string>> dims = {};
  auto operator<=>(const Pattern&) const = default;
};

std::string sizeText(const Val* extent) {
  return extent->isConst() ? extent->toInlineString() : "#" + std::to_string(extent->name());
}

// The dimensions of a result in the order in which the operand has them.
TensorDomain::Ids dimsInMemory(const TensorView* operand, const TensorDomain::Ids& dims) {
  const std::vector<size_t> order = operand->domain()->memoryOrder();
  if (order.size() != dims.size()) {
    return dims;
  }
  TensorDomain::Ids out;
  for (const size_t d : order) {
    out.push_back(dims.at(d));
  }
  return out;
}

Pattern patternOf(const Segment& segment) {
  Pattern widest{segment.scheduler};
  const bool reduces = segment.scheduler != SchedulerType::PointWise;
  for (const Expr* e : segment.exprs) {
    const auto* out = tryAs<TensorView>(e->output(0));
    if (out == nullptr || (reduces && !isReduction(e))) {
      continue;
    }
    decltype(Pattern::dims) dims;
    for (const IterDomain* id :
         reduces ? dimsInMemory(e->input(0)->as<TensorView>(), out->getLogicalDomain())
                 : out->getMaybeAllocationDomain()) {
      if (!id->isBroadcast()) {
        dims.emplace_back(id->isReduction(), sizeText(id->extent()));
      }
    }
    if (dims.size() > widest.dims.size()) {
      widest.dims = std::move(dims);
    }
  }
  return widest;
}

bool mayShareKernel(const Segment& segment) {
  return segment.scheduler == SchedulerType::PointWise ||
         segment.scheduler == SchedulerType::Reduction ||
         segment.scheduler == SchedulerType::InnerPersistent;
}

class Joiner {
 public:
  Joiner(std::vector<Segment>& segments, const WholeFusion& whole, const SegmentJudge& judge)
      : segments_(segments), whole_(whole), judge_(judge) {}

  void run() {
    for (size_t i = 0; i < segments_.size();) {
      i = mayShareKernel(segments_[i]) && joinWithEarlier(i) ? i : i + 1;
    }
  }

 private:
  // Whether the segment is gone.
  bool joinWithEarlier(size_t i) {
    const Pattern pattern = patternOf(segments_[i]);
    std::vector<const Val*>& earlier = by_pattern_[pattern];
    size_t tries = 0;
    for (auto it = earlier.rbegin(); it != earlier.rend() && tries < kMostTries; ++it, ++tries) {
      if (joinWith(positionOf(*it), i)) {
        return true;
      }
    }
    earlier.push_back(segments_[i].outputs.front());
    return false;
  }

  size_t positionOf(const Val* output) const {
    auto it = std::find_if(segments_.begin(), segments_.end(), [&](const Segment& s) {
      return std::find(s.outputs.begin(), s.outputs.end(), output) != s.outputs.end();
    });
    return static_cast<size_t>(it - segments_.begin());
  }

  bool joinWith(size_t first, size_t second) {
    const std::vector<bool> after = needResultsOf(segments_, first, second);
    if (after.back()) {
      return false;
    }
    std::vector<Expr*> both = segments_[first].exprs;
    both.insert(both.end(), segments_[second].exprs.begin(), segments_[second].exprs.end());
    both = whole_.withRepeated(both);
    if (!whyTooLarge(both).empty()) {
      return false;
    }
    Segment joined = extractSegment(whole_, both);
    const SegmentVerdict verdict = judge_(joined.fusion.get());
    if (verdict.scheduler != segments_[first].scheduler) {
      return false;
    }
    joined.scheduler = verdict.scheduler;
    joined.note = "loops of the same sizes that do not depend on each other";
    placeJoined(segments_, std::move(joined), first, second, after);
    return true;
  }

  std::vector<Segment>& segments_;
  const WholeFusion& whole_;
  const SegmentJudge& judge_;
  std::map<Pattern, std::vector<const Val*>> by_pattern_; // an output of each segment
};

} // namespace

void joinIndependent(std::vector<Segment>& segments, const WholeFusion& whole,
                     const SegmentJudge& judge) {
  Joiner(segments, whole, judge).run();
}

} // namespace nvfuser
