// SPDX-License-Identifier: BSD-3-Clause
// The cut. The whole fusion is tried first; what one kernel cannot compute is cut at the tensors
// where the scheduler sees a conflict, or else in the middle, what is too much for one into pieces
// of bounded size, and neighbours are joined again where that works. Pieces of a topological order
// never depend on each other in a cycle.
#include <segment/segment.h>

#include <base/error.h>
#include <base/options.h>
#include <ir/describe.h>
#include <ir/op_traits.h>
#include <ir/visitor.h>
#include <segment/independent.h>
#include <segment/kernel_size.h>
#include <segment/launch_order.h>
#include <segment/library_segment.h>
#include <segment/recomputed.h>
#include <segment/slices.h>
#include <segment/traffic.h>
#include <segment/transform_depth.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>

namespace nvfuser {
namespace {

using Exprs = std::vector<Expr*>;

class Segmenter {
 public:
  Segmenter(const Fusion* fusion, const SegmentJudge& judge,
            const std::unordered_set<const Expr*>& last)
      : fusion_(fusion),
        whole_(fusion, /*may_repeat=*/!updatesInPlace(fusion, last)),
        judge_(judge),
        last_(last) {}

  SegmentedFusion run() {
    for (int tries = 1;; ++tries) {
      cut();
      passOnWhatIsNoKernel();
      if (!must_start_again_) {
        return std::move(result_);
      }
      must_start_again_ = false;
      whole_.shares_loops = false;
      result_ = SegmentedFusion();
      if (tries == kMostTries) {
        whole_.repeated.clear();
      }
    }
  }

 private:
  void cut() {
    Exprs first;
    Exprs last;
    for (Expr* e : whole_.withoutRepeated(fusion_->exprs())) {
      (last_.count(e) != 0 ? last : first).push_back(e);
    }
    const auto slices = cutAt(whole_, first, isBoundary);
    for (const Exprs& slice : slices) {
      add(slice, slices.size() > 1 ? "cut at segment_set" : "");
    }
    if (slices.size() == 1 && last_.empty()) {
      rearrange();
    }
    for (Expr* e : last) {
      add({e}, "writes an input in place after all reads of it");
    }
  }

  // Where inputs are updated, segments are joined and nothing else: it matters when others are
  // read.
  void rearrange() {
    const bool updates = updatesInPlace(fusion_, last_);
    if (!updates) {
      regroup();
      moveOutputs();
    }
    whole_.shares_loops = true;
    joinIndependent(result_.segments, whole_, judge_);
    if (!updates) {
      recomputeWhatIsCheap(result_.segments, whole_, judge_);
      recomputeForMemory(result_.segments, whole_, judge_);
      readBeforeWriting(result_.segments);
    }
  }

  // Then it matters when inputs are read.
  static bool updatesInPlace(const Fusion* fusion, const std::unordered_set<const Expr*>& last) {
    const auto& aliases = fusion->outputAliases();
    return !last.empty() || std::any_of(aliases.begin(), aliases.end(),
                                        [](const OutputAlias& a) { return a.input != nullptr; });
  }

  // What a library evaluates is a segment of its own: between two of them that depend on each other
  // lies what needs the first or is needed by the second.
  void addAroundLibraryOps(const Exprs& exprs, const std::string& note) {
    const ViewsOfOps views = viewsOfLibraryOps(fusion_, exprs);
    for (const Exprs& slice : cutAt(whole_, exprs, takesNoKernel, &views)) {
      Exprs generated;
      std::unordered_map<const Expr*, Exprs> of_library;
      for (Expr* e : slice) {
        if (auto view = views.find(e); view != views.end()) {
          of_library[view->second].push_back(e);
        } else if (takesNoKernel(e)) {
          of_library[e].push_back(e);
        } else {
          generated.push_back(e);
        }
      }
      add(generated, "cut at what a library evaluates");
      for (Expr* e : slice) {
        if (takesNoKernel(e)) {
          add(of_library.at(e), note);
        }
      }
    }
  }

