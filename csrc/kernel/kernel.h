// SPDX-License-Identifier: BSD-3-Clause
// Kernel: a lowered fusion: kernel parameters, a tree of statements, and what the launcher must
// know to launch it safely. Made by lower/, printed by codegen/, launched by
// runtime/kernel_executor.
#pragma once

#include <fusion.h>
#include <kernel/nodes.h>

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser {

// One parameter of the kernel, in order.
struct KernelParam {
  enum class Kind {
    Tensor,     // a fusion input or output; `val` is the TensorView
    Scalar,     // an input, or what the launch computes from sizes; passed with `dtype`
    RngSeed,    // uint64_t seed of the generator (stateful random ops)
    RngOffset,  // uint64_t base offset of the generator (in units of 4 numbers, one Philox block)
    Workspace,  // char*: `size` bytes of device memory for the launch, aligned to 256
    Semaphores, // unsigned*: `size` counters, zero at launch; the kernel leaves them zero
    TensorMap,  // number `map` of tensor_maps, made from the tensor's actual sizes and strides
  };
  Kind kind;
  Val* val = nullptr;
  DataType dtype = DataType::Null;
  std::string name;                   // as in the kernel text: T0, d3
  std::vector<const Val*> equal = {}; // scalars that have the same value as `val`
  // Ranks of the Tensor struct: number of logical (non-reduction) and allocation dimensions.
  int logical_rank = 0;
  int alloc_rank = 0;
  Val* size = nullptr; // of a Workspace or Semaphores, over the fusion inputs' extents
  int map = -1;
};

// The boxes in which a tensor in global memory is copied: what the hardware is told about it.
struct TensorMapInfo {
  TensorView* tv = nullptr;
  // One dimension: neighbours in memory, which are contiguous, outermost first, as positions in the
  // tensor's allocation domain without reductions.
  struct Dim {
    std::vector<size_t> memory;
    int64_t box = 1;
  };
  std::vector<Dim> dims; // the fastest first
  int swizzle = 0;       // log2 of its width in units of 16 bytes; 0: none
};

// Buffers in shared memory that asynchronous copies fill together, once in every iteration of the
// loops around.
struct AsyncBuffer {
  std::vector<TensorView*> tensors;
  // Iteration i fills slot i % stages, `distance` iterations before it is read.
  int64_t stages = 1;
  int64_t distance = 0;
  // Bulk copies are counted by mbarriers: `stages` of them say that a buffer is full; where there
  // is more than one buffer, as many say that it is empty. Other copies are waited for by the
  // thread that issued them.
  bool bulk = false;
  int64_t stage_bytes = 0;
  Val* bytes = nullptr; // that the copies of an iteration bring
  // Or it is only known copy by copy: each tells the mbarrier itself, and every thread that issues
  // copies, `issuers` of them, arrives when it has issued its last one.
  bool counts_by_copy = false;
  Val* issuers = nullptr;
  Val* barriers = nullptr;  // byte offset of the mbarriers in shared memory
  Val* iteration = nullptr; // number of the iteration
  int loop = -1;            // whose body has the buffers (loopId()); -1: the kernel's
  int iteration_loop = -1;  // the innermost loop around that is printed as one; -1: none

  bool isCircular() const {
    return stages > 1;
  }
  std::string toString() const;
};

// Threads beyond those of the schedule that do nothing but load: the extents of the schedule, and
// after them `extra` layers along one thread dimension.
struct LoadWarps {
  ParallelType type = ParallelType::Serial;
  int64_t extra = 0;
  int64_t load_threads = 0;
  int64_t compute_threads = 0;
  // Registers of each loading and each computing thread; 0: as the compiler decides.
  int64_t load_registers = 0;
  int64_t compute_registers = 0;
  bool exist() const {
    return extra > 0;
  }
};

// A vector access assumes that the pointer and all strides but the innermost are multiples of
// `width` elements, and that the innermost stride is 1. Checked at launch.
struct VectorAccess {
  TensorView* tv; // fusion input or output
  int width;      // elements
};

// `value % factor == 0` is assumed by the kernel; checked at launch. (Split by a vector width.)
struct DivisibilityCheck {
  Val* value;
  Val* factor;
  std::string what; // for the error message
};

// The loops that a tensor in global memory is written in, but for those that certainly iterate.
// Some may run over dimensions that it does not have itself: where one of them is empty, nothing is
// written of a tensor that has elements. Checked at launch.
struct StoreLoops {
  const TensorView* tv;
  std::vector<Val*> extents;
};

// How a kernel goes with the ones before and after it in its stream. (CUDA C++ programming guide,
// "Programmatic Dependent Launch".)
struct KernelOrder {
  // It may be started before the previous one is through, and waits for that itself.
  bool waits_for_previous = false;
  // Inputs, a bit for each of the first 64, that no kernel of the call writes: they are read before
  // the wait.
  uint64_t early_inputs = 0;
  // The next one, which waits, may be started as soon as there is room: once this one has waited.
  bool lets_next_start = false;
  // The last block has the first work: what the previous one read last is still in the cache.
  bool reverses_blocks = false;
  bool operator==(const KernelOrder&) const = default;
};

// One thread of the host runs a block: what its threads do between two barriers stands in loops
// over them (ThreadLoop).
struct ThreadLoops {
  bool exist = false;
  std::array<int64_t, 3> extents = {1, 1, 1}; // of the block
  // Registers that the threads keep from one such loop to another, and how they lie in memory.
  enum class Layout {
    ByElement, // next to each other: one element of all threads
    ByThread   // all elements of one thread, which are accessed as vectors
  };
  std::unordered_map<const TensorView*, Layout> registers;
  // As many bytes of one tensor as the processor's registers hold beside others. Compilers keep
  // those that are accumulated in a loop there; more lie in memory.
  static constexpr int64_t kMostProcessorBytes = 1024;
  // Of those in memory, which loops access beside accumulators (lower/registers_apart.cpp).
  std::unordered_set<const TensorView*> apart;
  // They lie on the stack of the thread that runs the block.
  static constexpr int64_t kMostRegisterBytes = 512 << 10;
  int64_t register_bytes = 0;

  int64_t threads() const {
    return extents[0] * extents[1] * extents[2];
  }
};

class Kernel : public Fusion {
 public:
  // Statements of the kernel body, in order.
  std::vector<Expr*> top_level;
  std::vector<KernelParam> params;
  DataType index_type = DataType::Int32; // Int32 or Int

  // Launch extents of the parallel types that are used; scalars over fusion inputs' extents.
  std::map<ParallelType, Val*> parallel_extents;
  // Blocks of a cluster along BIDx, BIDy, BIDz: constants that divide the grid's extents. Empty: no
  // clusters.
  std::map<ParallelType, Val*> cluster_extents;
  // Dynamic shared memory in bytes; null if none.
  Val* shared_bytes = nullptr;
  // Global memory in bytes, and counters that are 0 at launch and afterwards, that reductions
  // over the grid work with; null if there are none.
  Val* workspace_bytes = nullptr;
  Val* num_semaphores = nullptr;
  // Blocks synchronize over the grid: all of them must run at the same time.
  bool synchronizes_grid = false;
  // Byte offset in shared memory of the two mbarriers that count partial results within a cluster.
  Val* cluster_barriers = nullptr;
  bool counts_cluster_phases = false;
  KernelOrder order;
  std::vector<const TensorView*> bulk_copied; // in global memory
  std::vector<TensorMapInfo> tensor_maps;
  std::vector<AsyncBuffer> async_buffers;
  LoadWarps load_warps;
  ThreadLoops thread_loops;
  bool has_block_sync = false;
  bool has_stateful_rng = false;
  std::vector<VectorAccess> vector_accesses;
  // Registers that vectors are loaded into which begin anywhere in memory, even before the tensor,
  // or shared memory that they are copied to, and the extent of that tensor, which has one
  // dimension. In shared memory lie the vectors of the tensor that hold them, one more than there
  // are vectors of the row.
  std::unordered_map<const TensorView*, Val*> unaligned_loads;
  // Of such registers: whether an iteration's vector is known to lie within the tensor; null: that
  // is not known of any.
  std::unordered_map<const TensorView*, Val*> whole_vectors;
  // Registers that are loaded from such shared memory: where in the tensor their vectors begin.
  std::unordered_map<const TensorView*, Val*> shifted_loads;
  std::vector<DivisibilityCheck> divisibility_checks;
  std::vector<StoreLoops> store_loops;

  // Original nodes -> nodes of this kernel (the kernel owns a copy of the fusion).
  Val* mapped(const Val* original) const {
    auto it = from_fusion.find(original);
    return it == from_fusion.end() ? nullptr : it->second;
  }
  std::unordered_map<const Val*, Val*> from_fusion;

  // The whole kernel as IR text (NVFUSER_DUMP=kernel_ir).
  std::string toString() const;
};

} // namespace nvfuser
