// SPDX-License-Identifier: BSD-3-Clause
// What a definition leaves open until shapes are known, and the decisions for given shapes. Five
// things are open: whether a Symbolic dimension is a broadcast, whether a slice takes all of one,
// whether a broadcast is expanded to a computed size of 1, how the dimensions of a reshape's input
// make up those of its output, and whether a tensor has an element at all. The decisions say
// nothing of sizes beyond that, so that one concrete fusion (definition/rebuild.h) serves many
// shapes; they are the key under which it is kept.
#pragma once

#include <fusion.h>
#include <ir/evaluator.h>
#include <ops/reshape_pattern.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace nvfuser {

// Of what an expression makes.
enum class Elements : uint8_t {
  Some,
  None,       // no element: zeros take its place, in dimensions that have loops
  MadeOfNone, // some, but nothing is accumulated: each is the value that accumulating starts from
};

struct Concretization {
  // Per reshape without a root domain, in the order of Fusion::exprs().
  std::vector<ReshapePattern> reshapes;
  // Per Symbolic domain of the fusion's tensors, in the order of Fusion::allTvs(): is it a
  // broadcast?
  std::vector<bool> symbolic_is_broadcast;
  // Per open dimension of a slice (openSliceDims()): does it take all of what it slices?
  std::vector<bool> slice_takes_all;
  // Per open dimension of an expansion (openExpandDims()): is its size 1, so that it broadcasts on?
  std::vector<bool> expands_to_one;
  // Per input: a dimension was expanded to size 0, so that there is no element to read, though no
  // loop runs over that dimension where it is a broadcast.
  std::vector<bool> input_is_expanded_to_nothing;
  // Where a reshape drops iteration domains that happen to be of size 1: per symbolic size of the
  // inputs, is it 1? These dimensions are broadcasts then, as what is dropped has no loop that
  // others could share. Empty elsewhere.
  std::vector<bool> input_size_is_one;
  // Per expression, in the order of Fusion::exprs(). Where it is not Some no kernel computes or
  // reads it, so that none has a loop without iterations around elements. Empty if all make some,
  // or nobody asked (elementsOf).
  std::vector<Elements> elements;
  bool operator==(const Concretization&) const = default;
  size_t hash() const;
  // There was nothing open but whether tensors have elements, and they have: the definition is as
  // it would be replayed.
  bool leavesAsIs() const {
    const auto none = [](const std::vector<bool>& flags) {
      return std::find(flags.begin(), flags.end(), true) == flags.end();
    };
    return reshapes.empty() && symbolic_is_broadcast.empty() && elements.empty() &&
           none(expands_to_one) && none(input_is_expanded_to_nothing);
  }
};

struct ConcretizationHash {
  size_t operator()(const Concretization& c) const {
    return c.hash();
  }
};

// True if the fusion has a Symbolic domain, a reshape that was not concretized, an expansion to a
// computed size, or an input with a dimension that may be expanded to size 0.
bool needsConcretization(const Fusion& fusion);

// A dimension of size 1 that was not declared so meets no other size. Whoever checks that keeps it.
enum class SizesOfOne { MayBeBroadcasts, AsDeclared };
// The decisions for the sizes that `sizes` knows (the extents of inputs and scalar inputs are
// bound). Error: a reshape's element counts differ.
Concretization concretizationInfo(const Fusion& fusion, ScalarEvaluator& sizes,
                                  SizesOfOne ones = SizesOfOne::MayBeBroadcasts);

// Whether some size of the fusion's tensors is computed and may be 0 though no input's is.
bool mayMakeNothing(const Fusion& fusion);

// Concretization::elements for the sizes that `sizes` knows.
std::vector<Elements> elementsOf(const Fusion& fusion, ScalarEvaluator& sizes);

// What the decisions are listed by.
bool isOpenReshape(const Expr* e);
std::vector<IterDomain*> symbolicDomains(const Fusion& fusion);
// Dimensions of slices whose size is not known before the fusion runs, in the order of
// Fusion::exprs(): x[:512] is all of x where x has 512 rows.
std::vector<std::pair<const SliceOp*, size_t>> openSliceDims(const Fusion& fusion);
// Broadcasts that an expansion gives a size that is known only when the fusion runs and is none of
// an input's dimensions (those meet no other size, even if they are 1), in the order of
// Fusion::exprs().
std::vector<std::pair<const ExpandOp*, size_t>> openExpandDims(const Fusion& fusion);
// Dimensions of inputs whose size is not known before the fusion runs.
std::vector<IterDomain*> dimensionsOfOpenSize(const Fusion& fusion);

} // namespace nvfuser
