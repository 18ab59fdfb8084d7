// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous copies and the barriers that count them, on the host: descriptions that the runtime
// carries out, in the adversarial mode as late as it can (host/cluster.h).
#pragma once

//@ piece nvf::syncWarp also nvf::syncBlock
namespace nvf {
NVF_FN void syncWarp(int line = __builtin_LINE()) {
  nvf::hostServices()->sync_warp(line);
}
} // namespace nvf

//@ piece nvf::PlainCopy nvf::PlainCopy::run
// The argument of a copy of bytes.
namespace nvf {
struct PlainCopy {
  void* to;
  const void* from;
  unsigned bytes;
  unsigned valid; // zeros after them

  static void run(const void* argument) {
    const auto* copy = static_cast<const PlainCopy*>(argument);
    __builtin_memcpy(copy->to, copy->from, copy->valid);
    __builtin_memset(static_cast<char*>(copy->to) + copy->valid, 0, copy->bytes - copy->valid);
  }

  void issue(int line) const {
    const NvfHostCopy copy = {&run,    this, sizeof(*this), kNvfHostSmallCopies,
                              nullptr, to,   nullptr,       bytes};
    nvf::hostServices()->copy(&copy, line);
  }
};
} // namespace nvf

//@ piece nvf::copyAsync also nvf::syncBlock
namespace nvf {
template <int Bytes, nvf::CacheOp = nvf::CacheOp::Unspecified>
NVF_FN void copyAsync(void* to_shared, const void* from_global, bool is_valid = true,
                      int line = __builtin_LINE()) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "what cp.async can copy");
  nvf::PlainCopy{to_shared, from_global, Bytes, is_valid ? Bytes : 0u}.issue(line);
}
} // namespace nvf

//@ piece nvf::copyEnd also nvf::syncBlock
namespace nvf {
template <class T, int N>
NVF_FN void copyEnd(T* to_shared, const T* tensor, int first, int extent,
                    int line = __builtin_LINE()) {
  const int left = first < 0 || first > extent ? 0 : extent - first;
  const unsigned valid = (left < N ? left : N) * sizeof(T);
  nvf::PlainCopy{to_shared, tensor + (valid > 0 ? first : 0), N * sizeof(T), valid}.issue(line);
}
} // namespace nvf

//@ piece nvf::commitCopies
namespace nvf {
NVF_FN void commitCopies() {
  nvf::hostServices()->commit_copies(kNvfHostSmallCopies);
}
} // namespace nvf

//@ piece nvf::waitForCopies
namespace nvf {
template <int Pending>
NVF_FN void waitForCopies() {
  nvf::hostServices()->wait_for_copies(kNvfHostSmallCopies, Pending);
}
} // namespace nvf

//@ piece nvf::MBarrier also nvf::syncBlock
namespace nvf {
struct alignas(8) MBarrier {
  unsigned long long state; // the runtime keeps it elsewhere
};
} // namespace nvf

//@ piece nvf::initMBarrier
namespace nvf {
NVF_FN void initMBarrier(nvf::MBarrier* barrier, unsigned count, int line = __builtin_LINE()) {
  nvf::hostServices()->barrier_init(barrier, count, line);
}
} // namespace nvf

//@ piece nvf::fenceMBarrierInit
namespace nvf {
NVF_FN void fenceMBarrierInit() {}
} // namespace nvf

//@ piece nvf::fenceAsyncProxy
namespace nvf {
NVF_FN void fenceAsyncProxy() {
  nvf::hostServices()->fence_copies();
}
} // namespace nvf

//@ piece nvf::arrive
namespace nvf {
NVF_FN void arrive(nvf::MBarrier* barrier, int line = __builtin_LINE()) {
  nvf::hostServices()->barrier_arrive(barrier, 1, 0, line);
}
} // namespace nvf

//@ piece nvf::arriveExpecting
namespace nvf {
NVF_FN void arriveExpecting(nvf::MBarrier* barrier, unsigned bytes, int line = __builtin_LINE()) {
  nvf::hostServices()->barrier_arrive(barrier, 1, bytes, line);
}
} // namespace nvf

//@ piece nvf::arriveRemotely
namespace nvf {
NVF_FN void arriveRemotely(nvf::MBarrier* barrier, unsigned rank, int line = __builtin_LINE()) {
  nvf::hostServices()->barrier_arrive(nvf::hostServices()->map_shared(barrier, rank), 1, 0, line);
}
} // namespace nvf

