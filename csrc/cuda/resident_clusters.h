// SPDX-License-Identifier: BSD-3-Clause
// How many clusters of blocks a device runs at once.
#pragma once

#include <target/device.h>

#include <array>

namespace nvfuser {

// Of 1, 2, 4, 8 and 16 blocks, as far as the device has such clusters (else 0), with an SM for each
// block. A cluster lies in one GPC, and GPCs differ in the number of their SMs: an H200 of 132 SMs
// has room for 66, 30, 15 and 7 clusters of 2, 4, 8 and 16 blocks. Asks the driver.
std::array<int64_t, 5> residentClusters(const DeviceInfo& device);

} // namespace nvfuser
