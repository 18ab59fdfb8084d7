// SPDX-License-Identifier: BSD-3-Clause
// The threads that kernels of the host run on.
#include <host/thread_pool.h>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace nvfuser {
namespace {

// Counts how often each item is met, in pieces of at most `chunk`; returns the threads that were
// there.
std::set<std::thread::id> meet(uint64_t count, uint64_t chunk) {
  std::vector<std::atomic<int>> met(count);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  parallelChunks(count, chunk, [&](uint64_t begin, uint64_t end) {
    EXPECT_LT(begin, end);
    EXPECT_LE(end - begin, chunk);
    for (uint64_t i = begin; i < end; ++i) {
      met[i].fetch_add(1, std::memory_order_relaxed);
    }
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_TRUE(std::all_of(met.begin(), met.end(), [](const auto& times) { return times == 1; }));
  return threads;
}

TEST(ThreadPool, EveryItemIsMetOnce) {
  for (const uint64_t count : {1, 2, 7, 64, 1000, 4097}) {
    for (const uint64_t chunk : {1, 3, 64, 5000}) {
      EXPECT_LE(meet(count, chunk).size(), launchThreadCount());
    }
  }
}

TEST(ThreadPool, OneChunkIsDoneByTheCaller) {
  EXPECT_EQ(meet(100, 100), std::set{std::this_thread::get_id()});
}

TEST(ThreadPool, SharedThreadsLimitACallAndNest) {
  const unsigned own = launchThreadCount();
  // What the user asks for is not limited.
  const bool asked_for = std::getenv("NVFUSER_HOST_THREADS") != nullptr;
  const auto limited = [&](unsigned count) { return asked_for ? own : count; };
  {
    const SharedThreads one(1);
    EXPECT_EQ(launchThreadCount(), limited(1));
    EXPECT_LE(meet(1000, 1).size(), limited(1));
    {
      const SharedThreads three(3);
      EXPECT_EQ(launchThreadCount(), limited(3));
      EXPECT_LE(meet(1000, 1).size(), limited(3));
    }
    EXPECT_EQ(launchThreadCount(), limited(1));
    std::thread([own] { EXPECT_EQ(launchThreadCount(), own); }).join();
  }
  EXPECT_EQ(launchThreadCount(), own);
}

TEST(ThreadPool, CallersAreConcurrent) {
  std::vector<std::thread> callers;
  for (unsigned i = 0; i < 4; ++i) {
    callers.emplace_back([i] {
      const SharedThreads threads(i);
      for (int j = 0; j < 200; ++j) {
        meet(64, 1 + j % 5);
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
}

TEST(ThreadPool, AForkedChildHasThreadsOfItsOwn) {
  meet(64, 1);
  const pid_t child = fork();
  if (child == 0) {
    const SharedThreads threads(4);
    meet(64, 1);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

} // namespace
} // namespace nvfuser