//@ piece nvf::arriveAfterCopies
namespace nvf {
NVF_FN void arriveAfterCopies(nvf::MBarrier* barrier, int line = __builtin_LINE()) {
  nvf::hostServices()->arrive_after_copies(barrier, line);
}
} // namespace nvf

//@ piece nvf::isPhaseComplete
// Gives the other threads a turn first, as it is asked in a loop.
namespace nvf {
NVF_FN bool isPhaseComplete(nvf::MBarrier* barrier, unsigned parity, int line = __builtin_LINE()) {
  return nvf::hostServices()->barrier_test(barrier, parity, line);
}
} // namespace nvf

//@ piece nvf::waitForPhase
namespace nvf {
NVF_FN void waitForPhase(nvf::MBarrier* barrier, unsigned parity, int line = __builtin_LINE()) {
  nvf::hostServices()->barrier_wait(barrier, parity, line);
}
} // namespace nvf

//@ piece nvf::checkBulk
namespace nvf {
NVF_FN void checkBulk(const void* a, const void* b, unsigned bytes, int line) {
  const unsigned long bits =
      reinterpret_cast<unsigned long>(a) | reinterpret_cast<unsigned long>(b) | bytes;
  if (bits % 16 != 0) {
    nvf::hostServices()->fail("a bulk copy of what is not aligned to 16 bytes", line);
  }
}
} // namespace nvf

//@ piece nvf::copyBulkToShared
namespace nvf {
NVF_FN void copyBulkToShared(void* to_shared, const void* from_global, unsigned bytes,
                             nvf::MBarrier* barrier, int line = __builtin_LINE()) {
  nvf::checkBulk(to_shared, from_global, bytes, line);
  const nvf::PlainCopy argument = {to_shared, from_global, bytes, bytes};
  const NvfHostCopy copy = {&nvf::PlainCopy::run,
                            &argument,
                            sizeof(argument),
                            kNvfHostBulkCopies,
                            barrier,
                            to_shared,
                            nullptr,
                            bytes};
  nvf::hostServices()->copy(&copy, line);
}
} // namespace nvf

//@ piece nvf::announceBulkToShared
namespace nvf {
NVF_FN void announceBulkToShared(void* to_shared, const void* from_global, unsigned bytes,
                                 nvf::MBarrier* barrier, int line = __builtin_LINE()) {
  nvf::hostServices()->barrier_arrive(barrier, 0, bytes, line);
  nvf::copyBulkToShared(to_shared, from_global, bytes, barrier, line);
}
} // namespace nvf

//@ piece nvf::copyBulkToGlobal also nvf::syncBlock
namespace nvf {
NVF_FN void copyBulkToGlobal(void* to_global, const void* from_shared, unsigned bytes,
                             int line = __builtin_LINE()) {
  nvf::checkBulk(to_global, from_shared, bytes, line);
  const nvf::PlainCopy argument = {to_global, from_shared, bytes, bytes};
  const NvfHostCopy copy = {&nvf::PlainCopy::run, &argument, sizeof(argument),
                            kNvfHostBulkCopies,   nullptr,   nullptr,
                            from_shared,          bytes};
  nvf::hostServices()->copy(&copy, line);
}
} // namespace nvf

//@ piece nvf::commitBulkCopies
namespace nvf {
NVF_FN void commitBulkCopies() {
  nvf::hostServices()->commit_copies(kNvfHostBulkCopies);
}
} // namespace nvf

//@ piece nvf::waitForBulkCopies
namespace nvf {
template <int Pending>
NVF_FN void waitForBulkCopies() {
  nvf::hostServices()->wait_for_copies(kNvfHostBulkCopies, Pending);
}
} // namespace nvf

//@ piece nvf::waitForBulkReads
namespace nvf {
template <int Pending>
NVF_FN void waitForBulkReads() {
  nvf::hostServices()->wait_for_copies(kNvfHostBulkCopies, Pending);
}
} // namespace nvf

//@ piece TensorMap NVF_TENSOR_MAP
// As target/tensor_map.cpp fills it: what cuTensorMapEncodeTiled is given.
struct alignas(64) TensorMap {
  char* data;
  unsigned element_bytes, rank;
  unsigned long long size[5];
  unsigned long long stride_bytes[4]; // of the dimensions after the first
  unsigned box[5];
  unsigned swizzle; // log2 of its width in units of 16 bytes
};
#define NVF_TENSOR_MAP(name) TensorMap name

//@ piece nvf::prefetchTensorMap
namespace nvf {
NVF_FN void prefetchTensorMap(const TensorMap*) {}
} // namespace nvf

