// See large_pages.h.
#include <host/large_pages.h>

#include <sys/mman.h>

#include <cstdint>

namespace nvfuser {

void preferLargePages([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kLargePage = 2 << 20;
  const auto first = (reinterpret_cast<uintptr_t>(data) + kLargePage - 1) / kLargePage * kLargePage;
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) / kLargePage * kLargePage;
  if (first < end) {
    ::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE); // a hint: may fail
  }
#endif
}

} // namespace nvfuser
