// SPDX-License-Identifier: BSD-3-Clause
// The machine that schedules of the host target are made for: a small Hopper, so that every
// scheduler and every path that depends on the architecture can be exercised without a GPU.
#pragma once

#include <target/device.h>

namespace nvfuser {

DeviceInfo hostDeviceInfo();
// An H200, whose schedules then run on the host.
DeviceInfo simulatedH200Info();

} // namespace nvfuser
