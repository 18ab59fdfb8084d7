// SPDX-License-Identifier: BSD-3-Clause
// What a definition leaves open until shapes are known, and the decisions for given shapes. Five
// things are open: whether a Symbolic dimension is a broadcast, whether a slice takes all of one,
// whether a broadcast is expanded to a computed size of 1, how the dimensions of a reshape's input
// make up those of its output, and whether a tensor has an element at all. The decisions say
// nothing of sizes beyond that, but for what is decided of the inputs' (SizesSeen), so that one
// concrete fusion (definition/rebuild.h) serves many shapes; they are the key under which it is
// kept.
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

// What is decided of the size of an input's dimension.
struct InputSize {
  static constexpr int64_t kOpen = -1;
  // What it is, or kOpen. A size of 1 is a broadcast.
  int64_t size = kOpen;
  // Of one that is open: the first open dimension that is the same (SizesSeen), or itself.
  size_t same_as = 0;
  bool operator==(const InputSize&) const = default;
};

// The sizes that the dimensions of inputs have had, in the order of dimensionsOfOpenSize().
// Frontends write the shapes of one call into a definition but leave its inputs' open: which rows a
// gather reads, whether a reshape makes the dimensions again that another one merged, whether
// slices cover a dimension is known where these sizes are. So where a definition has such
// operations, a size is taken for a constant until a call has another one; then it is open, and
// those of one size are the same. In other definitions sizes are open from the start. If these are
// about tensors that no operation brings together (as steps of an optimizer are), the same are
// those of one size at one position of several tensors, counted from the innermost.
class SizesSeen {
 public:
  // `are_given`: sizes of the definition come of scalar inputs, so that they are to vary.
  explicit SizesSeen(const Fusion& fusion, bool are_given = false);
  // Whether anything may be decided; else what the operations compare says enough.
  bool matter() const {
    return has_positions_ || are_apart_;
  }
  // What is decided of those of a call. `ones`: sizes of 1 are.
  std::vector<InputSize> decide(const std::vector<int64_t>& sizes, bool ones);

 private:
  bool isAlways(size_t dim, int64_t size);

  static constexpr int64_t kVaries = -2;
  bool has_positions_ = false;     // operations that depend on sizes
  bool are_constants_ = false;     // until they vary
  bool are_apart_ = false;         // else: no operation brings all inputs together
  std::vector<size_t> from_inner_; // per dimension its position in the tensor
  std::vector<int64_t> sizes_;
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
  // Per dimension of dimensionsOfOpenSize(). Empty if nothing is decided of any.
  std::vector<InputSize> input_sizes;
  // Per expression, in the order of Fusion::exprs(). Where it is not Some no kernel computes or
  // reads it, so that none has a loop without iterations around elements. Empty if all make some,
  // or nobody asked (elementsOf).
  std::vector<Elements> elements;
  // Operations of a library are those of a GPU, which wants them otherwise than a host's
  // (preseg_passes/pad_products.cpp).
  bool has_gpu_library = false;
  bool operator==(const Concretization&) const = default;
  size_t hash() const;
  // There was nothing open but whether tensors have elements, and they have: the definition is as
  // it would be replayed.
  bool leavesAsIs() const {
    const auto none = [](const std::vector<bool>& flags) {
      return std::find(flags.begin(), flags.end(), true) == flags.end();
    };
    return reshapes.empty() && symbolic_is_broadcast.empty() && elements.empty() &&
           input_sizes.empty() && none(expands_to_one) && none(input_is_expanded_to_nothing);
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
// bound). `seen`: decides sizes of inputs that are not 1, too. Error: a reshape's element counts
// differ.
Concretization concretizationInfo(const Fusion& fusion, ScalarEvaluator& sizes,
                                  SizesOfOne ones = SizesOfOne::MayBeBroadcasts,
                                  SizesSeen* seen = nullptr);

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
