// SPDX-License-Identifier: BSD-3-Clause
// The pool of host memory: what is freed is given out again, where it fits.
#include <base/options.h>
#include <host/memory_pool.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace nvfuser {
namespace {

constexpr size_t kMegabyte = 1 << 20;

TEST(HostMemoryPool, FreedBlocksAreGivenOutAgain) {
  releaseHostMemory();
  const void* first = allocateHostMemory(8 * kMegabyte).get();
  EXPECT_EQ(keptHostMemory(), 8 * kMegabyte);
  const auto again = allocateHostMemory(7 * kMegabyte);
  EXPECT_EQ(again.get(), first);
  EXPECT_EQ(keptHostMemory(), 0u);
  EXPECT_NE(allocateHostMemory(8 * kMegabyte).get(), first) << "is in use";
}

TEST(HostMemoryPool, ABlockIsNotUsedForMuchLess) {
  releaseHostMemory();
  const void* large = allocateHostMemory(64 * kMegabyte).get();
  EXPECT_NE(allocateHostMemory(2 * kMegabyte).get(), large);
  EXPECT_EQ(keptHostMemory(), 66 * kMegabyte);
  releaseHostMemory();
  EXPECT_EQ(keptHostMemory(), 0u);
}

TEST(HostMemoryPool, OfEqualBlocksTheOneThatWasFreedLastComesFirst) {
  releaseHostMemory();
  auto a = allocateHostMemory(2 * kMegabyte);
  auto b = allocateHostMemory(2 * kMegabyte);
  const void* last = a.get();
  b.reset();
  a.reset();
  EXPECT_EQ(allocateHostMemory(2 * kMegabyte).get(), last);
}

TEST(HostMemoryPool, ShortBlocksAreNotKept) {
  releaseHostMemory();
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1000}, kPooledBytes - 1}) {
    const auto block = allocateHostMemory(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.get()) % kHostAlignment, 0u);
    std::memset(block.get(), 1, bytes);
  }
  EXPECT_EQ(keptHostMemory(), 0u);
}

TEST(HostMemoryPool, CanBeTurnedOff) {
  releaseHostMemory();
  OptionsGuard guard;
  guard.options().disable.set(DisableOption::HostMemoryPool);
  allocateHostMemory(8 * kMegabyte).reset();
  EXPECT_EQ(keptHostMemory(), 0u);
}

TEST(HostMemoryPool, ThreadsDoNotGetTheSameBlock) {
  releaseHostMemory();
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&wrong, t] {
      for (int i = 0; i < 200; ++i) {
        const auto block = allocateHostMemory(2 * kMegabyte);
        auto* value = static_cast<volatile int*>(block.get());
        *value = t;
        std::this_thread::yield();
        wrong[static_cast<size_t>(t)] += *value != t;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<int>(4));
  EXPECT_LE(keptHostMemory(), 8 * kMegabyte);
  releaseHostMemory();
}

} // namespace
} // namespace nvfuser
