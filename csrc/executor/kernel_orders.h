// SPDX-License-Identifier: BSD-3-Clause
// How the kernels of one call follow each other: docs/design.md, "Kernels of one call".
#pragma once

#include <executor/planner.h>
#include <target/device.h>

#include <vector>

namespace nvfuser {

// For each segment. On devices that can start a kernel before the one before it is through (sm_90
// and above) they follow each other closely; NVFUSER_DISABLE=programmatic_dependent_launch turns
// that off.
std::vector<KernelOrder> kernelOrders(const ConcreteFusion& concrete, const DeviceInfo& device);

} // namespace nvfuser
