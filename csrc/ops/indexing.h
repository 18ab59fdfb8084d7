// SPDX-License-Identifier: BSD-3-Clause
// Builders of the ops that read or write at positions held by another tensor.
//
// Positions are integers in [0, extent); take_along_axis also accepts floats, which are truncated.
// Nothing is read or written at a
// position outside of that: an element looked up there is zero, a scattered one is dropped. (torch
// raises an error there, which a kernel on a GPU can't.) The dtype of the result is that of the
// tensor that is looked up. Dims count from the end if negative.
#pragma once

#include <ir/nodes.h>

#include <cstdint>

namespace nvfuser {

// out[..., k, ...] = in[..., index[k], ...]; the index is of rank 1, or 0: then the dimension has
// size 1.
TensorView* index_select(TensorView* in, TensorView* index, int64_t dim);

// in[..., index, ...] without the dimension. The index is a scalar or a tensor of rank 0; negative,
// it counts from the end.
TensorView* select(TensorView* in, Val* index, int64_t dim);

// out[i, j, ...] = in[index[i, j, ...], j, ...] for dim 0: the shape of the index. Ranks are equal;
// sizes of the index other than that of `dim` are at most those of `in`.
TensorView* gather(TensorView* in, TensorView* index, int64_t dim);

// The same, but sizes other than that of `dim` are equal or one of them is 1, which broadcasts.
TensorView* take_along_axis(TensorView* in, TensorView* index, int64_t dim);

// A copy of `in` with out[index[i, j, ...], j, ...] = src[i, j, ...] for dim 0. `src` is a tensor
// or a scalar, converted to the dtype of `in`. Ranks are equal, the index is not larger than src
// nor, but for `dim`, than `in`. Of elements with one position the last in row-major order of the
// index wins.
TensorView* scatter(TensorView* in, TensorView* index, Val* src, int64_t dim);

// weight[index[...], :], the weight being of rank 2. With max_norm, rows whose norm (of order
// norm_type, default 2) exceeds it are scaled to it in the result; the weight itself stays.
// padding_idx, scale_grad_by_freq and sparse concern gradients only.
TensorView* embedding_fwd(TensorView* index, TensorView* weight, Val* padding_idx = nullptr,
                          Val* max_norm = nullptr, Val* norm_type = nullptr,
                          Val* scale_grad_by_freq = nullptr, Val* sparse = nullptr);

} // namespace nvfuser
