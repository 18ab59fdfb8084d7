// SPDX-License-Identifier: BSD-3-Clause
// The devices of this machine, of either target.
#pragma once

#include <cuda/device_info.h>
#include <host/device_info.h>
#include <target/device.h>

namespace nvfuser {

// Described once. UserError: there is no such device.
const DeviceInfo& deviceInfo(Device device);

} // namespace nvfuser
