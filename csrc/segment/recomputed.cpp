// SPDX-License-Identifier: BSD-3-Clause
// See recomputed.h.
#include <segment/recomputed.h>

#include <ir/exprs.h>
#include <ir/logical_map.h>
#include <ir/op_traits.h>
#include <ir/visitor.h>
#include <preseg_passes/input_bits.h>
#include <segment/kernel_size.h>
#include <segment/memory_order.h>
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

// What a lookup of all elements of a tensor moves: rows of the table, or each a sector of a line.
double bytesLookedUp(const Expr* lookup) {
  constexpr double kSectorBytes = 32;
  const Val* found = lookup->output(0);
  return readsWholeRows(lookup) ? sizeOf(found) : elementsOf(found) * kSectorBytes;
}

// Of the loops of a kernel: what is computed in them is computed so often.
double iterationsOf(const Segment& segment) {
  double most = 0;
  for (const Expr* e : segment.exprs) {
    for (const TensorView* out : tensorOutputs(e)) {
      most = std::max(most, elementsOf(out));
    }
  }
  return most;
}

// Of what the kernels move, which is as much as they may move more for less memory.
constexpr double kLittle = 0.01;
// As many bytes but for a row of weights.
constexpr double kAsMany = 1.01;

class Recomputer {
 public:
  Recomputer(std::vector<Segment>& segments, WholeFusion& whole, const SegmentJudge& judge)
      : segments_(segments), whole_(whole), judge_(judge) {}

  void forMemory() {
    constexpr size_t kMostTries = 16; // so that planning stays linear
    findReaders();
    double least = peakBytes(segments_);
    size_t tries = 0;
    for (size_t maker = 0; maker < segments_.size(); ++maker) {
      const std::vector<Val*> made = segments_[maker].outputs;
      for (const Val* v : made) {
        const auto* tv = v->as<TensorView>();
        const std::vector<size_t>& readers = readers_[tv];
        const auto is_kernel = [&](size_t s) { return isKernel(segments_[s]); };
        if (tv->isFusionOutput() || std::all_of(readers.begin(), readers.end(), is_kernel) ||
            ++tries > kMostTries) {
          continue;
        }
        std::map<size_t, Segment> before = computeWhereRead(tv);
        const double now = before.empty() ? least : peakBytes(segments_);
        if (now < kNotably * least) {
          least = now;
          for (const auto& [s, segment] : before) {
            computes_again_.insert(s);
          }
          continue;
        }
        for (auto& [s, segment] : before) {
          segments_[s] = std::move(segment);
        }
      }
    }
  }

