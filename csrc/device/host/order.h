// SPDX-License-Identifier: BSD-3-Clause
// On the host kernels run one after the other.
#pragma once

//@ piece nvf::waitForPreviousKernel
namespace nvf {
NVF_FN void waitForPreviousKernel() {}
} // namespace nvf

//@ piece nvf::letNextKernelStart
namespace nvf {
NVF_FN void letNextKernelStart() {}
} // namespace nvf
