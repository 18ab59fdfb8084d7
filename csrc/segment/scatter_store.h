// SPDX-License-Identifier: BSD-3-Clause
// A scatter into memory that is there already, as the segment that does it has it.
#pragma once

#include <fusion.h>

namespace nvfuser {

// What is written: a tensor of the shape of the index, seen in the memory of `updated`.
TensorView* makeScatterStore(TensorView* updated, TensorView* index, Val* src, int64_t dim);

} // namespace nvfuser
