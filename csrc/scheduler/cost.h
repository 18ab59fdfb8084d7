// SPDX-License-Identifier: BSD-3-Clause
// The estimate that schedulers share: how long a kernel takes whose blocks have a given tile, on a
// given machine, in microseconds. Schedulers enumerate tiles and take the fastest.
//
// Memory takes what its bandwidth allows, less where few bytes are requested at once, accesses are
// short, or the last wave of blocks leaves SMs idle. Threads wait for each other on top of that,
// unless other blocks of the SM load meanwhile; persistent blocks, which take many tiles, load the
// next one while they work on one, so that the longer of both counts. Blocks whose threads wait for
// nothing but memory have some instructions in between, and the last ones load with few others.
#pragma once

#include <machine.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nvfuser {

// A choice of more blocks that wait for each other must take so much less [columns, see machine.h].
inline constexpr double kClearlyLess = 0.95;
// One of threads with more to do must take so much less [choices, see machine.h].
inline constexpr double kWorthMore = 0.9925;

// What a block has at a time, and how many there are.
struct Tile {
  enum class Scope : uint8_t { Block, Cluster, Grid };

  int64_t threads = 1;      // of a block
  int64_t registers = 32;   // of a thread
  int64_t shared_bytes = 0; // of a block
  int64_t blocks = 1;       // of the grid
  // Bytes that a block reads of it before it waits, and that lie next to each other in memory.
  double requested_bytes = 0;
  int64_t run_bytes = 128;
  // Lines that the accesses of its warps touch, of which an SM delivers one in a cycle.
  double lines = 0;
  // So often one after the other, with so many instructions of a thread in all.
  int64_t iterations = 1;
  double instructions = 0;
  // Results that threads combine: within a block, or also those of all blocks of a cluster or grid
  // that share it. So many in all (`results` for each group of sharing blocks, of `result_bytes`),
  // as often as some depend on others. 0: other blocks load while some combine their results.
  Scope scope = Scope::Block;
  int64_t sharing = 1;
  int64_t results = 1;
  int64_t result_bytes = 4;
  int64_t reductions = 1;
};

// What all blocks together read and write of memory.
struct Traffic {
  double read = 0;
  double written = 0;
};

// Lines that a warp touches for a vector of each of its threads, `bytes` of all inputs: `threads`
// of them have neighbouring ones of the same row of `row` bytes.
double linesOfWarp(int64_t threads, double bytes, double row, const MachineModel& machine);
// Until so many blocks have started, side by side on all SMs.
double microsecondsOfStarts(int64_t blocks, const MachineModel& machine);
// Registers of a thread that keeps so many, beside those that everything else takes, and a unit
// more than can be counted.
int64_t registersBeside(int64_t kept, const MachineModel& machine);
// Of one that has loaded so many bytes before it uses them.
int64_t registersHolding(int64_t bytes, const MachineModel& machine);
// Of a thread that makes so many accesses, of so many elements in all.
double instructionsOf(int64_t accesses, int64_t elements, const MachineModel& machine);
// That a thread can have if so many of them are on an SM; they lie with the warps' schedulers.
int64_t registersOfThread(int64_t threads_of_sm, const MachineModel& machine);
// Blocks that an SM has room for; 0: not one.
int64_t blocksOfSm(const Tile& tile, const MachineModel& machine);
// Clusters of `size` blocks (a power of two) that run at once, with an SM for each block.
int64_t residentClusters(int64_t size, const MachineModel& machine);

// Of the whole kernel; 0 if it cannot run.
double microseconds(const Tile& tile, const Traffic& traffic, const MachineModel& machine);
// Position of the fastest. Those come first whose threads have less to do.
size_t fastestOf(const std::vector<Tile>& tiles, const Traffic& traffic,
                 const MachineModel& machine);
// Of reading the inputs again for each of so many more kernels, and starting these.
double microsecondsOfKernels(int64_t more, const Traffic& traffic, const MachineModel& machine);

// One iteration of persistent blocks, one on each SM: what they read (half of that is written as
// well), and the instructions of a thread. Of an SM.
double microsecondsOfIteration(int64_t threads, int64_t bytes, double instructions,
                               const MachineModel& machine);

// How 32 threads that are neighbours access the positions of a row: each has a vector of them, and
// one access takes as many as lie next to each other in memory, if all tensors' vectors do.
struct AccessAlong {
  int64_t bytes = 4;        // of an element
  int64_t width = 1;        // elements that an access may take
  int64_t stride_bytes = 4; // from one position to the next
  bool from_memory = true;  // else from caches, since others have read it
};
// The widest vector, or the one that takes least time where an SM's first cache would deliver lines
// for longer than memory does.
int64_t vectorOf(const std::vector<AccessAlong>& accesses, int64_t widest,
                 const MachineModel& machine);

// A scatter: rows along the scattered axis, their elements, and the positions of each that are
// written.
struct ScatterSizes {
  int64_t rows = 1;
  int64_t row_length = 1;
  int64_t positions = 1;
  int64_t element_bytes = 4;
  // Elements of neighbouring rows are neighbours in memory.
  bool rows_are_neighbours = false;
  // The tensor is copied before its elements are written, unless a kernel makes it anyway.
  bool is_copied = true;
  // Than if a thread had each row, which reads positions and what is written from memory.
  int more_kernels = 1;
};
// Whether memory that is filled and a kernel for the positions take less time than one thread for
// each row.
bool isFasterInPlace(const ScatterSizes& sizes, const MachineModel& machine);

} // namespace nvfuser