//@ piece nvf::TileCopy nvf::TileCopy::run nvf::makeTileCopy
// The argument of a copy of a tile, row by row of the box.
namespace nvf {
struct TileCopy {
  TensorMap map;
  int at[5];
  char* shared;
  bool is_store;

  unsigned rowBytes() const {
    return map.box[0] * map.element_bytes;
  }
  unsigned bytes() const {
    unsigned total = map.element_bytes;
    for (unsigned d = 0; d < map.rank; ++d) {
      total *= map.box[d];
    }
    return total;
  }
  // The address of a byte of the box in shared memory.
  char* place(unsigned offset) const {
    const auto address = reinterpret_cast<unsigned long>(shared) + offset;
    const unsigned long mask = (1ul << map.swizzle) - 1;
    return reinterpret_cast<char*>(address ^ (((address >> 7) & mask) << 4));
  }
  void copyRow(unsigned row) const;
  static void run(const void* argument) {
    const auto* copy = static_cast<const TileCopy*>(argument);
    for (unsigned row = 0; row < copy->bytes() / copy->rowBytes(); ++row) {
      copy->copyRow(row);
    }
  }
};

inline void TileCopy::copyRow(unsigned row) const {
  bool is_inside = true;
  long long offset = 0;
  unsigned rest = row;
  for (unsigned d = 1; d < map.rank; ++d) {
    const long long index = at[d] + static_cast<long long>(rest % map.box[d]);
    rest /= map.box[d];
    is_inside = is_inside && index >= 0 && index < static_cast<long long>(map.size[d]);
    offset += index * static_cast<long long>(map.stride_bytes[d - 1]);
  }
  for (unsigned x = 0; x < map.box[0]; ++x) {
    const long long index = at[0] + static_cast<long long>(x);
    char* in_shared = place(row * rowBytes() + x * map.element_bytes);
    if (is_inside && index >= 0 && index < static_cast<long long>(map.size[0])) {
      char* in_global = map.data + offset + index * map.element_bytes;
      __builtin_memcpy(is_store ? in_global : in_shared, is_store ? in_shared : in_global,
                       map.element_bytes);
    } else if (!is_store) {
      __builtin_memset(in_shared, 0, map.element_bytes);
    }
  }
}

template <int Rank>
NVF_FN TileCopy makeTileCopy(const TensorMap* map, const int (&at)[Rank], void* shared,
                             bool is_store, int line) {
  TileCopy tile = {*map, {}, static_cast<char*>(shared), is_store};
  for (int d = 0; d < Rank; ++d) {
    tile.at[d] = at[d];
  }
  const unsigned long alignment = map->swizzle == 0 ? 128 : 128ul << map->swizzle;
  if (map->rank != Rank || reinterpret_cast<unsigned long>(shared) % alignment != 0) {
    nvf::hostServices()->fail("a tile of another rank than its map, or not aligned", line);
  }
  return tile;
}
} // namespace nvf

//@ piece nvf::copyTileToShared
namespace nvf {
template <int Rank>
NVF_FN void copyTileToShared(void* to_shared, const TensorMap* map, const int (&at)[Rank],
                             nvf::MBarrier* barrier, int line = __builtin_LINE()) {
  const nvf::TileCopy tile = nvf::makeTileCopy(map, at, to_shared, false, line);
  const NvfHostCopy copy = {&nvf::TileCopy::run, &tile,   sizeof(tile), kNvfHostBulkCopies, barrier,
                            to_shared,           nullptr, tile.bytes()};
  nvf::hostServices()->copy(&copy, line);
}
} // namespace nvf

//@ piece nvf::copyTileToGlobal also nvf::syncBlock
namespace nvf {
template <int Rank>
NVF_FN void copyTileToGlobal(const TensorMap* map, const int (&at)[Rank], const void* from_shared,
                             int line = __builtin_LINE()) {
  const nvf::TileCopy tile = nvf::makeTileCopy(map, at, const_cast<void*>(from_shared), true, line);
  const NvfHostCopy copy = {&nvf::TileCopy::run, &tile,       sizeof(tile),
                            kNvfHostBulkCopies,  nullptr,     nullptr,
                            from_shared,         tile.bytes()};
  nvf::hostServices()->copy(&copy, line);
}
} // namespace nvf

//@ piece nvf::giveRegisters
namespace nvf {
template <int Count>
NVF_FN void giveRegisters() {}
} // namespace nvf

//@ piece nvf::takeRegisters
namespace nvf {
template <int Count>
NVF_FN void takeRegisters() {}
} // namespace nvf
