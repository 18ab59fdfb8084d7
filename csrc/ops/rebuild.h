// Concretization: what a definition leaves open until shapes are known is decided, and the
// definition is replayed with these decisions into a new fusion. Three things are open: whether a
// Symbolic dimension is a broadcast, how the dimensions of a reshape's input make up those of its
// output, and whether an input that is expanded has an element at all. The decisions say nothing of
// sizes beyond that, so that one concrete fusion serves many shapes; they are the key under which
// it is kept.
#pragma once

#include <fusion.h>
#include <ir/evaluator.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

namespace nvfuser {

// How a reshape regroups dimensions.
struct ReshapePattern {
  // Dimensions [in_begin, in_end) of those that take part, and [out_begin, out_end) of the outputs
  // that are not 1, have the same number of elements. Groups are as small as possible.
  struct Group {
    size_t in_begin, in_end, out_begin, out_end;
    bool operator==(const Group&) const = default;
  };
  // No elements: the result is filled instead.
  bool empty = false;
  // Input dimensions that are not broadcasts of size 1.
  std::vector<bool> in_takes_part;
  // Output dimensions that are of size 1, and so become broadcasts.
  std::vector<bool> out_is_one;
  std::vector<Group> groups;
  bool operator==(const ReshapePattern&) const = default;
};

struct Concretization {
  // Per reshape without a root domain, in the order of Fusion::exprs().
  std::vector<ReshapePattern> reshapes;
  // Per Symbolic domain of the fusion's tensors, in the order of Fusion::allTvs(): is it a
  // broadcast?
  std::vector<bool> symbolic_is_broadcast;
  // Per input: a dimension was expanded to size 0, so that there is no element to read, though no
  // loop runs over that dimension where it is a broadcast.
  std::vector<bool> input_is_expanded_to_nothing;
  // Where a reshape drops iteration domains that happen to be of size 1: per symbolic size of the
  // inputs, is it 1? These dimensions are broadcasts then, as what is dropped has no loop that
  // others could share. Empty elsewhere.
  std::vector<bool> input_size_is_one;
  bool operator==(const Concretization&) const = default;
  size_t hash() const;
  // There was nothing open but whether inputs have elements, and they have: the definition is as it
  // would be replayed.
  bool leavesAsIs() const {
    return reshapes.empty() && symbolic_is_broadcast.empty() &&
           std::find(input_is_expanded_to_nothing.begin(), input_is_expanded_to_nothing.end(),
                     true) == input_is_expanded_to_nothing.end();
  }
};

struct ConcretizationHash {
  size_t operator()(const Concretization& c) const {
    return c.hash();
  }
};

// True if the fusion has a Symbolic domain, a reshape that was not concretized, or an input with a
// dimension that may be expanded to size 0.
bool needsConcretization(const Fusion& fusion);

// A dimension of size 1 that was not declared so meets no other size. Whoever checks that keeps it.
enum class SizesOfOne { MayBeBroadcasts, AsDeclared };
// The decisions for the sizes that `sizes` knows (the extents of inputs and scalar inputs are
// bound). Error: a reshape's element counts differ.
Concretization concretizationInfo(const Fusion& fusion, ScalarEvaluator& sizes,
                                  SizesOfOne ones = SizesOfOne::MayBeBroadcasts);

// Replays `from` into the empty fusion `to`. `mapping` (may be null) receives, for every input,
// tensor and scalar of `from` that `to` has, its counterpart.
void concretize(const Fusion& from, const Concretization& decisions, Fusion* to,
                std::unordered_map<const Val*, Val*>* mapping = nullptr);

// Two extents that must be equal when the fusion runs: a dimension as the producer of an op has it
// and as its consumer assumes. Equal nodes and constants are left out; operands of one op appear
// paired through its result, or, of an op that a library evaluates, with each other. Or (AtMost)
// one operand's that may not exceed another's. Both are named producer and consumer all the same.
struct ExtentConstraint {
  enum class Relation { Equal, AtMost };
  const Expr* op;
  const TensorView* producer;
  const TensorView* consumer;
  int64_t dim; // of the producer
  Val* producer_extent;
  Val* consumer_extent;
  Relation relation = Relation::Equal;
  int64_t consumer_dim = -1; // where it is another one than the producer's
  const char* rule = "";     // AtMost: what is wrong where it does not hold
};
// Of a fusion without Symbolic domains.
std::vector<ExtentConstraint> extentConstraints(const Fusion& fusion);

} // namespace nvfuser
