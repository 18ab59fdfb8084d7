// SPDX-License-Identifier: BSD-3-Clause
// The CUDA devices that this process sees, as the driver describes them.
#pragma once

#include <target/device.h>

namespace nvfuser {

// 0 where there is no driver or no device; never throws.
int cudaDeviceCount();
bool cudaAvailable();

// Asked of the driver once. UserError: there is no such device.
const DeviceInfo& cudaDeviceInfo(int index);

} // namespace nvfuser
