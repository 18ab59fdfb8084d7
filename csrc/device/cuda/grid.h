// What reductions over the grid need on the GPU: where a block is, and which one arrives last.
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
// Memory that other blocks wrote: from the second level cache, in the widest accesses that the type
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

//@ piece nvf::isLastBlock
// Called by all threads of `count` blocks: true in the block that calls last, which then sees what
// the others wrote to global memory before. The counter goes back to zero. (CUDA C++ programming
// guide, "Memory fence functions".)
namespace nvf {
NVF_FN bool isLastBlock(unsigned* counter, int count, nvf::Workspace) {
  __threadfence();
  nvf::syncBlock();
  bool is_last = false;
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    const auto most = static_cast<unsigned>(count - 1);
    is_last = atomicInc(counter, most) == most;
    __threadfence();
  }
  return __syncthreads_or(is_last) != 0;
}
} // namespace nvf