  // Adds segments for the expressions, which depend on nothing but what was added before.
  void add(const Exprs& exprs, const std::string& note) {
    if (exprs.empty()) {
      return;
    }
    if (std::any_of(exprs.begin(), exprs.end(), takesNoKernel) && !isWithoutKernel(exprs)) {
      return addAroundLibraryOps(exprs, note);
    }
    const Exprs all = whole_.withRepeated(exprs);
    if (const auto cuts = cutsOfDeepTransforms(all); !cuts.empty()) {
      logCut(exprs, kTooManyTransforms);
      stopRepeating(cuts);
      return addSlices(sliceAt(whole_.withoutRepeated(all), cuts), kTooManyTransforms);
    }
    Segment whole = extractSegment(whole_, exprs);
    SegmentVerdict verdict = judge_(whole.fusion.get());
    const bool fits = verdict.accepted();
    if (fits) {
      const std::string too_large = exprs.size() > 1 ? whyTooLarge(whole.exprs) : "";
      if (too_large.empty()) {
        whole.scheduler = verdict.scheduler;
        whole.note = verdict.reason.empty() ? note : verdict.reason;
        result_.segments.push_back(std::move(whole));
        return;
      }
      verdict.reason = too_large;
    }
    logCut(exprs, verdict.reason);
    if (librarySegmentOp(exprs) != nullptr && whole.exprs.size() > exprs.size()) {
      return addWithoutRepeating(whole.exprs, exprs, verdict.reason);
    }
    if (exprs.size() == 1 && whole.exprs.size() > 1) {
      whole.must_be_joined = true;
      whole.note = verdict.reason;
      result_.segments.push_back(std::move(whole));
      return;
    }
    NVF_CHECK(exprs.size() > 1,
              "Can not find a scheduler to schedule fusion segment: ", describe(exprs.front()),
              ". ", verdict.reason);
    if (fits) {
      return addSlices(pieces(whole.exprs), verdict.reason);
    }
    for (const bool by_inputs : {true, false}) {
      const std::vector<Exprs> parts = components(whole_, exprs, by_inputs);
      if (parts.size() == 1) {
        continue;
      }
      const size_t before = result_.segments.size();
      for (const Exprs& part : parts) {
        add(part, "independent of the other segments");
      }
      return by_inputs ? void() : join(before);
    }
    addSlices(sliceAtConflicts(whole, exprs, verdict), verdict.reason);
  }

  // Segments that have repeated one of these before read what nobody hands out any more.
  template <class List>
  void stopRepeating(const List& exprs) {
    for (const Expr* e : exprs) {
      must_start_again_ =
          (whole_.repeated.erase(e) != 0 &&
           std::any_of(result_.segments.begin(), result_.segments.end(),
                       [e](const Segment& segment) {
                         return std::find(segment.exprs.begin(), segment.exprs.end(), e) !=
                                segment.exprs.end();
                       })) ||
          must_start_again_;
    }
  }

  // One operation is no kernel with what is repeated for it, but may be one with more: a sum of
  // columns beside the rows that it is of. Where it was joined with nothing, what is repeated for
  // it is passed on.
  void passOnWhatIsNoKernel() {
    for (const Segment& segment : result_.segments) {
      if (segment.must_be_joined) {
        stopRepeating(segment.exprs);
        must_start_again_ = true;
      }
    }
  }

  // A library's operation cannot be in a segment with what would be repeated for it.
  void addWithoutRepeating(const Exprs& all, const Exprs& exprs, const std::string& why) {
    const std::unordered_set<const Expr*> own(exprs.begin(), exprs.end());
    Exprs passed_on;
    std::copy_if(all.begin(), all.end(), std::back_inserter(passed_on),
                 [&](const Expr* e) { return own.count(e) == 0; });
    stopRepeating(passed_on);
    addSlices({passed_on, exprs}, why);
  }

  // Of bounded size, with what is repeated for them.
  std::vector<Exprs> pieces(const Exprs& exprs) {
    std::vector<Exprs> out;
    for (const Exprs& piece : piecesOfBoundedSize(exprs)) {
      if (Exprs own = whole_.withoutRepeated(piece); !own.empty()) {
        out.push_back(std::move(own));
      }
    }
    if (out.size() > 1) {
      return out;
    }
    stopRepeating(exprs);
    return piecesOfBoundedSize(exprs);
  }

  static void logCut(const Exprs& exprs, const std::string& why) {
    if (isDumpEnabled(DumpOption::SegmenterLogging)) {
      std::cout << "[segmenter] " << exprs.size() << " expressions are not one segment: " << why
                << "\n";
    }
  }

