// SPDX-License-Identifier: BSD-3-Clause
// Cutting a fusion into segments that one kernel each can compute.
//
// A segment is a Fusion of its own: a copy of some of the expressions, with the tensors that other
// segments make as inputs. Segments come in an order in which they can be launched.
#pragma once

#include <fusion.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser {

struct Segment {
  std::unique_ptr<Fusion> fusion;
  // Where the segment's inputs come from, parallel to fusion->inputs(): tensors and symbolic
  // scalars (inputs or extents) of the whole fusion.
  std::vector<Val*> inputs;
  // Which tensors of the whole fusion the segment's outputs are, parallel to fusion->outputs().
  std::vector<Val*> outputs;
  // Its expressions in the whole fusion. Some may be in other segments, too.
  std::vector<Expr*> exprs;
  SchedulerType scheduler = SchedulerType::None;
  // Why it is a segment of its own; empty if the fusion is one segment.
  std::string note;
  // While the fusion is cut: no kernel computes it by itself.
  bool must_be_joined = false;
};

struct SegmentedFusion {
  std::vector<Segment> segments;
  std::string toString() const;
  // The segments as boxes with their expressions, and the tensors between them (Graphviz).
  std::string toDot() const;
};

// Where a cut makes the parts schedulable: after computed tensors, whose readers are in a later
// part; or before expressions, where others that read the same tensor stay with what makes it.
struct ConflictingTensors {
  std::vector<TensorView*> made; // in topological order
  std::vector<Expr*> late;
};

// Whether one kernel can compute a (copied) segment, by which scheduler, and if not, why and which
// tensors are better made in another kernel.
struct SegmentVerdict {
  SchedulerType scheduler = SchedulerType::None;
  std::string reason;             // why no kernel can; empty if one can
  ConflictingTensors conflicting; // of the copy
  bool accepted() const {
    return scheduler != SchedulerType::None;
  }
};
using SegmentJudge = std::function<SegmentVerdict(Fusion*)>;

// Cuts the live expressions of a concretized fusion. `last` are expressions that must run after all
// others, in segments of their own. The fusion is not changed. Error: a single expression that the
// judge does not accept.
SegmentedFusion segmentFusion(const Fusion* fusion, const SegmentJudge& judge,
                              const std::unordered_set<const Expr*>& last = {});

// What is asked about the whole fusion for every segment, gathered once.
struct WholeFusion {
  // `may_repeat`: every segment computes for itself what is cheaper than to be passed on.
  explicit WholeFusion(const Fusion* fusion, bool may_repeat = false);

  // The tensors that an expression, or what is repeated for it, reads: made by what is not
  // repeated.
  std::vector<TensorView*> inputsOf(const Expr* e) const;
  // These expressions with all that is repeated for them, and nothing else that is; in the order of
  // the fusion, each once.
  std::vector<Expr*> withRepeated(const std::vector<Expr*>& exprs) const;
  std::vector<Expr*> withoutRepeated(const std::vector<Expr*>& exprs) const;
  // Whether anything else than `inside`, or what is repeated for it, reads the tensor.
  bool isReadOutside(const Val* tensor, const std::unordered_set<const Expr*>& inside) const;

  const Fusion* fusion;
  std::unordered_map<const Expr*, size_t> order;
  // Expressions that are in each segment that needs their results (segment/repeated.h).
  std::unordered_set<const Expr*> repeated;
  // What nothing connects may be one segment (Fusion::sharesLoops): when all else is decided.
  bool shares_loops = false;
  std::vector<Val*> symbolic_scalars;
  // Sizes that take so many operations that a segment gets them as numbers: of a chain of slices
  // each size contains the one before several times. By size the one that stands for all that are
  // equal.
  std::unordered_map<const Val*, Val*> large_scalars;
  std::unordered_set<const Expr*> live;
  std::unordered_set<const Val*> outputs;
};

// Copies the given expressions, and what is repeated for them, into a fusion of their own.
Segment extractSegment(const WholeFusion& whole, const std::vector<Expr*>& exprs);

} // namespace nvfuser
