// See devices.h.
#include <runtime/devices.h>

#include <base/options.h>

namespace nvfuser {

const DeviceInfo& deviceInfo(Device device) {
  if (device.isHost()) {
    static const auto* host = new DeviceInfo(hostDeviceInfo());
    static const auto* h200 = new DeviceInfo(simulatedH200Info());
    return currentOptions().host_schedules == HostSchedules::ForH200 ? *h200 : *host;
  }
  return cudaDeviceInfo(device.index);
}

} // namespace nvfuser
