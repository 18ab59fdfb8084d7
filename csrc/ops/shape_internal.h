// SPDX-License-Identifier: BSD-3-Clause
// The parts of the shape builders that concretization shares: ops whose result types are decided
// elsewhere.
#pragma once

#include <ops/utils.h>

#include <optional>
#include <vector>

namespace nvfuser::ops_utils {

// Iteration type of each dimension of a result; nullopt where it follows from the size.
using DecidedTypes = std::vector<std::optional<IterType>>;

// `starts` and `stops` are normalized. The sizes of the result are computed where they are not
// given (null).
TensorView* sliceTo(TensorView* in, const std::vector<Val*>& starts, const std::vector<Val*>& stops,
                    const DecidedTypes& decided = {}, const std::vector<Val*>& known_sizes = {});

// True only if 0 <= start <= stop <= extent can be seen from how slice() normalizes positions.
bool isNormalizedRange(const Val* start, const Val* stop, const Val* extent);
// The constant that was given for a position of a slice, before it was limited to what is sliced.
std::optional<int64_t> requestedPosition(const Val* position);

// Widths per dimension, outermost first; `value` has the tensor's dtype. Sizes as above.
TensorView* padBy(TensorView* in, const std::vector<Val*>& left, const std::vector<Val*>& right,
                  Val* value, const DecidedTypes& decided = {},
                  const std::vector<Val*>& known_sizes = {});

// Joins tensors that were padded to the size of the result.
TensorView* catPadded(const std::vector<TensorView*>& tensors, int64_t dim,
                      const std::vector<Val*>& ends);

// What a cat joins side by side; empty if any of it does not fill its place, which pads that were
// made by hand need not.
std::vector<TensorView*> joinedBy(const CatOp* cat);

// Ranks agree. If nothing is expanded: a copy, or with copy_if_same = false the tensor itself.
TensorView* expandTo(TensorView* in, const std::vector<Val*>& shape, bool copy_if_same = true);
TensorView* permuteTo(TensorView* in, const std::vector<int64_t>& dims);
TensorView* squeezeDims(TensorView* in, const std::vector<bool>& is_squeeze_dim,
                        bool squeeze_expanded);

// The reshape as a view, if it can't depend on the shapes of a call: all sizes are constants and
// none is 1 or 0. Otherwise null. (rebuild.cpp)
TensorView* constantReshape(TensorView* in, const std::vector<Val*>& sizes);

} // namespace nvfuser::ops_utils
