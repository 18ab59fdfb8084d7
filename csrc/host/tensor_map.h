// SPDX-License-Identifier: BSD-3-Clause
// Tensor maps of the host target.
#pragma once

#include <target/tensor_map.h>

namespace nvfuser {

// As device/host/async.h reads it. UserError as of checkTensorMap().
TensorMapBytes encodeHostTensorMap(const TensorMapRequest& request);

} // namespace nvfuser