  // Each depends only on those before it.
  void addSlices(const std::vector<Exprs>& slices, const std::string& why) {
    const size_t before = result_.segments.size();
    for (const Exprs& slice : slices) {
      add(slice, why);
    }
    join(before);
  }

  std::vector<Exprs> sliceAtConflicts(const Segment& whole, const Exprs& exprs,
                                      const SegmentVerdict& verdict) {
    // The copy's expressions are in the same order as the originals.
    std::unordered_set<const Expr*> boundaries;
    std::unordered_set<const Expr*> late;
    const Exprs& copies = whole.fusion->exprs();
    if (copies.size() == whole.exprs.size()) {
      std::unordered_map<const Expr*, const Expr*> original;
      for (size_t i = 0; i < copies.size(); ++i) {
        original[copies[i]] = whole.exprs[i];
      }
      for (TensorView* tv : verdict.conflicting.made) {
        if (auto it = original.find(tv->definition()); it != original.end()) {
          boundaries.insert(it->second);
        }
      }
      for (const Expr* e : verdict.conflicting.late) {
        late.insert(original.at(e));
      }
    }
    return sliceAt(exprs, boundaries, late);
  }

  // In the middle where nothing comes after these.
  std::vector<Exprs> sliceAt(const Exprs& exprs, const std::unordered_set<const Expr*>& boundaries,
                             const std::unordered_set<const Expr*>& late = {}) {
    std::vector<Exprs> slices;
    if (!boundaries.empty() || !late.empty()) {
      slices = cutAt(
          whole_, exprs, [&](const Expr* e) { return boundaries.count(e) != 0; }, nullptr,
          [&](const Expr* e) { return late.count(e) != 0; });
    }
    if (slices.size() < 2) {
      const auto middle = exprs.begin() + static_cast<std::ptrdiff_t>(exprs.size() / 2);
      slices = {Exprs(exprs.begin(), middle), Exprs(middle, exprs.end())};
    }
    return slices;
  }

  // Joins segments from `begin` on while one kernel can compute both: each with those before it
  // that it shares most with.
  void join(size_t begin) {
    std::vector<Segment> segments(
        std::make_move_iterator(result_.segments.begin() + static_cast<std::ptrdiff_t>(begin)),
        std::make_move_iterator(result_.segments.end()));
    result_.segments.resize(begin);
    for (size_t i = 1; i < segments.size();) {
      // What two became may be joined again.
      size_t next = i + 1;
      for (size_t j : relatedBefore(segments, i, kMostTries)) {
        if (const auto place = joinTwo(segments, j, i)) {
          next = *place;
          break;
        }
      }
      i = next;
    }
    std::move(segments.begin(), segments.end(), std::back_inserter(result_.segments));
  }

  // Where the result is, if they are joined; with what lies between them, which may fit neither.
  std::optional<size_t> joinTwo(std::vector<Segment>& segments, size_t first, size_t second) {
    const auto stay_apart = [&](const std::string& why) {
      if (isDumpEnabled(DumpOption::SegmenterLogging)) {
        std::cout << "[segmenter] segments of " << segments[first].exprs.size() << " and "
                  << segments[second].exprs.size() << " expressions stay apart: " << why << "\n";
      }
      return std::nullopt;
    };
    const std::vector<size_t> enclosed = enclosedBy(segments, first, second);
    if (enclosed.size() > kMostEnclosed) {
      return stay_apart("others need the first and are needed by the second");
    }
    Exprs all = segments[first].exprs;
    for (const size_t i : enclosed) {
      all.insert(all.end(), segments[i].exprs.begin(), segments[i].exprs.end());
    }
    all.insert(all.end(), segments[second].exprs.begin(), segments[second].exprs.end());
    if (const std::string why = whyTooLarge(whole_.withRepeated(all)); !why.empty()) {
      return stay_apart(why);
    }
    Segment candidate = extractSegment(whole_, all);
    const SegmentVerdict verdict = judge_(candidate.fusion.get());
    if (!verdict.accepted()) {
      return stay_apart(verdict.reason);
    }
    candidate.scheduler = verdict.scheduler;
    candidate.note = segments[first].note;
    for (size_t i = enclosed.size(); i-- > 0; --second) {
      segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(enclosed[i]));
    }
    const std::vector<bool> after = needResultsOf(segments, first, second);
    return placeJoined(segments, std::move(candidate), first, second, after);
  }

