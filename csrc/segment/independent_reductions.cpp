// See independent_reductions.h.
#include <segment/independent_reductions.h>

#include <ir/visitor.h>
#include <segment/kernel_size.h>

#include <algorithm>
#include <map>
#include <string>

namespace nvfuser {
namespace {

// More than so many are not compared with each other, so that planning stays linear.
constexpr size_t kMostTries = 4;

// The dimensions of the widest reduction in a segment: which are reduced, and their sizes.
using Pattern = std::vector<std::pair<bool, std::string>>;

std::string sizeText(const Val* extent) {
  return extent->isConst() ? extent->toInlineString() : "#" + std::to_string(extent->name());
}

Pattern patternOf(const Segment& segment) {
  Pattern widest;
  for (const Expr* e : segment.exprs) {
    if (!isReduction(e)) {
      continue;
    }
    Pattern pattern;
    for (const IterDomain* id : e->output(0)->as<TensorView>()->getLogicalDomain()) {
      if (!id->isBroadcast()) {
        pattern.emplace_back(id->isReduction(), sizeText(id->extent()));
      }
    }
    if (pattern.size() > widest.size()) {
      widest = std::move(pattern);
    }
  }
  return widest;
}

class Joiner {
 public:
  Joiner(std::vector<Segment>& segments, const WholeFusion& whole, const SegmentJudge& judge)
      : segments_(segments), whole_(whole), judge_(judge) {
    for (const Expr* e : whole.fusion->exprs()) {
      order_.emplace(e, order_.size());
    }
  }

  void run() {
    for (size_t i = 0; i < segments_.size();) {
      i = segments_[i].scheduler == SchedulerType::Reduction && joinWithEarlier(i) ? i : i + 1;
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
    const std::vector<bool> after = dependOn(first, second);
    if (after.back()) {
      return false;
    }
    std::vector<Expr*> both = segments_[first].exprs;
    both.insert(both.end(), segments_[second].exprs.begin(), segments_[second].exprs.end());
    std::sort(both.begin(), both.end(),
              [&](const Expr* a, const Expr* b) { return order_.at(a) < order_.at(b); });
    if (!whyTooLarge(both).empty()) {
      return false;
    }
    Segment joined = extractSegment(whole_, both);
    const SegmentVerdict verdict = judge_(joined.fusion.get());
    if (verdict.scheduler != SchedulerType::Reduction) {
      return false;
    }
    joined.scheduler = verdict.scheduler;
    joined.note = "reductions of the same dimensions that do not depend on each other";
    place(std::move(joined), first, second, after);
    return true;
  }

  // Of the segments from `first` to `last` those that need its results.
  std::vector<bool> dependOn(size_t first, size_t last) const {
    std::unordered_set<const Val*> made(segments_[first].outputs.begin(),
                                        segments_[first].outputs.end());
    std::vector<bool> out(last - first + 1, false);
    for (size_t i = first + 1; i <= last; ++i) {
      const Segment& s = segments_[i];
      if (std::any_of(s.inputs.begin(), s.inputs.end(),
                      [&](const Val* in) { return made.count(in) != 0; })) {
        out[i - first] = true;
        made.insert(s.outputs.begin(), s.outputs.end());
      }
    }
    return out;
  }

  // What needs the first's results goes after the joined segment, all else before it.
  void place(Segment joined, size_t first, size_t second, const std::vector<bool>& after) {
    std::vector<Segment> between;
    for (const bool behind : {false, true}) {
      if (behind) {
        between.push_back(std::move(joined));
      }
      for (size_t i = first + 1; i < second; ++i) {
        if (after[i - first] == behind) {
          between.push_back(std::move(segments_[i]));
        }
      }
    }
    std::move(between.begin(), between.end(),
              segments_.begin() + static_cast<std::ptrdiff_t>(first));
    segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(second));
  }

  std::vector<Segment>& segments_;
  const WholeFusion& whole_;
  const SegmentJudge& judge_;
  std::unordered_map<const Expr*, size_t> order_;
  std::map<Pattern, std::vector<const Val*>> by_pattern_; // an output of each segment
};

} // namespace

void joinIndependentReductions(std::vector<Segment>& segments, const WholeFusion& whole,
                               const SegmentJudge& judge) {
  Joiner(segments, whole, judge).run();
}

} // namespace nvfuser
