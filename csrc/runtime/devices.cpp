// See devices.h.
#include <runtime/devices.h>

namespace nvfuser {

const DeviceInfo& deviceInfo(Device device) {
  if (device.isHost()) {
    static const auto* host = new DeviceInfo(hostDeviceInfo());
    return *host;
  }
  return cudaDeviceInfo(device.index);
}

} // namespace nvfuser
