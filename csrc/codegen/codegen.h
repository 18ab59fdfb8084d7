// SPDX-License-Identifier: BSD-3-Clause
// Prints a Kernel as text against the device library; the same text serves both targets.
#pragma once

#include <kernel/kernel.h>

#include <string>

namespace nvfuser::codegen {

// The kernel function alone (NVF_KERNEL(...) {...}), without the device library.
std::string generateCudaKernel(const Kernel* kernel,
                               const std::string& kernel_name = "CUDAGeneratedKernel");

} // namespace nvfuser::codegen
