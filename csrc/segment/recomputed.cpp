// SPDX-License-Identifier: BSD-3-Clause
// See recomputed.h.
#include <segment/recomputed.h>

#include <ir/exprs.h>
#include <ir/logical_map.h>
#include <ir/visitor.h>
#include <preseg_passes/input_bits.h>
#include <segment/kernel_size.h>
#include <segment/repeated.h>
#include <segment/slices.h>
#include <segment/traffic.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace nvfuser {

namespace {

using Exprs = std::vector<Expr*>;

// What lookups of all elements of a tensor move, each a sector of a line.
double sectorsOf(const Val* found) {
  constexpr double kSectorBits = 32 * 8;
  return sizeOf(found) * kSectorBits / static_cast<double>(dataTypeSizeBits(found->dtype()));
}

// Of what the kernels move, which is as much as they may move more for less memory.
constexpr double kLittle = 0.01;

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

  static bool countsOrFills(const Expr* e) {
    return e->kind() == ExprKind::IotaOp || e->kind() == ExprKind::FullOp;
  }

  // What computes the tensors, of which tensors in memory.
  struct Chain {
    std::unordered_set<const Expr*> exprs;
    std::unordered_set<const Val*> leaves;
    std::unordered_set<const Val*> tables; // of lookups
    double looked_up = 0;                  // bytes that lookups move
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
      const TensorView* table = lookedUpTensor(e);
      if ((!isComputedByElement(e) && !is_slice && table == nullptr && !countsOrFills(e)) ||
          chain.exprs.size() > kMostOps) {
        return std::nullopt;
      }
      for (const TensorView* in : tensorInputs(e)) {
        const bool is_there =
            in->isFusionInput() || (in_memory_.count(in) != 0 && computed.count(in) == 0);
        if (in == table) {
          if (!is_there) {
            return std::nullopt;
          }
          chain.tables.insert(in);
          chain.looked_up += sectorsOf(e->output(0));
        } else if (is_there) {
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
    double moved = 0;
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
      more += s == maker ? 0 : chain->looked_up;
      moved += traffic(segments_[s]);
    }
    // As many bytes are less memory still, and so are a few more.
    if (more > less + kLittle * moved || !replace(maker, changed, *chain)) {
      return false;
    }
    for (const TensorView* tv : tensors) {
      in_memory_.erase(tv);
    }
    return true;
  }

  // All of the segments stay what they are, or nothing is changed.
  bool replace(size_t maker, const std::set<size_t>& changed, const Chain& chain) {
    Exprs fresh;
    for (const Expr* e : chain.exprs) {
      if (whole_.repeated.insert(e).second) {
        fresh.push_back(const_cast<Expr*>(e));
      }
    }
    std::map<size_t, Exprs> exprs;
    for (const size_t s : changed) {
      exprs[s] = whole_.withoutRepeated(segments_[s].exprs);
    }
    moveDetached(maker, exprs);
    std::map<size_t, Segment> made;
    for (const size_t s : changed) {
      const Segment& old = segments_[s];
      Segment segment;
      if (exprs[s].empty()) {
        made.emplace(s, std::move(segment));
        continue;
      }
      if (isKernel(old) && whyTooLarge(whole_.withRepeated(exprs[s])).empty()) {
        segment = extractSegment(whole_, exprs[s]);
        segment.scheduler = judge_(segment.fusion.get()).scheduler;
        segment.note = old.note;
      }
      if (segment.fusion == nullptr || segment.scheduler != old.scheduler) {
        for (const Expr* e : fresh) {
          whole_.repeated.erase(e);
        }
        return false;
      }
      made.emplace(s, std::move(segment));
    }
    for (auto& [s, segment] : made) {
      for (const Val* in : segments_[s].inputs) {
        std::erase(readers_[in], s);
      }
      segments_[s] = std::move(segment);
      for (const Val* in : segments_[s].inputs) {
        readers_[in].push_back(s);
      }
    }
    return true;
  }

  // What else a kernel computes of the labels that it looked up with has nothing in common with its
  // rows any more: it goes to the first kernel that reads it.
  void moveDetached(size_t maker, std::map<size_t, Exprs>& exprs) const {
    const std::vector<Exprs> parts = components(whole_, exprs[maker], /*by_inputs=*/true);
    for (const Exprs& part : parts) {
      const size_t to = firstReaderOf(part, maker);
      if (parts.size() > 1 && exprs.count(to) != 0 &&
          std::all_of(part.begin(), part.end(), isComputedByElement)) {
        std::erase_if(exprs[maker], [&](const Expr* e) {
          return std::find(part.begin(), part.end(), e) != part.end();
        });
        exprs[to].insert(exprs[to].end(), part.begin(), part.end());
      }
    }
  }

  // Behind its maker; the number of segments if there is none.
  size_t firstReaderOf(const Exprs& part, size_t maker) const {
    for (size_t s = maker + 1; s < segments_.size(); ++s) {
      for (const Expr* e : part) {
        if (reads(segments_[s], e->output(0))) {
          return s;
        }
      }
    }
    return segments_.size();
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
