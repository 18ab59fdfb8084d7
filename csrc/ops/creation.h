// SPDX-License-Identifier: BSD-3-Clause
// Builders of tensors that are made from scalars.
#pragma once

#include <ir/nodes.h>

#include <vector>

namespace nvfuser {

// Every element is `fill_value`, converted to the dtype.
TensorView* full(const std::vector<Val*>& shape, Val* fill_value, DataType dtype);
TensorView* full_like(TensorView* tv, Val* fill_value);
TensorView* zeros(const std::vector<Val*>& shape, DataType dtype);
TensorView* ones(const std::vector<Val*>& shape, DataType dtype);
TensorView* zeros_like(TensorView* tv);
TensorView* ones_like(TensorView* tv);

// start + i * step for i below length. Null start is 0, null step is 1.
TensorView* iota(Val* length, Val* start = nullptr, Val* step = nullptr,
                 DataType dtype = DataType::Int);

} // namespace nvfuser
