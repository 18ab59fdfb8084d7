// SPDX-License-Identifier: BSD-3-Clause
// What a reshape does, once sizes are known: which dimensions are merged and split into which.
#pragma once

#include <fusion.h>
#include <ir/evaluator.h>

#include <unordered_set>
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

// The pattern for the sizes that `sizes` knows. `ones`: sizes that are decided to be 1, of
// dimensions that become broadcasts. Error: the element counts differ.
ReshapePattern reshapePattern(const TensorView* in, const std::vector<Val*>& new_shape,
                              ScalarEvaluator& sizes,
                              const std::unordered_set<const Val*>& ones = {});

namespace ops_utils {

// The result of a reshape with this pattern, by squeezes, a view and broadcasts.
TensorView* concreteReshape(TensorView* in, const ReshapePattern& pattern,
                            const std::vector<Val*>& sizes);

// The first element along some dimensions, which are broadcasts then.
TensorView* firstAlong(TensorView* in, const std::vector<bool>& dims);

} // namespace ops_utils

} // namespace nvfuser
