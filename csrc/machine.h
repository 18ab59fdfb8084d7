// SPDX-License-Identifier: BSD-3-Clause
// MachineModel: what schedules may know of the machine that a kernel runs on. A value: whoever
// chooses parameters gets it passed and asks nobody else, so that schedules for any machine can be
// made anywhere.
//
// Units: bytes, threads, blocks, and microseconds for all times. The names are those of a GPU; on a
// host an SM is a core. What there is (the first part) is filled once for each device, from its
// driver or from the operating system (runtime/machines.h). What was measured (the second part) is
// in one table, each with its unit and source: on an H200 of 132 SMs, other GPUs take the same.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace nvfuser {

// Of all machines, as the kernels' texts have it: threads of a warp, bytes of a register, and of
// the widest access.
inline constexpr int64_t kWarp = 32;
inline constexpr int64_t kRegisterBytes = 4;
inline constexpr int64_t kVectorBytes = 16;
inline constexpr int64_t kElementsOfVector = kVectorBytes / 2; // of 16 bits each

struct MachineModel {
  // --- what there is ---

  int64_t sms = 1;
  // Each issues for one warp at a time, and has its part of an SM's registers.
  int64_t schedulers_per_sm = 4;
  int64_t max_threads_per_block = 1024;
  int64_t max_threads_per_sm = 2048;
  int64_t max_blocks_per_sm = 32;
  int64_t max_blocks_y = 65535;     // of a grid
  int64_t registers_per_sm = 65536; // of 4 bytes
  int64_t max_registers_per_thread = 255;
  int64_t register_unit = 8;           // a thread gets a multiple of so many
  int64_t shared_per_block = 48 << 10; // without asking for more
  int64_t max_shared_per_block = 227 << 10;
  int64_t shared_per_sm = 228 << 10;
  int64_t shared_reserved_per_block = 1 << 10; // by the system
  int64_t lanes = kWarp;                       // of float32, that an instruction works on
  int64_t l1_bytes = 256 << 10;                // of an SM, with its shared memory
  int64_t l2_bytes = 50 << 20;                 // of all SMs; on a host the last level
  int64_t line_bytes = 128;
  int64_t sector_bytes = 32;   // of a line, the least that memory delivers
  int64_t min_async_bytes = 4; // that a copy to shared memory without registers takes at least
  bool async_copies = true;    // there are such copies (cp.async)
  bool bulk_copies = true;     // and those of whole pieces of memory (cp.async.bulk)
  bool cooperative_launch = true;
  // A block is run by one thread of the machine, in loops over the block's threads
  // (lower/thread_loops.cpp): those along x are lanes of its vectors, barriers cost nothing, and
  // what was read once is in the core's cache.
  bool threads_in_loops = false;
  int64_t core_cache_bytes = 1 << 20; // the largest cache that a core has for itself
  int64_t max_cluster = 16;           // blocks; 1: there are no clusters
  int64_t usual_cluster = 8; // every GPC has room for several of these; larger ones leave SMs idle
  // Clusters of 1, 2, 4, 8 and 16 blocks that run at once with an SM for each block. A cluster lies
  // in one GPC, and these differ in the number of their SMs. 0: as many as there are SMs for.
  std::array<int64_t, 5> resident_clusters = {};
  double cycles_per_us = 1980; // of an SM

  // --- what was measured ---
  // Sources, all of an H200 in November 2026. [copy]: copies of large tensors (benchmarks/results).
  // [columns]: estimates of outer persistent kernels against their times. [rows]: the same for
  // gradients of layer norms, and their machine code (docs/measurements/normalizations.md, backward
  // norms). [stream]: pointwise kernels (docs/measurements/schedule_constants.md). [scatter]:
  // scatters by a thread for each row. [products]: docs/measurements/products.md. [hand]: what
  // seemed right, and was not varied by itself. [choices]: not measured by itself; the estimate
  // chooses what was measured to be fast with it. [host]: not of a GPU, a copy of 256 MB by one
  // thread with AVX-512, best of 12.

