// SPDX-License-Identifier: BSD-3-Clause
// Indexer: from the indices of known groups to the indices of others, through the transforms of the
// exact graph. A transform is used backwards once all its outputs are known, forwards once all its
// inputs are. A resize is used forwards only for what is reached in no other way: in the loops over
// z[i] + y[j], where z is a slice of y, j is known, but it says nothing of i.
//
// Which iterations only write an element again. Begin with the known groups as coordinates of an
// iteration, and take the steps by which the targets' indices are computed: each replaces its
// sources among the coordinates by its results. The coordinates at the end are the targets and a
// rest, and an element is written where all of the rest is 0.
//   * No iteration but one: each step is one to one on what the guards let pass, so the coordinates
//     at the end determine the iteration.
//   * And that one exists: call a set of iterations closed if with each of them it has those where
//     some coordinates are smaller. Then an element that is written at all is written where the
//     rest is 0. The loops run over a closed set: a box. A number taken apart into digits keeps it
//     closed, as smaller digits make a smaller number, and so do a last part cut off and padding.
//     Two digits made a number keep it closed if the inner one runs over its whole extent; a
//     swizzle, if both do. What is cut off in front leaves a set that is not closed: with the first
//     two of six elements gone, the element of the first row of [2, 3] is not written in column 0.
//     Nor has a coordinate a meaning of its own if two steps take it, or a target is a source.
//     So what is made after such a step (Coverage::Some) is not asked to be 0: a leaf may not share
//     an iteration with what targets are made of. Its element may be written again.
// Coordinates that no step takes stay whole: that a broadcast's loop was cut out of something else
// plays no part.
#pragma once

#include <id_model/id_model.h>

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace nvfuser {

// index < extent, 0 <= index or both, as asked, must hold for the access to be inside the tensor.
struct BoundsGuard {
  Val* index;
  Val* extent;
  bool check_lower = false;
  bool check_upper = true;
  // The bounds may lie within a vector (Align).
  bool within_vectors = false;
};

// Groups of one iteration.
struct SingleIterations {
  // Elements of tensors that were cut out of a dimension: their index is 0 in whatever loops.
  std::vector<IdGroup> zeros = {};
  // Those that are no tensor's: the loops of one with a part of the dimension repeat the cut.
  std::unordered_set<IdGroup> others = {};
  // What was not cut out. A loop that stands for several of them has the domain of but one.
  std::vector<IdGroup> ones = {};
};

class Indexer {
 public:
  // `graph` is the exact graph of `ids` or one of its own (a tensor's memory layout).
  // `divisible_parts`: groups whose splits are checked at launch to divide (vectors).
  // `own_resizes`: of several resizes between the same groups (a tensor is padded in two ways, and
  // one op reads both) take these.
  Indexer(const IdGraph& graph, const IdModel& ids, std::vector<std::pair<IdGroup, Val*>> known,
          const std::unordered_set<IdGroup>& divisible_parts, const SingleIterations& singles = {},
          std::vector<const Resize*> own_resizes = {});
  // For a tensor that has only one element, each of these cuts, of what its loops run over (x[:1]
  // in the loops of x[:1] * x), and for what is computed for one: what is cut, and of the tensor's
  // domains (`ids`, inputs of transforms before their outputs) what that is made of, is indexed
  // through the element, and all else as by `base`.
  Indexer(Indexer& base, const std::vector<const Resize*>& cuts,
          const std::vector<IterDomain*>& ids);
  // The groups that `through` indexes through elements, and all else as by `base`.
  Indexer(Indexer& base, const Indexer& through);

  // The index of a group, or null if it can't be derived.
  Val* index(IdGroup g);
  bool reaches(IdGroup g) const {
    return how_.count(g) != 0 || (base_ != nullptr && base_->reaches(g));
  }
  // Null: this is of loops alone.
  Indexer* base() const {
    return base_;
  }
  Indexer& ofLoops() {
    return base_ == nullptr ? *this : base_->ofLoops();
  }
  bool isThroughElement(IdGroup g) const {
    return base_ != nullptr && (how_.count(g) != 0 || base_->isThroughElement(g));
  }
  bool isThroughElement(const IterDomain* id) const {
    return isThroughElement(graph_.group(id));
  }
  // Whether nothing is indexed in another way than by the base.
  bool isAsBase() const;
  // Whether the merge's result is known, and as that of its operands.
  bool reachesMerge(const Merge& merge) const;
  // Whether no resize moves the index of a group on its way from the loops, though its tensor's
  // loops were made by this one: the index would be off by its width.
  bool passesOver(const Resize& resize) const;
  // Whether the loops lead to what one element was cut from in another way than by the element:
  // they run over the whole dimension, where other tensors have all of it.
  bool runsOver(const Resize& cut) const;
  // Guards of every padded split, and of every resize that may have added iterations, that was
  // crossed on the way to the groups; each once. No group index can be out of bounds if they hold.
  std::vector<BoundsGuard> guards(const std::vector<IdGroup>& targets);
  // Groups that have to be 0 for an element of the targets to be written once: see above.
  std::vector<IdGroup> repeated(const std::vector<IdGroup>& targets);

 private:
  struct Step {
    Expr* expr = nullptr; // null: given, or 0
    bool backward = false;
  };
  const Step* lastStepTo(IdGroup g) const;
  std::vector<Step> stepsTo(IdGroup g) const;
  std::vector<IdGroup> startAtZero(const std::vector<IdGroup>& groups);
  void explore(std::vector<IdGroup> frontier);
  // Returns the groups whose resizes were not entered.
  std::vector<IdGroup> explore(std::vector<IdGroup> frontier, bool enters_resizes);
  bool isAnothers(const Expr* expr) const;
  bool saysNothingOf(const Expr* def) const;
  void collectGuards(IdGroup g, bool in_bounds, std::vector<BoundsGuard>& out,
                     std::unordered_map<IdGroup, bool>& seen);
  std::vector<IdGroup> sources(const Step& step) const;
  std::vector<IdGroup> results(const Step& step) const;
  void collectSteps(IdGroup g, std::unordered_set<const Expr*>& seen, std::vector<Step>& out) const;
  // Which of a group's indices the loops pass through: all, whatever the other groups' are; with
  // each one, all smaller ones; or any (in order of what is lost).
  enum class Coverage { All, First, Some };
  Coverage coverageAfter(const Step& step, const std::vector<Coverage>& sources) const;
  std::vector<IdGroup> wholes(std::vector<IdGroup> groups) const;
  Val* extentOf(IdGroup g) const;
  bool divides(const Split* split) const;

  Indexer* base_ = nullptr; // for what has no step here
  const IdGraph& graph_;
  const IdModel& ids_;
  const std::unordered_set<IdGroup>& divisible_parts_;
  std::vector<std::pair<IdGroup, Val*>> known_;
  std::unordered_set<IdGroup> zeros_;
  std::unordered_set<IdGroup> other_elements_;
  std::vector<const Resize*> own_resizes_;
  std::unordered_map<IdGroup, Step> how_;
  std::unordered_map<IdGroup, Val*> index_;
};

} // namespace nvfuser
