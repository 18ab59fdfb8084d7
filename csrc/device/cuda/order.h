// SPDX-License-Identifier: BSD-3-Clause
// Kernels that start before the one before them in the stream is through. PTX ISA,
// "griddepcontrol". Below sm_90 kernels of a stream follow each other anyway, and nothing needs to
// be said.
#pragma once

//@ piece nvf::waitForPreviousKernel
// Until the kernels before are through and what they wrote can be read. Nothing is read or written
// in global memory before.
namespace nvf {
NVF_FN void waitForPreviousKernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
} // namespace nvf

//@ piece nvf::letNextKernelStart
// Once all blocks have said so, blocks of the next kernel take up what room there is.
namespace nvf {
NVF_FN void letNextKernelStart() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" :::);
#endif
}
} // namespace nvf