  // At most so many are tried, so that planning stays linear.
  static constexpr size_t kMostTries = 4;
  static constexpr size_t kMostEnclosed = 2;   // that are joined with the two around them
  static constexpr size_t kMostToRegroup = 32; // segments, and expressions of two

  // Two segments that are not one may be two others that move less: one reduction with what it
  // needs, and all the rest. Statistics of columns apart from the columns lets these join rows. So
  // does a result of the first that has fewer dimensions than others of it: a gate of each channel
  // apart from what it scales.
  void regroup() {
    std::vector<Segment>& segments = result_.segments;
    bool changed = false;
    if (segments.size() > kMostToRegroup) {
      return;
    }
    for (size_t i = 1; i < segments.size(); ++i) {
      for (size_t j : relatedBefore(segments, i, kMostTries)) {
        if (regroupTwo(segments, j, i)) {
          changed = true;
          break;
        }
      }
    }
    if (changed) {
      join(0);
    }
  }

  bool regroupTwo(std::vector<Segment>& segments, size_t first, size_t second) {
    if (segments[first].exprs.size() + segments[second].exprs.size() > kMostToRegroup) {
      return false;
    }
    Exprs both = segments[first].exprs;
    both.insert(both.end(), segments[second].exprs.begin(), segments[second].exprs.end());
    both = whole_.withoutRepeated(both);
    std::sort(both.begin(), both.end(), [&](const Expr* a, const Expr* b) {
      return whole_.order.at(a) < whole_.order.at(b);
    });
    if (!enclosedBy(segments, first, second).empty() ||
        std::any_of(both.begin(), both.end(), takesNoKernel)) {
      return false;
    }
    double least = kNotably * (traffic(segments[first]) + traffic(segments[second]));
    std::optional<std::pair<Segment, Segment>> best;
    const std::vector<const Val*> narrow = narrowOutputs(segments[first]);
    for (const Expr* e : both) {
      if (!isReduction(e) && std::ranges::find(narrow, e->output(0)) == narrow.end()) {
        continue;
      }
      const auto [needed, rest] = separated(both, e);
      if (rest.empty()) {
        continue;
      }
      std::pair<Segment, Segment> two{extractSegment(whole_, needed), extractSegment(whole_, rest)};
      const double moved = traffic(two.first) + traffic(two.second);
      if (moved < least && isAccepted(two.first) && isAccepted(two.second)) {
        least = moved;
        best = std::move(two);
      }
    }
    if (!best.has_value()) {
      return false;
    }
    best->first.note = best->second.note = "in other kernels more would be read and written";
    const std::vector<bool> after = needResultsOf(segments, first, second);
    const size_t place = placeJoined(segments, std::move(best->second), first, second, after);
    segments.insert(segments.begin() + static_cast<std::ptrdiff_t>(place), std::move(best->first));
    return true;
  }

  // What is computed of an earlier segment's results alone, and has fewer dimensions than what its
  // own segment makes of them too, is for the earlier one: whose statistics these are. The loops
  // over the larger tensors would have to end for such an output.
  //
  // What is as large goes there if that moves less: one kernel that takes the rows of two tensors
  // leaves what is computed of both statistics in the next one, which would then read these and
  // write them.
  void moveOutputs() {
    for (size_t i = 1; i < result_.segments.size(); ++i) {
      moveOutputsOf(i, narrowOutputs(result_.segments[i]), /*must_move_less=*/false);
      const std::vector<Val*>& all = result_.segments[i].outputs;
      moveOutputsOf(i, {all.begin(), all.end()}, /*must_move_less=*/true);
    }
  }

