// How many clusters of blocks a device runs at once.
#pragma once

#include <target/device.h>

namespace nvfuser {

// Clusters of `size` blocks (a power of two up to the device's max_cluster_size) with an SM for
// each block. A cluster lies in one GPC, and GPCs differ in the number of their SMs: an H200 of 132
// SMs has room for 66, 30, 15 and 7 clusters of 2, 4, 8 and 16 blocks. The driver is asked once.
int residentClusters(const DeviceInfo& device, int size);

} // namespace nvfuser
