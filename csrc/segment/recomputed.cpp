// SPDX-License-Identifier: BSD-3-Clause
// See recomputed.h.
#include <segment/recomputed.h>

#include <ir/exprs.h>
#include <ir/visitor.h>
#include <preseg_passes/input_bits.h>
#include <segment/kernel_size.h>
#include <segment/repeated.h>
#include <segment/traffic.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace nvfuser {

namespace {

using Exprs = std::vector<Expr*>;

class Recomputer {
 public:
  Recomputer(std::vector<Segment>& segments, WholeFusion& whole, const SegmentJudge& judge)
      : segments_(segments), whole_(whole), judge_(judge) {}

  void run() {
    for (size_t s = 0; s < segments_.size(); ++s) {
      in_memory_.insert(segments_[s].outputs.begin(), segments_[s].outputs.end());
      for (const Val* in : segments_[s].inputs) {
        readers_[in].push_back(s);
      }
    }
    for (size_t maker = segments_.size(); maker-- > 0;) {
      const std::vector<const TensorView*> handed_on = handedOn(segments_[maker]);
      if (!handed_on.empty() && !recompute(maker, handed_on) && handed_on.size() > 1) {
        for (const TensorView* tv : handed_on) {
          recompute(maker, {tv});
        }
      }
    }
    std::erase_if(segments_, isGone);
  }

 private:
  static bool isKernel(const Segment& segment) {
    return segment.scheduler != SchedulerType::ExprEval && !segment.must_be_joined;
  }

  // Nothing was left of it.
  static bool isGone(const Segment& segment) {
    return segment.fusion == nullptr;
  }

  static bool reads(const Segment& segment, const Val* tensor) {
    return std::find(segment.inputs.begin(), segment.inputs.end(), tensor) != segment.inputs.end();
  }

  // Tensors that kernels alone read, and could compute of others in memory.
  std::vector<const TensorView*> handedOn(const Segment& maker) const {
    std::vector<const TensorView*> out;
    for (const Val* v : maker.outputs) {
      const auto* tv = v->as<TensorView>();
      if (isKernel(maker) && !mustBeInMemory(tv) && chainOf({tv}).has_value()) {
        out.push_back(tv);
      }
    }
    return out;
  }

  // What computes the tensors, of which tensors in memory.
  struct Chain {
    std::unordered_set<const Expr*> exprs;
    std::unordered_set<const Val*> leaves;
  };

  std::optional<Chain> chainOf(const std::vector<const TensorView*>& tensors) const {
    constexpr size_t kMostOps = 128;
    const std::unordered_set<const Val*> computed(tensors.begin(), tensors.end());
    Chain chain;
    std::vector<const Expr*> stack;
    for (const TensorView* tv : tensors) {
      stack.push_back(tv->definition());
    }
    while (!stack.empty()) {
      const Expr* e = stack.back();
      stack.pop_back();
      if (!chain.exprs.insert(e).second) {
        continue;
      }
      const bool is_slice = e->kind() == ExprKind::SliceOp;
      if ((!isComputedByElement(e) && !is_slice) || chain.exprs.size() > kMostOps) {
        return std::nullopt;
      }
      for (const TensorView* in : tensorInputs(e)) {
        if (in->isFusionInput() || (in_memory_.count(in) != 0 && computed.count(in) == 0)) {
          chain.leaves.insert(in);
        } else if (is_slice && !isWideningCast(in->definition())) {
          return std::nullopt; // all of it would be computed for a part
        } else {
          stack.push_back(in->definition());
        }
      }
    }
    return chain;
  }

  bool recompute(size_t maker, const std::vector<const TensorView*>& tensors) {
    const std::optional<Chain> chain = chainOf(tensors);
    if (!chain.has_value()) {
      return false;
    }
    double less = 0;
    double more = 0;
    std::set<size_t> changed{maker};
    for (const TensorView* tv : tensors) {
      const std::vector<size_t>& readers = readers_[tv];
      less += sizeOf(tv) * static_cast<double>(1 + readers.size());
      changed.insert(readers.begin(), readers.end());
    }
    for (const size_t s : changed) {
      for (const Val* leaf : chain->leaves) {
        more += s == maker || reads(segments_[s], leaf) ? 0 : sizeOf(leaf);
      }
    }
    // As many bytes are less memory still.
    if (more > less || !replace(changed, *chain)) {
      return false;
    }
    for (const TensorView* tv : tensors) {
      in_memory_.erase(tv);
      readers_.erase(tv);
    }
    for (const Val* leaf : chain->leaves) {
      std::vector<size_t>& readers = readers_[leaf];
      std::erase_if(readers, [&](size_t s) { return changed.count(s) != 0; });
      std::copy_if(changed.begin(), changed.end(), std::back_inserter(readers),
                   [&](size_t s) { return reads(segments_[s], leaf); });
    }
    return true;
  }

  // All of the segments stay what they are, or nothing is changed.
  bool replace(const std::set<size_t>& changed, const Chain& chain) {
    Exprs fresh;
    for (const Expr* e : chain.exprs) {
      if (whole_.repeated.insert(e).second) {
        fresh.push_back(const_cast<Expr*>(e));
      }
    }
    std::vector<std::pair<size_t, Segment>> made;
    for (const size_t s : changed) {
      const Segment& old = segments_[s];
      const Exprs exprs = whole_.withoutRepeated(old.exprs);
      if (exprs.empty()) {
        made.emplace_back(s, Segment());
        continue;
      }
      Segment segment;
      if (isKernel(old) && whyTooLarge(whole_.withRepeated(exprs)).empty()) {
        segment = extractSegment(whole_, exprs);
        segment.scheduler = judge_(segment.fusion.get()).scheduler;
        segment.note = old.note;
      }
      if (segment.fusion == nullptr || segment.scheduler != old.scheduler) {
        for (const Expr* e : fresh) {
          whole_.repeated.erase(e);
        }
        return false;
      }
      made.emplace_back(s, std::move(segment));
    }
    for (auto& [s, segment] : made) {
      segments_[s] = std::move(segment);
    }
    return true;
  }

  std::vector<Segment>& segments_;
  WholeFusion& whole_;
  const SegmentJudge& judge_;
  std::unordered_set<const Val*> in_memory_; // that segments make
  std::unordered_map<const Val*, std::vector<size_t>> readers_;
};

} // namespace

void recomputeWhatIsCheap(std::vector<Segment>& segments, WholeFusion& whole,
                          const SegmentJudge& judge) {
  Recomputer(segments, whole, judge).run();
}

} // namespace nvfuser