  void moveOutputsOf(size_t i, const std::vector<const Val*>& outputs, bool must_move_less) {
    std::vector<Segment>& segments = result_.segments;
    const Exprs exprs = whole_.withoutRepeated(segments[i].exprs);
    std::map<size_t, std::unordered_set<const Expr*>> moved; // by the segment that they go to
    for (const Val* out : outputs) {
      const Exprs needed = separated(exprs, out->definition()).first;
      if (const auto maker = lastMakerOf(needed, i); maker.has_value() && arePointwise(needed)) {
        moved[*maker].insert(needed.begin(), needed.end());
      }
    }
    for (const auto& [maker, leaving] : moved) {
      Exprs first = whole_.withoutRepeated(segments[maker].exprs);
      Exprs second;
      for (Expr* e : whole_.withoutRepeated(segments[i].exprs)) {
        (leaving.contains(e) ? first : second).push_back(e);
      }
      if (second.empty()) {
        continue;
      }
      Segment with = extractSegment(whole_, first);
      Segment without = extractSegment(whole_, second);
      const bool moves_less =
          traffic(with) + traffic(without) < traffic(segments[maker]) + traffic(segments[i]);
      if ((moves_less || !must_move_less) && isAccepted(with) && isAccepted(without)) {
        with.note = segments[maker].note;
        without.note = segments[i].note;
        segments[maker] = std::move(with);
        segments[i] = std::move(without);
      }
    }
  }

  static std::ptrdiff_t numConcreteDims(const Val* tensor) {
    const auto& ids = tensor->as<TensorView>()->getLogicalDomain();
    return std::count_if(ids.begin(), ids.end(), [](const IterDomain* id) {
      return !id->isBroadcast() && !id->isReduction();
    });
  }

  static std::vector<const Val*> narrowOutputs(const Segment& segment) {
    std::ptrdiff_t most = 0;
    for (const Val* out : segment.outputs) {
      most = std::max(most, numConcreteDims(out));
    }
    std::vector<const Val*> narrow;
    std::copy_if(segment.outputs.begin(), segment.outputs.end(), std::back_inserter(narrow),
                 [&](const Val* out) { return numConcreteDims(out) < most; });
    return narrow;
  }

  // The last of the segments before `i` that makes something that these read.
  std::optional<size_t> lastMakerOf(const Exprs& exprs, size_t i) const {
    for (size_t j = i; j-- > 0;) {
      const std::vector<Val*>& made = result_.segments[j].outputs;
      for (const Expr* e : exprs) {
        for (const TensorView* in : whole_.inputsOf(e)) {
          if (std::find(made.begin(), made.end(), in) != made.end()) {
            return j;
          }
        }
      }
    }
    return std::nullopt;
  }

  static bool arePointwise(const Exprs& exprs) {
    return std::all_of(exprs.begin(), exprs.end(), [](const Expr* e) {
      return e->kind() == ExprKind::ElementwiseOp || e->kind() == ExprKind::BroadcastOp ||
             e->kind() == ExprKind::SqueezeOp;
    });
  }

  // What an expression needs of these, itself included, and what is left.
  std::pair<Exprs, Exprs> separated(const Exprs& exprs, const Expr* last) const {
    std::unordered_set<const Expr*> needed{last};
    std::pair<Exprs, Exprs> out;
    for (size_t i = exprs.size(); i-- > 0;) {
      Expr* e = exprs[i];
      if (needed.count(e) == 0) {
        out.second.push_back(e);
        continue;
      }
      out.first.push_back(e);
      for (const TensorView* in : whole_.inputsOf(e)) {
        needed.insert(in->definition());
      }
    }
    std::reverse(out.first.begin(), out.first.end());
    std::reverse(out.second.begin(), out.second.end());
    return out;
  }

  bool isAccepted(Segment& segment) const {
    const SegmentVerdict verdict = judge_(segment.fusion.get());
    segment.scheduler = verdict.scheduler;
    return verdict.accepted() && verdict.scheduler != SchedulerType::ExprEval &&
           whyTooLarge(segment.exprs).empty();
  }

  const Fusion* fusion_;
  WholeFusion whole_;
  const SegmentJudge& judge_;
  const std::unordered_set<const Expr*>& last_;
  SegmentedFusion result_;
  bool must_start_again_ = false;
};

} // namespace

SegmentedFusion segmentFusion(const Fusion* fusion, const SegmentJudge& judge,
                              const std::unordered_set<const Expr*>& last) {
  SegmentedFusion segmented = Segmenter(fusion, judge, last).run();
  if (isDumpEnabled(DumpOption::SegmentedFusion)) {
    std::cout << segmented.toString();
  }
  if (isDumpEnabled(DumpOption::DrawSegmentedFusion)) {
    static std::atomic<int> count{0};
    const std::string path = "segmented_fusion_" + std::to_string(count++) + ".dot";
    std::ofstream(path) << segmented.toDot();
    std::cout << "PRINTING: " << path << std::endl;
  }
  return segmented;
}

} // namespace nvfuser
