// SPDX-License-Identifier: BSD-3-Clause
// Builders of random tensors: Philox streams, from an explicit seed and offset or from the
// generator of the device.
#pragma once

#include <ir/nodes.h>

#include <vector>

namespace nvfuser {

// In [minval, maxval). Seed and offset: both or neither.
TensorView* uniform(const std::vector<Val*>& shape, Val* minval, Val* maxval,
                    DataType dtype = DataType::Float, Val* seed = nullptr, Val* offset = nullptr);
TensorView* normal(const std::vector<Val*>& shape, Val* mean, Val* std,
                   DataType dtype = DataType::Float, Val* seed = nullptr, Val* offset = nullptr);

// uniform(0, 1) and normal(0, 1) of the tensor's shape and dtype.
TensorView* rand_like(TensorView* tv);
TensorView* randn_like(TensorView* tv);

} // namespace nvfuser
