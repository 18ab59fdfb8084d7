// SPDX-License-Identifier: BSD-3-Clause
// Threads for the kernels of the host: torch's, or workers of our own.
#pragma once

#include <cstdint>
#include <functional>

namespace nvfuser {

// Calls task(begin, end) for pieces of [0, count) of at most `chunk` items, on the calling thread
// and others, and returns when all are done. Callers may be concurrent; tasks must not throw and
// must not call this function. The others are workers of our own, which start at the first call
// that has use for them, anew in a forked child; or, where SharedThreads says so, the threads of
// OpenMP. Within a parallel region of OpenMP the calling thread does all.
void parallelChunks(uint64_t count, uint64_t chunk,
                    const std::function<void(uint64_t, uint64_t)>& task);

// While it lives, calls of parallelChunks() from this thread run on the threads of the process's
// OpenMP runtime, `count` at most: a library that uses them too (torch) allows that many. Two sets
// of threads, each waiting for work in a loop, would take the cores from each other. Without such a
// runtime, with NVFUSER_HOST_THREADS and in a forked child they run on workers of our own.
class SharedThreads {
 public:
  explicit SharedThreads(unsigned count);
  ~SharedThreads();
  SharedThreads(const SharedThreads&) = delete;
  SharedThreads& operator=(const SharedThreads&) = delete;

 private:
  unsigned outer_;
};

// NVFUSER_HOST_THREADS, else the number of CPUs this process may use. Error: the variable is no
// number between 1 and 1024.
unsigned hostThreadCount();

// How many threads a call of parallelChunks() from this thread may use.
unsigned launchThreadCount();

} // namespace nvfuser
