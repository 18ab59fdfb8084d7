// SPDX-License-Identifier: BSD-3-Clause
// Builders of reductions and of statistics made of them.
//
// Axes count the dimensions of the input without those that earlier ops reduced; negative ones
// count from the end. With `keepdim` the reduced dimensions come back as dimensions of size 1, by a
// broadcast of its own. What all of them do in special cases:
//   * a tensor of rank 0 is copied, whatever the axes;
//   * broadcast dimensions are squeezed, and an expanded one counts as often as it is expanded;
//   * over no elements the result is the identity of the operation (0, 1, the least or greatest
//   value);
//   * 16-bit and smaller floats are combined as Float and converted back.
// Errors: "No reduction axis specified", an axis out of range or named twice.
#pragma once

#include <ir/nodes.h>

#include <cstdint>
#include <vector>

namespace nvfuser {

// `op` is one of Add, Mul, Minimum and Maximum. The input is converted to `dtype` first, unless
// that is Null; the result has the dtype of what is reduced.
TensorView* reductionOp(OpType op, const std::vector<int64_t>& axes, TensorView* in,
                        bool keepdim = false, DataType dtype = DataType::Null);

// With dtype Null integers and bools are summed (multiplied) as Int, other dtypes are kept.
TensorView* sum(TensorView* in, const std::vector<int64_t>& axes, bool keepdim = false,
                DataType dtype = DataType::Null);
TensorView* prod(TensorView* in, const std::vector<int64_t>& axes, bool keepdim = false,
                 DataType dtype = DataType::Null);

// NaN if an element is. Errors: complex input; a dtype other than Null.
TensorView* max(TensorView* in, const std::vector<int64_t>& axes, bool keepdim = false,
                DataType dtype = DataType::Null);
TensorView* min(TensorView* in, const std::vector<int64_t>& axes, bool keepdim = false,
                DataType dtype = DataType::Null);

// Sum divided by the number of elements, as Float for integers, bools and small floats. NaN over no
// elements.
TensorView* mean(TensorView* in, const std::vector<int64_t>& axes, bool keepdim = false);

struct WelfordResult {
  TensorView* avg = nullptr;
  // Sum of the squared deviations from avg.
  TensorView* var_sum = nullptr;
  // Number of elements, dtype Index.
  TensorView* n = nullptr;
};
// Integers, bools and small floats are converted to Float. Over no elements avg, var_sum and n are
// 0. Error: complex input.
WelfordResult Welford(TensorView* in, const std::vector<int64_t>& axes);

struct VarMeanResult {
  TensorView* var = nullptr;
  TensorView* mean = nullptr;
};
// Sum of squared deviations from the mean, divided by (number of elements - correction), which
// counts as 0 where it would be negative. Of complex numbers: the sum of the variances of the two
// parts. Dtype: as mean(), the real one for complex input. By two passes: the mean, then the
// deviations.
TensorView* variance(TensorView* in, const std::vector<int64_t>& axes, double correction = 1,
                     bool keepdim = false);
// By Welford's algorithm. Error: small floats, which are to be converted to Float by the caller.
VarMeanResult variance_mean(TensorView* in, const std::vector<int64_t>& axes, double correction = 1,
                            bool keepdim = false);

} // namespace nvfuser
