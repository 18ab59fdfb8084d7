// SPDX-License-Identifier: BSD-3-Clause
// What the sanitizers of a process want to know and cannot see for themselves: their functions are
// there where the process runs one (of these kernels alone: NVFUSER_HOST_SANITIZE), else null.
#pragma once

#include <cstddef>

// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
// AddressSanitizer: which stack is in use.
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** save, const void* bottom,
                                                          size_t size);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* save, const void** old_bottom,
                                                           size_t* old_size);
// AddressSanitizer: what nobody may access.
__attribute__((weak)) void __asan_poison_memory_region(const volatile void* begin, size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* begin, size_t bytes);
// ThreadSanitizer: which fiber runs, and who waits for whom.
__attribute__((weak)) void* __tsan_get_current_fiber();
__attribute__((weak)) void* __tsan_create_fiber(unsigned flags);
__attribute__((weak)) void __tsan_destroy_fiber(void* fiber);
__attribute__((weak)) void __tsan_switch_to_fiber(void* fiber, unsigned flags);
__attribute__((weak)) void __tsan_acquire(void* address);
__attribute__((weak)) void __tsan_release(void* address);
}
// NOLINTEND(bugprone-reserved-identifier)

namespace nvfuser {

// What comes before a release() comes before what follows an acquire() of the same address. Says
// so of code that is not instrumented itself, and does nothing else.
inline void sanitizerRelease(void* address) {
  if (__tsan_release != nullptr) {
    __tsan_release(address);
  }
}
inline void sanitizerAcquire(void* address) {
  if (__tsan_acquire != nullptr) {
    __tsan_acquire(address);
  }
}

// Of a block, only the first bytes may be accessed.
inline void sanitizerLimit(void* block, size_t block_bytes, size_t bytes) {
  if (__asan_poison_memory_region != nullptr) {
    __asan_unpoison_memory_region(block, bytes);
    __asan_poison_memory_region(static_cast<char*>(block) + bytes, block_bytes - bytes);
  }
}

} // namespace nvfuser
