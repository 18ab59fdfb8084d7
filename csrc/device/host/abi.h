// SPDX-License-Identifier: BSD-3-Clause
// What a compiled host kernel and the runtime say to each other. This text is both a piece of the
// device library (it is part of every host kernel) and a header that host/simt.h includes,
// so it uses built-in types only. Change kNvfHostAbi when the layout changes.
#pragma once

//@ piece NvfHostDim NvfHostThread NvfHostCopy NvfHostServices NvfHostLaunch NvfHostKernel
// kNvfHostAbi
constexpr unsigned kNvfHostAbi = 5;
constexpr unsigned kNvfHostUsesBarriers = 1;   // threads of a block synchronize: they run as fibers
constexpr unsigned kNvfHostAdversarial = 2;    // compiled with the checks of the adversarial mode
constexpr unsigned kNvfHostUsesPhases = 4;     // a thread may wait for an mbarrier
constexpr unsigned kNvfHostThreadsInLoops = 8; // run_blocks loops over the threads of a block

struct NvfHostDim {
  unsigned x, y, z;
};

// Where the running thread is.
struct NvfHostThread {
  NvfHostDim thread, block, block_dim, grid_dim;
  unsigned cluster_rank, cluster_blocks;
};

// An asynchronous copy. What waits for it is an mbarrier if there is one, else a group of copies of
// the thread: kNvfHostSmallCopies (cp.async) or kNvfHostBulkCopies (cp.async.bulk).
constexpr unsigned kNvfHostSmallCopies = 0;
constexpr unsigned kNvfHostBulkCopies = 1;
struct NvfHostCopy {
  void (*run)(const void* argument);
  const void* argument; // copied, to where a TensorMap may be
  unsigned argument_bytes;
  unsigned group;
  void* barrier;           // the mbarrier that counts the bytes, or null
  void* to_shared;         // shared memory that is written, or null
  const void* from_shared; // shared memory that is read, or null
  unsigned bytes;          // of shared memory
};

// What the runtime offers to a running kernel. `line` is the line of the kernel text.
struct NvfHostServices {
  void (*sync_block)(int line);
  // Adversarial mode: an access to memory that is (or, if not must_be_shared, may be) shared
  // memory.
  void (*access)(const void* address, unsigned bytes, bool is_write, bool must_be_shared, int line);
  void (*fail)(const char* message, int line); // ends the thread that calls it
  const NvfHostThread* (*thread)();
  // What each thread of the block gave most recently, by its number in the block. Complete after
  // the next meeting.
  void** (*exchange)(void* mine);
  // Waits for all threads of the block, but is no barrier to the race check.
  void (*meet_block)(int line);
  // The same for the cluster. exchange() has the threads of block 0 of the cluster at
  // -cluster_rank * threads of a block.
  void (*sync_cluster)(int line);
  void (*meet_cluster)(int line);
  // The same place in the shared memory of another block of the cluster.
  void* (*map_shared)(const void* address, unsigned rank);
  void (*sync_warp)(int line);
  // mbarriers: PTX ISA, "Asynchronous barriers". An arrival adds `expected_bytes` to what copies
  // have to bring before the phase completes.
  void (*barrier_init)(void* barrier, unsigned count, int line);
  void (*barrier_arrive)(void* barrier, unsigned count, unsigned expected_bytes, int line);
  bool (*barrier_test)(void* barrier, unsigned parity, int line);
  void (*barrier_wait)(void* barrier, unsigned parity, int line);
  void (*copy)(const NvfHostCopy* copy, int line);
  void (*commit_copies)(unsigned group);
  // Until at most `pending` groups of the thread are under way.
  void (*wait_for_copies)(unsigned group, unsigned pending);
  // Arrives at the barrier when all small copies of the thread so far are complete.
  void (*arrive_after_copies)(void* barrier, int line);
  // The thread's writes to shared memory so far may be read by bulk copies.
  void (*fence_copies)();
  // sync_block and meet_block of `count` threads of the block: whichever call it.
  void (*sync_threads)(unsigned count, int line);
  void (*meet_threads)(unsigned count, int line);
  // Adversarial mode: an access to global memory through which blocks that synchronize exchange
  // values.
  void (*access_global)(const void* address, unsigned bytes, bool is_write, int line);
};

struct NvfHostLaunch {
  NvfHostDim grid, block;
  const NvfHostServices* services;
};

// The object that a kernel's symbol names. Kernel arguments are passed as cuLaunchKernel takes
// them: args[i] points to the i-th parameter.
struct NvfHostKernel {
  unsigned abi, flags, max_threads, parameter_count;
  // Runs whole blocks [first, end), x fastest, threads one after the other. Not for barrier
  // kernels.
  void (*run_blocks)(const NvfHostLaunch* launch, void** args, unsigned long long first,
                     unsigned long long end, char* shared);
  // Runs one thread of one block.
  void (*run_thread)(const NvfHostLaunch* launch, void** args, NvfHostDim block, NvfHostDim thread,
                     char* shared);
};
