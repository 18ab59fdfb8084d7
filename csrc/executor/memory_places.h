// SPDX-License-Identifier: BSD-3-Clause
// Where the tensors of a plan lie, and when their memory is there. Two that are never needed at the
// same time may lie in the same place; one that is read for the last time before a result is
// written may lie in the memory of that result; and what is computed element by element may be
// written over what it is computed of.
//
// A call asks for little memory at a time in one of two ways. All results and one block for the
// rest, at the start: fewest requests. Or each tensor when it is written: the least that these
// steps in this order can do with, as a library takes memory of its own while they run, and what is
// read for the last time early leaves room for results that come late.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nvfuser {

class LaunchPlan;
struct OutputShape;

// A tensor in memory from its first to its last use, counted in steps of the plan.
struct TensorLifetime {
  size_t bytes;
  size_t first_use;
  size_t last_use;
};

// Memory that is free before a step uses it, and, if steps write it part by part, each part before
// its own.
struct FreeMemory {
  struct Part {
    size_t offset; // bytes
    size_t bytes;
    size_t first_use;
  };
  size_t bytes;
  size_t first_use;
  std::vector<Part> parts = {}; // all of it; empty: one
};

struct MemoryPlaces {
  static constexpr size_t kSharedBlock = SIZE_MAX;
  struct Place {
    size_t memory; // position among what is free, or kSharedBlock
    size_t offset; // bytes, a multiple of kPlaceAlignment
  };
  std::vector<Place> places; // of each tensor
  size_t shared_bytes = 0;   // of the block
};

constexpr size_t kPlaceAlignment = 256;

// The largest tensors are placed first, each as low as it fits (Y. Pisarchyk and J. Lee, "Efficient
// Memory Management for Deep Neural Net Inference", 2020: greedy by size).
MemoryPlaces placeTensors(std::span<const TensorLifetime> tensors,
                          std::span<const FreeMemory> free);

// Of the memory of a result or an intermediate tensor.
size_t bytesOf(const OutputShape& shape);

// Memory for all that a plan's steps write, after its steps and results are known.
void assignMemory(LaunchPlan& plan);

// Bytes that a call has at its peak: results, intermediate tensors, and what the kernel with the
// largest workspace needs. What a library takes for itself while it runs is not in it.
int64_t peakBytes(const LaunchPlan& plan);

} // namespace nvfuser