  void run() {
    findReaders();
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
  void findReaders() {
    for (size_t s = 0; s < segments_.size(); ++s) {
      in_memory_.insert(segments_[s].outputs.begin(), segments_[s].outputs.end());
      for (const Val* in : segments_[s].inputs) {
        readers_[in].push_back(s);
      }
    }
  }

  // Kernels that read it compute it where that moves no more. The segments that they were.
  std::map<size_t, Segment> computeWhereRead(const TensorView* tv) {
    constexpr size_t kFewOps = 16;
    std::map<size_t, Segment> before;
    const std::optional<Chain> chain = chainOf({tv});
    const auto isKept = [](const Val* v) { return v->isFusionInput() || v->isFusionOutput(); };
    if (!chain.has_value() || chain->exprs.size() > kFewOps || !chain->tables.empty() ||
        !std::all_of(chain->leaves.begin(), chain->leaves.end(), isKept)) {
      return before;
    }
    std::vector<const Expr*> fresh;
    for (const Expr* e : chain->exprs) {
      if (whole_.repeated.count(e) == 0) {
        fresh.push_back(e);
      }
    }
    for (const size_t s : std::vector<size_t>(readers_[tv])) {
      Segment& old = segments_[s];
      double more = 0;
      for (const Val* leaf : chain->leaves) {
        more += reads(old, leaf) ? 0 : sizeOf(leaf);
      }
      const Exprs exprs = whole_.withoutRepeated(old.exprs);
      // It is repeated for this one alone.
      whole_.repeated.insert(fresh.begin(), fresh.end());
      if (isKernel(old) && computes_again_.count(s) == 0 && more <= kAsMany * sizeOf(tv) &&
          !repeatsFunctions(*chain, old) && whyTooLarge(whole_.withRepeated(exprs)).empty()) {
        Segment segment = extractSegment(whole_, exprs);
        segment.scheduler = judge_(segment.fusion.get()).scheduler;
        segment.note = old.note;
        if (segment.scheduler == old.scheduler) {
          before.emplace(s, std::move(old));
          old = std::move(segment);
        }
      }
      for (const Expr* e : fresh) {
        whole_.repeated.erase(e);
      }
    }
    return before;
  }

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

  static bool repeatsOrFills(const Expr* e) {
    return e->kind() == ExprKind::IotaOp || e->kind() == ExprKind::FullOp ||
           e->kind() == ExprKind::ExpandOp;
  }

  // A scatter updates it where it is, so that nothing finds it there after that.
  static bool isWrittenOver(const TensorView* tv) {
    return std::any_of(tv->uses().begin(), tv->uses().end(), [tv](const Expr* use) {
      const auto* scatter = tryAs<ScatterOp>(use);
      return scatter != nullptr && scatter->isInPlace() && scatter->self() == tv;
    });
  }

  // What computes the tensors, of which tensors in memory.
  struct Chain {
    std::unordered_set<const Expr*> exprs;
    std::unordered_set<const Val*> leaves;
    std::unordered_set<const Val*> tables; // of lookups
    double looked_up = 0;                  // bytes that lookups move
    // Elements of the smallest result that takes many instructions.
    std::optional<double> fewest_of_function = std::nullopt;
  };

  // A function of a number is computed for each element that it is repeated for then, such as a
  // sine for each head.
  static bool repeatsFunctions(const Chain& chain, const Segment& reader) {
    constexpr double kFewIterations = 1 << 16; // take no time
    return chain.fewest_of_function.has_value() &&
           iterationsOf(reader) > std::max(kFewIterations, 2 * *chain.fewest_of_function);
  }

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
      const TensorView* table = e->kind() == ExprKind::RollOp ? nullptr : lookedUpTensor(e);
      if ((!isComputedByElement(e) && !is_slice && table == nullptr && !repeatsOrFills(e)) ||
          chain.exprs.size() > kMostOps) {
        return std::nullopt;
      }
      if (isFunction(e)) {
        const double elements = elementsOf(e->output(0));
        chain.fewest_of_function = std::min(chain.fewest_of_function.value_or(elements), elements);
      }
      for (const TensorView* in : tensorInputs(e)) {
        const bool is_there =
            in->isFusionInput() || (in_memory_.count(in) != 0 && computed.count(in) == 0);
        if (is_there ? isWrittenOver(in) : in == table) {
          return std::nullopt;
        }
        if (in == table) {
          chain.tables.insert(in);
          chain.looked_up += bytesLookedUp(e);
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
      if (s != maker && repeatsFunctions(*chain, segments_[s])) {
        return false;
      }
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
    for (size_t p = 0; parts.size() > 1 && p < parts.size(); ++p) {
      const Exprs& part = parts[p];
      const auto to = exprs.find(firstReaderOf(part));
      if (to != exprs.end() && to->first != maker &&
          std::all_of(part.begin(), part.end(), isComputedByElement)) {
        std::erase_if(exprs[maker], [&](const Expr* e) {
          return std::find(part.begin(), part.end(), e) != part.end();
        });
        to->second.insert(to->second.end(), part.begin(), part.end());
      }
    }
  }

  // Of the kernels that read results of these; the number of segments if there is none.
  size_t firstReaderOf(const Exprs& part) const {
    size_t first = segments_.size();
    for (const Expr* e : part) {
      const auto it = readers_.find(e->output(0));
      for (const size_t reader : it == readers_.end() ? std::vector<size_t>{} : it->second) {
        first = std::min(first, reader);
      }
    }
    return first;
  }

  std::vector<Segment>& segments_;
  WholeFusion& whole_;
  const SegmentJudge& judge_;
  std::unordered_set<const Val*> in_memory_; // that segments make
  std::unordered_map<const Val*, std::vector<size_t>> readers_;
  // Segments with expressions that are repeated for them alone, and are not cut again.
  std::unordered_set<size_t> computes_again_;
};

} // namespace

void recomputeForMemory(std::vector<Segment>& segments, WholeFusion& whole,
                        const SegmentJudge& judge) {
  const auto is_library = [](const Segment& segment) {
    return segment.scheduler == SchedulerType::ExprEval;
  };
  if (std::any_of(segments.begin(), segments.end(), is_library)) {
    Recomputer(segments, whole, judge).forMemory();
  }
}

void recomputeWhatIsCheap(std::vector<Segment>& segments, WholeFusion& whole,
                          const SegmentJudge& judge) {
  Recomputer(segments, whole, judge).run();
}

} // namespace nvfuser
