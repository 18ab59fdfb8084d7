// SPDX-License-Identifier: BSD-3-Clause
// The hazard of writing an output into an input's storage: everybody who reads the old value must
// have read it before. A kernel gives no order between its threads, so it is safe only where each
// thread writes no element but those that it alone has read.
#pragma once

#include <fusion.h>
#include <runtime/kernel_args.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace nvfuser {

// Element i of the result depends on element i of every operand of the same shape.
bool isElementwise(const Expr* e);

// Equal ranks, with broadcasts at the same places.
bool sameShape(const TensorView* a, const TensorView* b);

// Whether element i of everything that is computed from the input, the output among it, depends on
// the input's element i and no other.
bool isElementwiseUpdate(const Fusion* fusion, TensorView* input, const TensorView* output);

// Why a single kernel that computes the fusion can not write `output` into the storage of `input`;
// empty if it can.
std::string inPlaceHazard(const Fusion* fusion, TensorView* input, TensorView* output);

// Addresses of the first and the last byte of a tensor; of an empty one {1, 0}.
std::pair<uintptr_t, uintptr_t> addressesOf(const ArgView& arg);

// Whether an argument at one of the positions `updated` shares memory with another argument. Error
// if several of its own elements are one in memory, along an expanded dimension.
bool overlaps(std::span<const ArgView> args, std::span<const size_t> updated);

} // namespace nvfuser
