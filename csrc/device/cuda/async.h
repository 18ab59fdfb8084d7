// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous copies and the barriers that count them, on the GPU. PTX ISA: "mbarrier",
// "cp.async", "cp.async.bulk", "cp.async.bulk.tensor". One thread issues a bulk copy.
#pragma once

//@ piece nvf::sharedAddress
// The 32-bit address that instructions for shared memory take.
namespace nvf {
NVF_FN unsigned sharedAddress(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
} // namespace nvf

//@ piece nvf::syncWarp
namespace nvf {
NVF_FN void syncWarp() {
  __syncwarp();
}
} // namespace nvf

//@ piece nvf::copyAsync
// 4, 8 or 16 bytes from global to shared memory, zeros where there is nothing valid. 16 bytes go
// around the first level cache unless it is asked for.
namespace nvf {
template <int Bytes, nvf::CacheOp Cache = nvf::CacheOp::Unspecified>
NVF_FN void copyAsync(void* to_shared, const void* from_global, bool is_valid = true) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "what cp.async can copy");
  const int valid_bytes = is_valid ? Bytes : 0;
  if constexpr (Bytes == 16 && Cache != nvf::CacheOp::AllLevels) {
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(nvf::sharedAddress(to_shared)),
        "l"(__cvta_generic_to_global(from_global)), "r"(valid_bytes)
        : "memory");
  } else {
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(nvf::sharedAddress(to_shared)),
        "l"(__cvta_generic_to_global(from_global)), "n"(Bytes), "r"(valid_bytes)
        : "memory");
  }
}
} // namespace nvf

//@ piece nvf::copyEnd
// The vector that begins at `first`, of which a tensor of `extent` elements has some or none; zeros
// in the place of the others. Some 20 instructions more than a copy of constant size.
namespace nvf {
template <class T, int N>
NVF_FN void copyEnd(T* to_shared, const T* tensor, int first, int extent) {
  const int valid = first < 0 ? 0 : ::min(::max(extent - first, 0), N);
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(nvf::sharedAddress(to_shared)),
               "l"(__cvta_generic_to_global(tensor + (valid > 0 ? first : 0))),
               "n"(N * static_cast<int>(sizeof(T))), "r"(valid * static_cast<int>(sizeof(T)))
               : "memory");
}
} // namespace nvf

//@ piece nvf::commitCopies
// The copies of this thread since the last commit are a group.
namespace nvf {
NVF_FN void commitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
} // namespace nvf

//@ piece nvf::waitForCopies
// Until at most `Pending` groups of this thread are under way. Other threads see the data after a
// barrier.
namespace nvf {
template <int Pending>
NVF_FN void waitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}
} // namespace nvf

//@ piece nvf::MBarrier
namespace nvf {
struct alignas(8) MBarrier {
  unsigned long long state;
};
} // namespace nvf

//@ piece nvf::initMBarrier
// For phases of `count` arrivals. By one thread; then fenceMBarrierInit() and a barrier before
// others use it.
namespace nvf {
NVF_FN void initMBarrier(nvf::MBarrier* barrier, unsigned count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(nvf::sharedAddress(barrier)), "r"(count)
               : "memory");
}
} // namespace nvf

//@ piece nvf::fenceMBarrierInit
// Makes the initialization known to the cluster and to bulk copies, which sm_90 brought.
namespace nvf {
NVF_FN void fenceMBarrierInit() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
} // namespace nvf

//@ piece nvf::fenceAsyncProxy
// What this thread wrote to shared memory is seen by bulk copies that are issued later.
namespace nvf {
NVF_FN void fenceAsyncProxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
} // namespace nvf

//@ piece nvf::arrive
namespace nvf {
NVF_FN void arrive(nvf::MBarrier* barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(nvf::sharedAddress(barrier)) : "memory");
}
} // namespace nvf

//@ piece nvf::arriveExpecting
// Arrives, and adds bytes that copies have to bring before the phase completes.
namespace nvf {
NVF_FN void arriveExpecting(nvf::MBarrier* barrier, unsigned bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(nvf::sharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}
} // namespace nvf

//@ piece nvf::arriveRemotely
// At the same barrier of another block of the cluster.
namespace nvf {
NVF_FN void arriveRemotely(nvf::MBarrier* barrier, unsigned rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n}" ::"r"(
          nvf::sharedAddress(barrier)),
      "r"(rank)
      : "memory");
}
} // namespace nvf

//@ piece nvf::arriveAfterCopies
// Arrives once the copyAsync of this thread so far are complete; one of the barrier's arrivals.
namespace nvf {
NVF_FN void arriveAfterCopies(nvf::MBarrier* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(nvf::sharedAddress(barrier))
               : "memory");
}
} // namespace nvf

//@ piece nvf::isPhaseComplete
// Whether the phase of that parity (0 for the first, then alternating) is complete.
namespace nvf {
NVF_FN bool isPhaseComplete(nvf::MBarrier* barrier, unsigned parity) {
  unsigned is_complete;
  asm volatile(
      "{\n.reg .pred complete;\n"
#if __CUDA_ARCH__ >= 900
      "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
#else
      "mbarrier.test_wait.parity.shared.b64 complete, [%1], %2;\n"
#endif
      "selp.u32 %0, 1, 0, complete;\n}"
      : "=r"(is_complete)
      : "r"(nvf::sharedAddress(barrier)), "r"(parity)
      : "memory");
  return is_complete != 0;
}
} // namespace nvf

//@ piece nvf::waitForPhase
namespace nvf {
NVF_FN void waitForPhase(nvf::MBarrier* barrier, unsigned parity) {
  while (!nvf::isPhaseComplete(barrier, parity)) {
  }
}
} // namespace nvf

