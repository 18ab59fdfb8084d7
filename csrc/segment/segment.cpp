// The cut. The whole fusion is tried first; what one kernel cannot compute is cut at the tensors
// where the scheduler sees a conflict, or else in the middle, what is too much for one into pieces
// of bounded size, and neighbours are joined again where that works. Pieces of a topological order
// never depend on each other in a cycle.
#include <segment/segment.h>

#include <base/disjoint_set.h>
#include <base/error.h>
#include <base/options.h>
#include <base/string_utils.h>
#include <ir/describe.h>
#include <ir/visitor.h>
#include <preseg_passes/input_bits.h>
#include <segment/independent_reductions.h>
#include <segment/kernel_size.h>
#include <segment/library_segment.h>
#include <segment/transform_depth.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <sstream>

namespace nvfuser {
namespace {

using Exprs = std::vector<Expr*>;

class Segmenter {
 public:
  Segmenter(const Fusion* fusion, const SegmentJudge& judge,
            const std::unordered_set<const Expr*>& last)
      : fusion_(fusion), whole_(fusion), judge_(judge), last_(last) {
    const Exprs& live = fusion->exprs();
    for (size_t i = 0; i < live.size(); ++i) {
      order_[live[i]] = i;
    }
  }

  SegmentedFusion run() {
    Exprs first;
    Exprs last;
    for (Expr* e : fusion_->exprs()) {
      (last_.count(e) != 0 ? last : first).push_back(e);
    }
    const auto slices = cutAt(first, [](const Expr* e) {
      const auto* copy = dynamic_cast<const LoadStoreOp*>(e);
      return copy != nullptr && copy->type() == LoadStoreOpType::SegmenterSet;
    });
    for (const Exprs& slice : slices) {
      add(slice, slices.size() > 1 ? "cut at segment_set" : "");
    }
    if (slices.size() == 1 && !updatesInPlace()) {
      joinIndependentReductions(result_.segments, whole_, judge_);
    }
    for (Expr* e : last) {
      add({e}, "writes an input in place after all reads of it");
    }
    return std::move(result_);
  }

 private:
  // Then it matters when inputs are read.
  bool updatesInPlace() const {
    const auto& aliases = fusion_->outputAliases();
    return !last_.empty() || std::any_of(aliases.begin(), aliases.end(),
                                         [](const OutputAlias& a) { return a.input != nullptr; });
  }

  using ViewsOfOps = std::unordered_map<const Expr*, const Expr*>;

  // Levels: an expression comes after a boundary expression that it depends on. `views`, of library
  // ops, are in the slices of those; then what can be computed in a later slice for the same
  // traffic is, so that no kernel is made for it.
  template <class IsBoundary>
  std::vector<Exprs> cutAt(const Exprs& exprs, IsBoundary&& is_boundary,
                           const ViewsOfOps* views = nullptr) {
    std::unordered_map<const Expr*, size_t> level;
    std::vector<Exprs> slices;
    for (Expr* e : exprs) {
      size_t l = 0;
      for (TensorView* in : tensorInputs(e)) {
        auto it = level.find(in->definition());
        if (in->definition() != nullptr && it != level.end()) {
          l = std::max(l, it->second + (is_boundary(in->definition()) ? 1 : 0));
        }
      }
      level[e] = l;
    }
    sinkWidening(exprs, level, views);
    for (Expr* e : exprs) {
      const size_t l = level[e];
      if (slices.size() <= l) {
        slices.resize(l + 1);
      }
      slices[l].push_back(e);
    }
    std::erase_if(slices, [](const Exprs& slice) { return slice.empty(); });
    return slices;
  }

  // What makes a tensor larger, or of narrow inputs one that would be written and read again, goes
  // to the first slice that reads the result.
  static void sinkWidening(const Exprs& exprs, std::unordered_map<const Expr*, size_t>& level,
                           const ViewsOfOps* views) {
    const bool saves_kernels = views != nullptr;
    const InputBits bits(exprs);
    for (size_t i = exprs.size(); i-- > 0;) {
      const Expr* e = exprs[i];
      if (views != nullptr && views->count(e) != 0) {
        level[e] = level.at(views->at(e));
        continue;
      }
      const bool widens = isWideningCast(e) || e->kind() == ExprKind::BroadcastOp ||
                          e->kind() == ExprKind::ExpandOp || bits.areFewFor(e, saves_kernels);
      if (!widens || e->output(0)->isFusionOutput()) {
        continue;
      }
      size_t first = std::numeric_limits<size_t>::max();
      for (const Expr* use : e->output(0)->uses()) {
        if (auto it = level.find(use); it != level.end()) {
          first = std::min(first, it->second);
        }
      }
      if (first != std::numeric_limits<size_t>::max()) {
        level[e] = std::max(level[e], first);
      }
    }
  }

