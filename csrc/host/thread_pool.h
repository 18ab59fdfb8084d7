// Persistent worker threads for the host target.
#pragma once

#include <cstdint>
#include <functional>

namespace nvfuser {

// Calls task(begin, end) for pieces of [0, count) of at most `chunk` items, on the calling thread
// and the pool's workers, and returns when all are done. Callers may be concurrent; tasks must not
// throw and must not call this function. Workers start at the first call that has use for them,
// anew in a forked child.
void parallelChunks(uint64_t count, uint64_t chunk,
                    const std::function<void(uint64_t, uint64_t)>& task);

// NVFUSER_HOST_THREADS, else the number of CPUs this process may use. Error: the variable is no
// number between 1 and 1024.
unsigned hostThreadCount();

} // namespace nvfuser
