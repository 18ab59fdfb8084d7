// SPDX-License-Identifier: BSD-3-Clause
// Which axis an axis comes from, before there are loops: the axes of one tensor, whose loops all
// others will have, in terms of another one's dimensions, along one way through the definition. (A
// tensor that is read along two axes has terms of its own for each; in the graph of all iterations
// the two would be one.)
//
// Terms are shared: equal terms have equal numbers.
#pragma once

#include <id_model/layout.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser {

class AxisTerms {
 public:
  enum class Kind : uint8_t { Missing, Dimension, Merge, SplitOuter, SplitInner, Resize };
  using Id = DomainNumber;
  static constexpr Id kMissing = 0;

  struct Node {
    Kind kind = Kind::Missing;
    Id a = kMissing;   // operand; of Dimension: its position
    Id b = kMissing;   // second operand of Merge; of the others: 0
    Val* v0 = nullptr; // split factor, left of a resize
    Val* v1 = nullptr; // right of a resize
    bool inner_split = false;
    bool operator==(const Node&) const = default;
  };

  AxisTerms();
  const Node& operator[](Id id) const {
    return nodes_[static_cast<size_t>(id)];
  }
  Id dimension(int64_t position);
  // -1 if no term contains it.
  Id knownDimension(int64_t position) const;
  // An operand that is missing stays one: the other one is repeated, by whole runs of it if the
  // outer operand is missing, element by element if the inner one is.
  Id merge(Id outer, Id inner);
  Id splitPart(Id in, Val* factor, bool inner_split, bool inner_part);
  // Kept where nothing is resized as well: copies of one tensor that lie behind different slices
  // are different iterations, and so is what they make of a broadcast of their producer.
  Id resize(Id in, Val* left, Val* right);

  // Merges are met once in each of the following: a reshape contains the dimensions before it
  // several times, so that a term after many of them is huge when it is written out.

  // The terms with dimension i replaced by replacements[i].
  std::vector<Id> substitute(const std::vector<Id>& ids, const std::vector<Id>& replacements);
  // The terms over new dimensions, where new dimension i stands for the term dimensions[i]; nullopt
  // where something of the old dimensions remains.
  std::vector<std::optional<Id>> abstract(const std::vector<Id>& ids,
                                          const std::unordered_map<Id, int64_t>& dimensions);
  // Positions of the dimensions that the term contains, in order from outer to inner by where they
  // come last; some may be repeated.
  void dimensionsOf(Id id, std::vector<int64_t>& out) const;
  bool contains(Id id, Kind kind) const;
  // Some of the dimensions are sliced or padded.
  bool cutsDimensions(Id id) const;
  // Positions of the dimensions every element of which loops over all the terms reach: both parts
  // of a split are needed.
  std::unordered_set<int64_t> wholeDimensions(const std::vector<Id>& ids) const;

  // How a term is made, for the layout query; see AxisTermSteps.
  std::vector<DomainStep> stepsTo(Id id, bool stands_alone) const;

 private:
  using Substitutes = std::unordered_map<Id, Id>;
  using Abstractions = std::unordered_map<Id, std::optional<Id>>;
  Id intern(Node node);
  // Each term once, and the operands of those that `enters` says yes to.
  template <class Enters>
  void visit(std::vector<Id> stack, Enters enters) const;
  Val* canonical(Val* v);
  // A term like `node`, with other operands.
  Id rebuilt(const Node& node, Id a, Id b);
  Id substituted(Id id, const std::vector<Id>& replacements, Substitutes& known);
  std::optional<Id> abstracted(Id id, const std::unordered_map<Id, int64_t>& dimensions,
                               Abstractions& known);

  struct NodeHash {
    size_t operator()(const Node& n) const;
  };
  std::vector<Node> nodes_;
  std::unordered_map<Node, Id, NodeHash> ids_;
  std::vector<Val*> values_;
  std::unordered_map<const Val*, Val*> canonical_; // of the values seen
};

// The axes as the layout query sees them. `stands_alone`: the tensor is in loops of its own, where
// what it lacks of a merge is not split along with the rest: the parts are not those of the merge.
class AxisTermSteps final : public DomainSteps {
 public:
  AxisTermSteps(const AxisTerms& terms, bool stands_alone)
      : terms_(terms), stands_alone_(stands_alone) {}

  std::vector<DomainStep> stepsTo(DomainNumber term) const override {
    return terms_.stepsTo(term, stands_alone_);
  }
  bool isOne(DomainNumber /*term*/) const override {
    return false;
  }

 private:
  const AxisTerms& terms_;
  bool stands_alone_;
};

} // namespace nvfuser
