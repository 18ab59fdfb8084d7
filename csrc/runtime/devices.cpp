// SPDX-License-Identifier: BSD-3-Clause
// See devices.h.
#include <runtime/devices.h>

#include <base/options.h>

namespace nvfuser {

const DeviceInfo& deviceInfo(Device device) {
  if (device.isHost()) {
    static const auto* host = new DeviceInfo(hostDeviceInfo());
    static const auto* h200 = new DeviceInfo(simulatedH200Info());
    switch (currentOptions().host_schedules) {
      case HostSchedules::ForH200:
        return *h200;
      case HostSchedules::ForSmallHopper:
      case HostSchedules::ForHost:
        return *host;
    }
  }
  return cudaDeviceInfo(device.index);
}

} // namespace nvfuser
