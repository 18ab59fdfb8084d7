// SPDX-License-Identifier: BSD-3-Clause
// Host memory of tensors. What the system gives out for the first time it clears first, page by
// page, which takes longer than writing it; so long blocks are kept when they are freed, and given
// out again. The system may take the pages of kept blocks whenever it needs them.
#pragma once

#include <cstddef>
#include <memory>

namespace nvfuser {

inline constexpr size_t kHostAlignment = 64;

// Blocks of so many bytes and more come from the pool, shorter ones from malloc.
inline constexpr size_t kPooledBytes = 1 << 20;

// Uninitialized, aligned to kHostAlignment; null if the system has no memory left. The pool keeps
// at most an eighth of the machine's memory; NVFUSER_DISABLE=host_memory_pool gives every block
// back when it is freed. Any thread may allocate and free.
std::shared_ptr<void> allocateHostMemory(size_t bytes);

// Of blocks that are free.
size_t keptHostMemory();
// Gives them back to the system.
void releaseHostMemory();

} // namespace nvfuser
