// SPDX-License-Identifier: BSD-3-Clause
// The parts of the builders of reductions and scans that concretization shares.
#pragma once

#include <ops/reduction.h>
#include <ops/utils.h>

#include <vector>

namespace nvfuser::ops_utils {

// The neutral element of Add, Mul, Minimum and Maximum in a dtype.
ScalarValue identityValue(OpType op, DataType dtype);
Val* identityOf(OpType op, DataType dtype);

// Flags of the wrapped axes; all false for a tensor of rank 0.
std::vector<bool> axisFlags(const char* op_name, const TensorView* in,
                            const std::vector<int64_t>& axes);

// Combines along the flagged dimensions, whatever they turn out to be (broadcasts, expanded ones,
// empty ones), in the dtype of the input. The tensor itself if no dimension is flagged.
TensorView* reduceDims(OpType op, TensorView* in, const std::vector<bool>& is_reduced);
WelfordResult welfordDims(TensorView* in, const std::vector<bool>& is_reduced);

// The scan of scan.cpp, with `init` in the dtype of the input.
TensorView* scanDim(OpType op, Val* init, int64_t dim, TensorView* in);

} // namespace nvfuser::ops_utils
