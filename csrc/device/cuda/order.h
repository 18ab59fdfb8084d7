// Kernels that start before the one before them in the stream is through (sm_90 and above). PTX
// ISA, "griddepcontrol".
#pragma once

//@ piece nvf::waitForPreviousKernel
// Until the kernels before are through and what they wrote can be read. Nothing is read or written
// in global memory before.
namespace nvf {
NVF_FN void waitForPreviousKernel() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
} // namespace nvf

//@ piece nvf::letNextKernelStart
// Once all blocks have said so, blocks of the next kernel take up what room there is.
namespace nvf {
NVF_FN void letNextKernelStart() {
  asm volatile("griddepcontrol.launch_dependents;" :::);
}
} // namespace nvf
