// SPDX-License-Identifier: BSD-3-Clause
// Builders of inclusive scans: out[i] = init op in[0] op ... op in[i] along `dim`.
//
// The result has the dtype of the input: integers wrap, sums of bools are "any". 16-bit and smaller
// floats are combined as Float and converted back. `init` is a scalar, null for the identity of the
// op. Along a broadcast dimension the result is init op in. Errors: a tensor of rank 0, an expanded
// dimension, complex minimum and maximum.
#pragma once

#include <ir/nodes.h>

#include <cstdint>

namespace nvfuser {

// `op` is one of Add, Mul, Minimum and Maximum.
TensorView* scan(TensorView* in, int64_t dim, OpType op, Val* init = nullptr);

TensorView* cumsum(TensorView* in, int64_t dim, Val* init = nullptr);
TensorView* cumprod(TensorView* in, int64_t dim, Val* init = nullptr);
TensorView* cummin(TensorView* in, int64_t dim, Val* init = nullptr);
TensorView* cummax(TensorView* in, int64_t dim, Val* init = nullptr);

} // namespace nvfuser
