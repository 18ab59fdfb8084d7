// SPDX-License-Identifier: BSD-3-Clause
// Builders of the ops that change a tensor's shape or memory layout. Sizes and positions are
// integer scalars, constant or computed; negative dims count from the end. All builders add to the
// active fusion, and mistakes that can be seen at definition are UserErrors.
//
// Results whose sizes are not constant have Symbolic domains: whether such a dimension is a
// broadcast is known only with the shapes (definition/rebuild.h).
#pragma once

#include <ir/nodes.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace nvfuser {

// Scalars for a shape of numbers. Error: an entry below -1.
std::vector<Val*> shapeVals(const std::vector<int64_t>& shape);

// Inserts dimensions of size 1 where is_broadcast_dim is true; the tensor itself if nowhere.
TensorView* broadcast(TensorView* in, const std::vector<bool>& is_broadcast_dim);
// Dimension i of `in` becomes dimension broadcast_dims[i] of the result, which is then expanded to
// `shape` (-1 keeps).
TensorView* broadcast_in_dim(TensorView* in, const std::vector<Val*>& shape,
                             const std::vector<int64_t>& broadcast_dims);
// Gives dimensions of size 1 the size in `shape`; -1 keeps. `shape` may have more leading
// dimensions.
TensorView* expand(TensorView* in, const std::vector<Val*>& shape);
TensorView* expand_as(TensorView* in, TensorView* other);
// Inserts one dimension of size 1.
TensorView* unsqueeze(TensorView* in, int64_t dim);
// Removes dimensions of size 1; expanded ones only with the flag.
TensorView* squeeze(TensorView* in, const std::vector<int64_t>& dims,
                    bool squeeze_expanded = false);
TensorView* squeeze(TensorView* in, const std::vector<bool>& is_squeeze_dim,
                    bool squeeze_expanded = false);

// Row-major reshape; one entry may be -1.
TensorView* reshape(TensorView* in, const std::vector<Val*>& new_shape);
TensorView* reshape(TensorView* in, const std::vector<int64_t>& new_shape);
// Lists in braces: a vector can be made of two pointers in more than one way.
inline TensorView* reshape(TensorView* in, std::initializer_list<Val*> new_shape) {
  return reshape(in, std::vector<Val*>(new_shape));
}
inline TensorView* reshape(TensorView* in, std::initializer_list<int64_t> new_shape) {
  return reshape(in, std::vector<int64_t>(new_shape));
}

// Dimension i of the result is dimension dims[i] of `in`.
TensorView* permute(TensorView* in, const std::vector<int64_t>& dims);
TensorView* transpose(TensorView* in, int64_t dim0, int64_t dim1);
// A copy whose dimension i has the stride of rank order[i], 0 the fastest.
TensorView* stride_order(TensorView* in, const std::vector<int64_t>& order);

// Elements [start, end) of every dimension. Unless `manual_normalization`, both are clamped to the
// size and negative values (of computed scalars; constants may not be negative) count from the end.
// Empty strides: all 1.
TensorView* slice(TensorView* in, const std::vector<Val*>& start_indices,
                  const std::vector<Val*>& end_indices, const std::vector<Val*>& strides = {},
                  bool manual_normalization = false);
TensorView* slice(TensorView* in, const std::vector<int64_t>& start_indices,
                  const std::vector<int64_t>& end_indices);
inline TensorView* slice(TensorView* in, std::initializer_list<Val*> start_indices,
                         std::initializer_list<Val*> end_indices) {
  return slice(in, std::vector<Val*>(start_indices), std::vector<Val*>(end_indices));
}
inline TensorView* slice(TensorView* in, std::initializer_list<int64_t> start_indices,
                         std::initializer_list<int64_t> end_indices) {
  return slice(in, std::vector<int64_t>(start_indices), std::vector<int64_t>(end_indices));
}

// `pad_widths`: left and right width of the last dimension, then of the one before it, ... Negative
// widths crop. `value` null: zero.
TensorView* pad(TensorView* in, const std::vector<Val*>& pad_widths, Val* value = nullptr);
TensorView* pad(TensorView* in, const std::vector<int64_t>& pad_widths, Val* value = nullptr);
// With manual_padding the inputs are results of pad() of the final size.
TensorView* cat(const std::vector<TensorView*>& tensors, int64_t dim = 0,
                bool manual_padding = false);

// Zero below the given diagonal of the last two dimensions.
TensorView* triu(TensorView* in, int64_t diagonal = 0);

// Size of a dimension (the expanded one), and of all.
Val* size(TensorView* in, int64_t dim);
std::vector<Val*> shape(TensorView* in);

} // namespace nvfuser
