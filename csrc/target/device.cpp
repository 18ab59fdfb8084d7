// SPDX-License-Identifier: BSD-3-Clause
// Printing devices.
#include <target/device.h>

#include <ostream>

namespace nvfuser {

std::string Device::toString() const {
  return isHost() ? "cpu" : "cuda:" + std::to_string(index);
}

std::ostream& operator<<(std::ostream& os, Device device) {
  return os << device.toString();
}

} // namespace nvfuser
