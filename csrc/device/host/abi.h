// What a compiled host kernel and the runtime say to each other. This text is both a piece of the
// device library (it is part of every host kernel) and a header that runtime/host_simt.h includes,
// so it uses built-in types only. Change kNvfHostAbi when the layout changes.
#pragma once

//@ piece NvfHostDim NvfHostThread NvfHostServices NvfHostLaunch NvfHostKernel kNvfHostAbi
constexpr unsigned kNvfHostAbi = 2;
constexpr unsigned kNvfHostUsesBarriers = 1; // threads of a block meet: they must run as fibers
constexpr unsigned kNvfHostAdversarial = 2;  // compiled with the checks of the adversarial mode

struct NvfHostDim {
  unsigned x, y, z;
};

// Where the running thread is.
struct NvfHostThread {
  NvfHostDim thread, block, block_dim, grid_dim;
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
