// SPDX-License-Identifier: BSD-3-Clause
// Tensor maps made by the driver.
#pragma once

#include <target/tensor_map.h>

namespace nvfuser {

// UserError as of checkTensorMap(), and when the driver has no tensor maps.
TensorMapBytes encodeCudaTensorMap(const TensorMapRequest& request);

} // namespace nvfuser