  // Parts that share no tensor made inside and no input.
  std::vector<Exprs> components(const Exprs& exprs) {
    DisjointSets<const Val*> sets;
    for (Expr* e : exprs) {
      const Val* out = tensorOutputs(e).front();
      sets.initializeSet(out);
      for (TensorView* tv : tensorOutputs(e)) {
        sets.mapEntries(out, tv);
      }
      for (TensorView* tv : tensorInputs(e)) {
        sets.mapEntries(out, tv);
      }
    }
    std::vector<Exprs> parts;
    std::unordered_map<const void*, size_t> part_of;
    for (Expr* e : exprs) {
      const void* set = sets.setOf(tensorOutputs(e).front()).get();
      auto [it, inserted] = part_of.emplace(set, parts.size());
      if (inserted) {
        parts.emplace_back();
      }
      parts[it->second].push_back(e);
    }
    return parts;
  }

  static bool isOfLibrary(const Expr* e) {
    return e->kind() == ExprKind::LibraryOp;
  }

  // What a library evaluates is a segment of its own: between two of them that depend on each other
  // lies what needs the first or is needed by the second.
  void addAroundLibraryOps(const Exprs& exprs, const std::string& note) {
    const ViewsOfOps views = viewsOfLibraryOps(fusion_, exprs);
    for (const Exprs& slice : cutAt(exprs, isOfLibrary, &views)) {
      Exprs generated;
      std::unordered_map<const Expr*, Exprs> of_library;
      for (Expr* e : slice) {
        if (auto view = views.find(e); view != views.end()) {
          of_library[view->second].push_back(e);
        } else if (isOfLibrary(e)) {
          of_library[e].push_back(e);
        } else {
          generated.push_back(e);
        }
      }
      add(generated, "cut at what a library evaluates");
      for (Expr* e : slice) {
        if (isOfLibrary(e)) {
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
    if (std::any_of(exprs.begin(), exprs.end(), isOfLibrary) &&
        librarySegmentOp(exprs) == nullptr) {
      return addAroundLibraryOps(exprs, note);
    }
    if (const auto cuts = cutsOfDeepTransforms(exprs); !cuts.empty()) {
      logCut(exprs, kTooManyTransforms);
      return addSlices(sliceAt(exprs, cuts), kTooManyTransforms);
    }
    Segment whole = extractSegment(whole_, exprs);
    SegmentVerdict verdict = judge_(whole.fusion.get());
    const bool fits = verdict.accepted();
    if (fits) {
      const std::string too_large = whyTooLarge(exprs);
      if (too_large.empty()) {
        whole.scheduler = verdict.scheduler;
        whole.note = verdict.reason.empty() ? note : verdict.reason;
        result_.segments.push_back(std::move(whole));
        return;
      }
      verdict.reason = too_large;
    }
    logCut(exprs, verdict.reason);
    NVF_CHECK(exprs.size() > 1,
              "Can not find a scheduler to schedule fusion segment: ", describe(exprs.front()),
              ". ", verdict.reason);
    const std::vector<Exprs> parts = fits ? std::vector<Exprs>() : components(exprs);
    if (parts.size() > 1) {
      for (const Exprs& part : parts) {
        add(part, "independent of the other segments");
      }
      return;
    }
    addSlices(fits ? piecesOfBoundedSize(exprs) : sliceAtConflicts(whole, exprs, verdict),
              verdict.reason);
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
    const Exprs& copies = whole.fusion->exprs();
    if (!verdict.conflicting.empty() && copies.size() == exprs.size()) {
      std::unordered_map<const Expr*, const Expr*> original;
      for (size_t i = 0; i < copies.size(); ++i) {
        original[copies[i]] = exprs[i];
      }
      for (TensorView* tv : verdict.conflicting) {
        if (auto it = original.find(tv->definition()); it != original.end()) {
          boundaries.insert(it->second);
        }
      }
    }
    return sliceAt(exprs, boundaries);
  }

  // In the middle where nothing comes after these.
  std::vector<Exprs> sliceAt(const Exprs& exprs,
                             const std::unordered_set<const Expr*>& boundaries) {
    std::vector<Exprs> slices;
    if (!boundaries.empty()) {
      slices = cutAt(exprs, [&](const Expr* e) { return boundaries.count(e) != 0; });
    }
    if (slices.size() < 2) {
      const auto middle = exprs.begin() + static_cast<std::ptrdiff_t>(exprs.size() / 2);
      slices = {Exprs(exprs.begin(), middle), Exprs(middle, exprs.end())};
    }
    return slices;
  }

  // Joins neighbours among the segments from `begin` on while one kernel can compute both.
  void join(size_t begin) {
    std::vector<Segment>& segments = result_.segments;
    std::vector<Segment> joined;
    for (size_t i = begin; i < segments.size(); ++i) {
      if (!joined.empty()) {
        Exprs both = joined.back().exprs;
        both.insert(both.end(), segments[i].exprs.begin(), segments[i].exprs.end());
        std::sort(both.begin(), both.end(),
                  [&](Expr* a, Expr* b) { return order_[a] < order_[b]; });
        // Two joined pieces that are not next to each other in the topological order might enclose
        // a third.
        if (related(joined.back(), segments[i]) && whyTooLarge(both).empty()) {
          Segment candidate = extractSegment(whole_, both);
          const SegmentVerdict verdict = judge_(candidate.fusion.get());
          if (verdict.accepted()) {
            candidate.scheduler = verdict.scheduler;
            candidate.note = joined.back().note;
            joined.back() = std::move(candidate);
            continue;
          }
        }
      }
      joined.push_back(std::move(segments[i]));
    }
    segments.resize(begin);
    for (Segment& s : joined) {
      segments.push_back(std::move(s));
    }
  }

  // Whether a tensor goes from one to the other, or both read one.
  static bool related(const Segment& a, const Segment& b) {
    for (const Val* in : b.inputs) {
      if (in->isTensor() && (std::find(a.outputs.begin(), a.outputs.end(), in) != a.outputs.end() ||
                             std::find(a.inputs.begin(), a.inputs.end(), in) != a.inputs.end())) {
        return true;
      }
    }
    return false;
  }

  const Fusion* fusion_;
  const WholeFusion whole_;
  const SegmentJudge& judge_;
  const std::unordered_set<const Expr*>& last_;
  std::unordered_map<const Expr*, size_t> order_;
  SegmentedFusion result_;
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

namespace {

// Backslashes and quotes are special in a label, and lines end at the left.
std::string labelText(const std::string& text) {
  std::string label = replaceAll(replaceAll(text, "\\", "\\\\"), "\"", "\\\"");
  return replaceAll(label, "\n", "\\l");
}

} // namespace

std::string SegmentedFusion::toDot() const {
  std::ostringstream out;
  out << "digraph segmented_fusion {\n  node [shape=box, fontname=monospace];\n";
  std::unordered_map<const Val*, size_t> maker;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& s = segments[i];
    out << "  g" << i << " [label=\"g" << i << " (" << schedulerName(s.scheduler) << ")\\l";
    for (const Expr* e : s.exprs) {
      out << labelText(e->toString());
    }
    out << "\"];\n";
    for (const Val* v : s.outputs) {
      maker.emplace(v, i);
    }
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    for (const Val* v : segments[i].inputs) {
      auto it = maker.find(v);
      if (it == maker.end()) {
        out << "  in_" << labelText(v->toInlineString()) << " [shape=ellipse];\n";
      }
      out << "  "
          << (it == maker.end() ? "in_" + v->toInlineString() : "g" + std::to_string(it->second))
          << " -> g" << i << " [label=\"" << labelText(v->toInlineString()) << "\"];\n";
    }
  }
  out << "}\n";
  return out.str();
}

std::string SegmentedFusion::toString() const {
  std::ostringstream out;
  out << "Segmented_Fusion{\n";
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& s = segments[i];
    out << "  g{" << i << "} (" << schedulerName(s.scheduler) << ")";
    if (!s.note.empty()) {
      out << " // " << s.note;
    }
    out << "\n    inputs:";
    for (const Val* v : s.inputs) {
      out << " " << v->toInlineString();
    }
    out << "\n    outputs:";
    for (const Val* v : s.outputs) {
      out << " " << v->toInlineString();
    }
    out << "\n";
    for (const Expr* e : s.exprs) {
      out << "    " << e->toString();
    }
  }
  out << "} // Segmented_Fusion\n";
  return out.str();
}

} // namespace nvfuser
