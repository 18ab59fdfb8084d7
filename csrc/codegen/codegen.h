// SPDX-License-Identifier: BSD-3-Clause
// Prints a Kernel as text against the device library; the same text serves both targets.
#pragma once

#include <kernel/kernel.h>

#include <array>
#include <string>
#include <string_view>

namespace nvfuser::codegen {

// What the lines before a kernel function may define: how the library runs its threads.
inline constexpr std::string_view kThreadsInLoops = "NVF_THREADS_IN_LOOPS";
inline constexpr std::string_view kComputingThreads = "NVF_COMPUTING_THREADS"; // how many
inline constexpr std::array<std::string_view, 2> kSettings = {kThreadsInLoops, kComputingThreads};

// The kernel function alone (NVF_KERNEL(...) {...}) after its settings, without the device library.
std::string generateCudaKernel(const Kernel* kernel,
                               const std::string& kernel_name = "CUDAGeneratedKernel");

} // namespace nvfuser::codegen
