// SPDX-License-Identifier: BSD-3-Clause
// See independent.h.
#include <segment/independent.h>

#include <ir/visitor.h>
#include <runtime/in_place_hazard.h>
#include <segment/kernel_size.h>
#include <segment/launch_order.h>
#include <segment/traffic.h>

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

namespace nvfuser {
namespace {

// More than so many are not compared with each other, so that planning stays linear.
constexpr size_t kMostTries = 4;
// Bytes that an H200 reads or writes in the time that one more kernel takes, about a microsecond:
// so many more in memory are no reason for it.
constexpr double kOfALaunch = 4 << 20;

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

// Bytes of results and intermediate tensors that lie in memory while each segment runs, as far as
// sizes are known. Of joined ones it may be less.
class Memory {
 public:
  explicit Memory(const std::vector<Segment>& segments) {
    std::unordered_map<const Val*, size_t> last_use;
    for (size_t i = 0; i < segments.size(); ++i) {
      for (const Val* in : segments[i].inputs) {
        last_use[in] = i;
      }
    }
    double now = 0;
    for (size_t i = 0; i < segments.size(); ++i) {
      now += bytesOf(segments[i].outputs);
      of(segments[i]) = now;
      peak_ = std::max(peak_, now);
      for (const auto* vals : {&segments[i].inputs, &segments[i].outputs}) {
        for (const Val* v : *vals) {
          now -= isIntermediate(v) && last_use[v] <= i ? sizeOf(v) : 0;
        }
      }
    }
  }

  // The one that is computed later than it was keeps what it reads, the one that is computed
  // earlier what it makes.
  bool isRaisedBy(const std::vector<Segment>& segments, size_t first, size_t second,
                  const std::vector<bool>& after) {
    const double most = peak_ + kOfALaunch;
    for (size_t i = first + 1; i < second; ++i) {
      if (of(segments[i]) + kept(segments[after[i - first] ? second : first], after[i - first]) >
          most) {
        return true;
      }
    }
    return ofBoth(segments[first], segments[second]) > most;
  }

  void join(const std::vector<Segment>& segments, size_t first, size_t second,
            const std::vector<bool>& after, const Segment& joined) {
    for (size_t i = first + 1; i < second; ++i) {
      of(segments[i]) += kept(segments[after[i - first] ? second : first], after[i - first]);
    }
    of(joined) = ofBoth(segments[first], segments[second]);
  }

 private:
  static bool isIntermediate(const Val* v) {
    return v->isTensor() && !v->isFusionInput() && !v->isFusionOutput();
  }

  static double readOf(const Segment& segment) {
    double bytes = 0;
    for (const Val* v : segment.inputs) {
      bytes += isIntermediate(v) ? sizeOf(v) : 0;
    }
    return bytes;
  }

  // By what it makes earlier, or reads later.
  static double kept(const Segment& segment, bool is_earlier) {
    const double more = bytesOf(segment.outputs) - readOf(segment);
    return std::max(0.0, is_earlier ? more : -more);
  }

  double ofBoth(const Segment& first, const Segment& second) {
    return std::max(of(first) + bytesOf(second.outputs), of(second) + readOf(first));
  }

  double& of(const Segment& segment) {
    return bytes_[segment.outputs.empty() ? nullptr : segment.outputs.front()];
  }

  std::unordered_map<const Val*, double> bytes_; // by the first output of each segment
  double peak_ = 0;
};

class Joiner {
 public:
  Joiner(std::vector<Segment>& segments, const WholeFusion& whole, const SegmentJudge& judge)
      : segments_(segments), whole_(whole), judge_(judge), memory_(segments) {
    const Fusion* fusion = whole.fusion;
    for (size_t k = 0; k < fusion->outputs().size(); ++k) {
      if (const Val* input = fusion->outputAliases()[k].input) {
        updated_[fusion->outputs()[k]] = input;
      }
    }
  }

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
    auto it = std::find_if(segments_.begin(), segments_.end(),
                           [&](const Segment& s) { return contains(s.outputs, output); });
    return static_cast<size_t>(it - segments_.begin());
  }

  bool joinWith(size_t first, size_t second) {
    const std::vector<bool> after = needResultsOf(segments_, first, second);
    if (after.back() || memory_.isRaisedBy(segments_, first, second, after)) {
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
    if (!mayUpdate(joined, first, second)) {
      return false;
    }
    joined.note = "loops of the same sizes that do not depend on each other";
    memory_.join(segments_, first, second, after, joined);
    placeJoined(segments_, std::move(joined), first, second, after);
    return true;
  }

  // Whether a kernel may read and write inputs that are updated: each element is read by the thread
  // that writes it, and nobody else reads the input, which may be later then.
  // (executor/in_place.h has the rule for any kernel, and makes copies where it is broken.)
  bool mayUpdate(const Segment& joined, size_t first, size_t second) const {
    for (const auto& [out, input] : updated_) {
      if (!contains(joined.outputs, out)) {
        if (contains(joined.inputs, input)) {
          return false;
        }
        continue;
      }
      const size_t alone = contains(segments_[first].outputs, out) ? first : second;
      for (size_t i = 0; i < segments_.size(); ++i) {
        if (i != alone && contains(segments_[i].inputs, input)) {
          return false;
        }
      }
      if (!hasElementsOfOneThread(joined, out->as<TensorView>())) {
        return false;
      }
    }
    return true;
  }

  // Loops over more than the output's elements would visit some of them more than once.
  static bool hasElementsOfOneThread(const Segment& segment, const TensorView* out) {
    return segment.scheduler == SchedulerType::PointWise &&
           std::all_of(segment.outputs.begin(), segment.outputs.end(),
                       [&](const Val* v) { return sameShape(v->as<TensorView>(), out); }) &&
           std::none_of(segment.exprs.begin(), segment.exprs.end(),
                        [](const Expr* e) { return e->kind() == ExprKind::ScatterOp; });
  }

  static bool contains(const std::vector<Val*>& vals, const Val* v) {
    return std::find(vals.begin(), vals.end(), v) != vals.end();
  }

  std::vector<Segment>& segments_;
  const WholeFusion& whole_;
  const SegmentJudge& judge_;
  Memory memory_;
  std::unordered_map<const Val*, const Val*> updated_;    // inputs, by the outputs that update them
  std::map<Pattern, std::vector<const Val*>> by_pattern_; // an output of each segment
};

} // namespace

void joinIndependent(std::vector<Segment>& segments, const WholeFusion& whole,
                     const SegmentJudge& judge) {
  Joiner(segments, whole, judge).run();
}

} // namespace nvfuser
