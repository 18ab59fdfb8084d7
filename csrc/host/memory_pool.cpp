// SPDX-License-Identifier: BSD-3-Clause
// See memory_pool.h.
#include <host/memory_pool.h>

#include <base/integer_math.h>
#include <base/options.h>
#include <host/sanitizers.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

namespace nvfuser {

namespace {

constexpr size_t kLargePage = 2 << 20;

size_t mostKept() {
  static const size_t bytes = static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) *
                              static_cast<size_t>(::sysconf(_SC_PAGESIZE)) / 8;
  return bytes;
}

// In pages of 4 KB, giving out memory takes longer than writing it.
void* newBlock(size_t bytes) {
  void* data = std::aligned_alloc(kLargePage, bytes);
#ifdef MADV_HUGEPAGE
  if (data != nullptr) {
    ::madvise(data, bytes, MADV_HUGEPAGE); // a hint: may fail
  }
#endif
  return data;
}

struct Block {
  void* data = nullptr; // null if the system has no memory left
  size_t bytes = 0;
};

class MemoryPool {
 public:
  Block take(size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      const auto fits = free_.lower_bound(bytes);
      if (fits != free_.end() && fits->first <= bytes + bytes / 4) {
        // Of equal ones the one that was freed last: more of it may be in the cache.
        return takeFree(std::prev(free_.upper_bound(fits->first)));
      }
    }
    void* data = newBlock(bytes);
    if (data == nullptr) {
      release();
      data = newBlock(bytes);
    }
    return {data, bytes};
  }

  void give(Block block) {
#ifdef MADV_FREE
    ::madvise(block.data, block.bytes, MADV_FREE);
#endif
    const std::lock_guard lock(mutex_);
    free_.emplace(block.bytes, Freed{block.data, ++times_});
    kept_ += block.bytes;
    while (kept_ > mostKept()) {
      std::free(takeFree(oldest()).data);
    }
  }

  void release() {
    const std::lock_guard lock(mutex_);
    while (!free_.empty()) {
      std::free(takeFree(free_.begin()).data);
    }
  }

  size_t kept() {
    const std::lock_guard lock(mutex_);
    return kept_;
  }

 private:
  struct Freed {
    void* data = nullptr;
    uint64_t time = 0;
  };
  using Blocks = std::multimap<size_t, Freed>;

  Blocks::iterator oldest() {
    return std::ranges::min_element(free_, {}, [](const auto& each) { return each.second.time; });
  }

  Block takeFree(Blocks::iterator at) {
    const Block block = {at->second.data, at->first};
    kept_ -= block.bytes;
    free_.erase(at);
    return block;
  }

  std::mutex mutex_;
  Blocks free_; // by bytes; equal ones in the order in which they were freed
  size_t kept_ = 0;
  uint64_t times_ = 0;
};

// Never destroyed: tensors may outlive static variables.
MemoryPool& pool() {
  static auto* pool = new MemoryPool();
  return *pool;
}

} // namespace

std::shared_ptr<void> allocateHostMemory(size_t bytes) {
  static const bool poison = environmentInt("NVFUSER_POISON_MEMORY", 0) != 0;
  const bool large = bytes >= kPooledBytes;
  const auto rounded =
      static_cast<size_t>(roundUp(std::max<int64_t>(static_cast<int64_t>(bytes), 1),
                                  static_cast<int64_t>(large ? kLargePage : kHostAlignment)));
  const bool pooled = large && !isOptionDisabled(DisableOption::HostMemoryPool);
  const Block block = pooled  ? pool().take(rounded)
                      : large ? Block{newBlock(rounded), rounded}
                              : Block{std::aligned_alloc(kHostAlignment, rounded), rounded};
  if (block.data == nullptr) {
    return nullptr;
  }
  if (poison) {
    sanitizerLimit(block.data, rounded, rounded);
    std::memset(block.data, 0xff, rounded);
  }
  sanitizerLimit(block.data, rounded, bytes);
  if (pooled) {
    return {block.data, [block](void*) { pool().give(block); }};
  }
  return {block.data, std::free};
}

size_t keptHostMemory() {
  return pool().kept();
}

void releaseHostMemory() {
  pool().release();
}

} // namespace nvfuser
