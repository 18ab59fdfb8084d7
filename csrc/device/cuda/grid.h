// SPDX-License-Identifier: BSD-3-Clause
// What reductions over the grid need on the GPU: where a block is, which one arrives last, and how
// blocks synchronize.
#pragma once

//@ piece nvf::blockPlace
namespace nvf {
NVF_FN nvf::ThreadPlace blockPlace() {
  return {static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z),
          static_cast<int>(gridDim.x),  static_cast<int>(gridDim.y),  static_cast<int>(gridDim.z)};
}
} // namespace nvf

//@ piece nvf::Workspace
namespace nvf {
using Workspace = char*;
} // namespace nvf

//@ piece nvf::loadFresh
// Memory that other blocks wrote: from L2, in the widest accesses that the type
// allows.
namespace nvf {
template <class V>
NVF_FN V loadFresh(const V* source) {
  constexpr int kUnit = alignof(V) < 16 ? alignof(V) : 16;
  using Unit = nvf::Vector<kUnit>;
  V value;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(V)) / kUnit; ++i) {
    reinterpret_cast<Unit*>(&value)[i] = __ldcg(reinterpret_cast<const Unit*>(source) + i);
  }
  return value;
}
} // namespace nvf

//@ piece nvf::storeFresh
// What other blocks will load.
namespace nvf {
template <class V>
NVF_FN void storeFresh(V* target, V value) {
  *target = value;
}
} // namespace nvf

//@ piece nvf::isLastBlock
// Called by all threads of `count` blocks: true in the block that calls last, which then sees what
// the others wrote to global memory before. The counter goes back to zero. (PTX ISA, "Causality
// order": releases are cumulative over barriers.)
namespace nvf {
NVF_FN bool isLastBlock(unsigned* counter, int count, nvf::Workspace) {
  nvf::syncBlock();
  bool is_last = false;
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    // One thread speaks for the block: what the barrier let it see, it releases.
    const auto most = static_cast<unsigned>(count - 1);
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(__cvta_generic_to_global(counter)), "r"(most)
                 : "memory");
    is_last = before == most;
  }
  return __syncthreads_or(is_last) != 0;
}
} // namespace nvf

//@ piece nvf::meetBlocks
// Called by all threads of `count` blocks that run at the same time: goes on when all have called
// it, and sees what they wrote to global memory before. The counter counts those that come and then
// those that leave, the last of which takes it back to zero: nobody is left to look at it then.
namespace nvf {
NVF_FN void meetBlocks(unsigned* counter, int count, nvf::Workspace) {
  nvf::syncBlock();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    const auto address = __cvta_generic_to_global(counter);
    const auto most = static_cast<unsigned>(2 * count - 1);
    asm volatile("red.release.gpu.global.inc.u32 [%0], %1;" ::"l"(address), "r"(most) : "memory");
    unsigned arrived;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(address) : "memory");
    } while (arrived < static_cast<unsigned>(count));
    asm volatile("red.relaxed.gpu.global.inc.u32 [%0], %1;" ::"l"(address), "r"(most) : "memory");
  }
  nvf::syncBlock();
}
} // namespace nvf