  // Read and written, bytes/us: 90 % of what clock and width of the memory give [copy].
  double memory_bandwidth = 4.425e6;
  static constexpr double kHostCoreBandwidth = 2e4; // bytes/us, of a core [host]
  static constexpr double kHostElement = 1e-3;      // us, of an element that a core copies [hand]
  double l2_speed = 1.5;                            // by the bandwidth of memory [columns]
  // Bytes of a tensor up to which torch's allocator takes it from memory that small ones share
  // (kSmallSize in c10/core/AllocatorConfig.h).
  int64_t small_request = 1 << 20;
  double l2_kept = 0.5;            // of what L2 holds, that the next kernel finds there [hand]
  double lone_sm_speed = 2;        // bandwidth of an SM that is alone, by its share [columns]
  double busy_bytes = 40 << 10;    // under way on an SM that has its share of bandwidth [columns]
  int64_t wanted_bytes = 64 << 10; // that kernels request of an SM at once; more slows [stream]
  // Share of the bandwidth that accesses get of which so many bytes lie next to each other.
  struct RunShare {
    int64_t bytes;
    double share;
  };
  std::array<RunShare, 4> run_shares = {{{0, 0.3}, {32, 0.65}, {64, 0.87}, {128, 1}}}; // [columns]
  double kernel_start = 4; // us, that a kernel more takes [columns]
  double load_wait = 0.2;  // us, of a thread that copies elements one after the other [scatter]
  double block_wait = 0.7; // us, a cross-thread reduction of a block [columns]
  double cluster_wait_of_byte =
      0.06;                       // us, for a byte of a result and a block of the cluster [columns]
  double grid_wait = 3;           // us, a grid-wide synchronization [columns]
  double one_block_slower = 1.3;  // factor of memory's time, of one block on an SM [columns]
  double two_blocks_slower = 1.1; // of two [columns]
  double small_blocks_slower = 1.1;     // of blocks of fewer than the usual threads [columns]
  double cluster_block_slower = 0.0125; // and that much more for a block of a cluster [columns]
  double iteration_wait = 1;  // us, of persistent blocks, at the barriers of each iteration [rows]
  double issue_cycles = 2.67; // of an instruction of a warp, of a scheduler that has few [rows]
  double block_start = 0.09;  // us, until an SM starts the next block; of empty ones 0.085 [stream]
  // Of blocks that wait for nothing but memory.
  double crowded_slower = 0.02;     // factor of memory's time, for twice the wanted bytes [stream]
  int64_t streaming_registers = 32; // of a thread, beside what it has loaded [choices]
  double start_instructions = 15;   // of a thread, for its first indices [choices]
  double step_instructions = 2;     // of an access, and of an element of it [choices]
  double dependent_cycles = 6;      // of an instruction of a warp that is alone [hand]
  double exposed_share = 0.5;   // of the instructions' time, in which memory has to wait [choices]
  int64_t other_registers = 40; // of a thread, beside the elements it keeps [rows]
  // Of products of 16-bit matrices by a library, operations/us: if all rows are a multiple of 16
  // bytes; if those of the result, or of an operand, are an odd number of elements; and how much
  // faster they are of an even one [products].
  double product_speed = 4e8;
  double odd_result_speed = 0.6e8;
  double odd_operand_speed = 1e8;
  double narrow_product_speed = 1.5;     // factor
  double product_bandwidth = 3.5e6;      // bytes/us
  int64_t shared_for_results = 16 << 10; // bytes of a block, for cross-thread reductions [hand]

  // --- what follows ---

  // Blocks with a warp for each scheduler of an SM, with two, and with four: larger ones leave no
  // room for another block with registers for a row, which would load while one waits.
  constexpr int64_t fewThreads() const {
    return schedulers_per_sm * kWarp;
  }
  constexpr int64_t usualThreads() const {
    return 2 * fewThreads();
  }
  constexpr int64_t largeThreads() const {
    return 4 * fewThreads();
  }
  // Threads of an SM that keep its memory busy, and the bytes that each of them requests at once.
  constexpr int64_t busyThreads() const {
    return 2 * largeThreads();
  }
  constexpr int64_t bytesOfThread() const {
    return wanted_bytes / busyThreads();
  }
  // Of so many threads each, that the SMs have slots for.
  constexpr int64_t blocksAtOnce(int64_t threads) const {
    return sms * std::max<int64_t>(max_threads_per_sm / threads, 1);
  }
  // Of the host: elements that a core works on at once, several vectors, as an addition takes
  // several cycles, and no more than stay in registers; and blocks of a kernel, a few for each
  // core, so that all cores finish at about the same time.
  constexpr int64_t lanesAtOnce() const {
    return 4 * lanes;
  }
  constexpr int64_t blocksOfCores() const {
    return 4 * sms;
  }
  // Of a core's cache that is for what a row computes: the rest is for what it reads [hand].
  constexpr int64_t cacheForRow() const {
    return core_cache_bytes / 8;
  }
  // Elements of 4 bytes that each of them keeps: the other half of its registers is for the rest.
  constexpr int64_t elementsOfThread() const {
    return registers_per_sm / busyThreads() / 2;
  }
  // With guards or sums of columns beside them.
  constexpr int64_t fewerElements() const {
    return elementsOfThread() * 3 / 4;
  }
  // Bytes that the next kernel does not read of memory again.
  constexpr double keptInL2() const {
    return l2_kept * static_cast<double>(l2_bytes);
  }
  // Of the host: bytes that stay in a core's cache while it works on them, and those that do so
  // while rows stream through it as well [hand].
  constexpr int64_t keptInCore() const {
    return core_cache_bytes / 2;
  }
  constexpr int64_t keptBesideRows() const {
    return keptInCore() / 2;
  }
  // Bytes of shared memory for so many, with the padding that avoids bank conflicts.
  static constexpr int64_t withPadding(int64_t bytes) {
    return bytes + bytes / 8;
  }
  // Bytes of a block's shared memory that tensors may lie in.
  constexpr int64_t sharedForTensors() const {
    return max_shared_per_block - shared_for_results;
  }
};

} // namespace nvfuser
