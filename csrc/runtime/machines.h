// SPDX-License-Identifier: BSD-3-Clause
// The MachineModel of each device that this process sees.
#pragma once

#include <machine.h>
#include <target/device.h>

namespace nvfuser {

// What a device's description says that schedules depend on, and for a GPU of this machine how many
// clusters it runs at once, which its driver is asked.
MachineModel machineFrom(const DeviceInfo& device);

// This host: cores, lanes of its vectors, caches.
MachineModel hostMachine();

// Made once for each. The host's is that of what kernels for CPU tensors are scheduled for
// (HostSchedules).
const MachineModel& machineModel(Device device);

} // namespace nvfuser