//@ piece nvf::copyBulkToShared
// Bytes that the barrier counts. Addresses and size are multiples of 16.
namespace nvf {
NVF_FN void copyBulkToShared(void* to_shared, const void* from_global, unsigned bytes,
                             nvf::MBarrier* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(nvf::sharedAddress(to_shared)),
      "l"(__cvta_generic_to_global(from_global)), "r"(bytes), "r"(nvf::sharedAddress(barrier))
      : "memory");
}
} // namespace nvf

//@ piece nvf::announceBulkToShared
// The same, of bytes that the barrier has not been told of. Whoever issues such copies arrives at
// it afterwards.
namespace nvf {
NVF_FN void announceBulkToShared(void* to_shared, const void* from_global, unsigned bytes,
                                 nvf::MBarrier* barrier) {
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(nvf::sharedAddress(barrier)),
      "r"(bytes)
      : "memory");
  nvf::copyBulkToShared(to_shared, from_global, bytes, barrier);
}
} // namespace nvf

//@ piece nvf::copyBulkToGlobal
// In a group of this thread's bulk copies.
namespace nvf {
NVF_FN void copyBulkToGlobal(void* to_global, const void* from_shared, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                   __cvta_generic_to_global(to_global)),
               "r"(nvf::sharedAddress(from_shared)), "r"(bytes)
               : "memory");
}
} // namespace nvf

//@ piece nvf::commitBulkCopies
namespace nvf {
NVF_FN void commitBulkCopies() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
} // namespace nvf

//@ piece nvf::waitForBulkCopies
// Until at most `Pending` groups have not written all.
namespace nvf {
template <int Pending>
NVF_FN void waitForBulkCopies() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");
}
} // namespace nvf

//@ piece nvf::waitForBulkReads
// Until at most `Pending` groups still read shared memory.
namespace nvf {
template <int Pending>
NVF_FN void waitForBulkReads() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}
} // namespace nvf

//@ piece TensorMap
// Made by the driver (target/tensor_map.h).
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

//@ piece NVF_TENSOR_MAP also TensorMap
// A parameter that is a tensor map: the hardware reads it where the launch put it.
#define NVF_TENSOR_MAP(name) const __grid_constant__ TensorMap name

//@ piece nvf::prefetchTensorMap
namespace nvf {
NVF_FN void prefetchTensorMap(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
} // namespace nvf

//@ piece nvf::copyTileToShared
// The box of the tensor map at these coordinates (the fastest first), zeros outside of the tensor.
namespace nvf {
#define NVF_LOAD_TILE(rank, list, ...)                                                       \
  asm volatile("cp.async.bulk.tensor." #rank                                                 \
               "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, " list \
               "], [%2];" ::"r"(nvf::sharedAddress(to_shared)),                              \
               "l"(map), "r"(nvf::sharedAddress(barrier)), __VA_ARGS__                       \
               : "memory")
template <int Rank>
NVF_FN void copyTileToShared(void* to_shared, const TensorMap* map, const int (&at)[Rank],
                             nvf::MBarrier* barrier) {
  if constexpr (Rank == 1) {
    NVF_LOAD_TILE(1, "{%3}", "r"(at[0]));
  } else if constexpr (Rank == 2) {
    NVF_LOAD_TILE(2, "{%3, %4}", "r"(at[0]), "r"(at[1]));
  } else if constexpr (Rank == 3) {
    NVF_LOAD_TILE(3, "{%3, %4, %5}", "r"(at[0]), "r"(at[1]), "r"(at[2]));
  } else if constexpr (Rank == 4) {
    NVF_LOAD_TILE(4, "{%3, %4, %5, %6}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]));
  } else {
    NVF_LOAD_TILE(5, "{%3, %4, %5, %6, %7}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                  "r"(at[4]));
  }
}
#undef NVF_LOAD_TILE
} // namespace nvf

//@ piece nvf::copyTileToGlobal
// In a group of this thread's bulk copies; what lies outside of the tensor is not written.
namespace nvf {
#define NVF_STORE_TILE(rank, list, ...)                                                        \
  asm volatile("cp.async.bulk.tensor." #rank "d.global.shared::cta.tile.bulk_group [%0, " list \
               "], [%1];" ::"l"(map),                                                          \
               "r"(nvf::sharedAddress(from_shared)), __VA_ARGS__                               \
               : "memory")
template <int Rank>
NVF_FN void copyTileToGlobal(const TensorMap* map, const int (&at)[Rank], const void* from_shared) {
  if constexpr (Rank == 1) {
    NVF_STORE_TILE(1, "{%2}", "r"(at[0]));
  } else if constexpr (Rank == 2) {
    NVF_STORE_TILE(2, "{%2, %3}", "r"(at[0]), "r"(at[1]));
  } else if constexpr (Rank == 3) {
    NVF_STORE_TILE(3, "{%2, %3, %4}", "r"(at[0]), "r"(at[1]), "r"(at[2]));
  } else if constexpr (Rank == 4) {
    NVF_STORE_TILE(4, "{%2, %3, %4, %5}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]));
  } else {
    NVF_STORE_TILE(5, "{%2, %3, %4, %5, %6}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                   "r"(at[4]));
  }
}
#undef NVF_STORE_TILE
} // namespace nvf

//@ piece nvf::giveRegisters
// Lowers what each thread of the warpgroup may use to `Count`, a multiple of 8: a matter of speed,
// which only sm_90a and above have. PTX ISA, "setmaxnreg".
namespace nvf {
template <int Count>
NVF_FN void giveRegisters() {
#if __CUDA_ARCH__ >= 900
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
#endif
}
} // namespace nvf

//@ piece nvf::takeRegisters
namespace nvf {
template <int Count>
NVF_FN void takeRegisters() {
#if __CUDA_ARCH__ >= 900
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
#endif
}
} // namespace nvf
