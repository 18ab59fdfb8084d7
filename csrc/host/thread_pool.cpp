// SPDX-License-Identifier: BSD-3-Clause
// Threads for the kernels of the host; see thread_pool.h.
#include <host/thread_pool.h>

#include <base/error.h>
#include <base/options.h>
#include <host/sanitizers.h>

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

namespace nvfuser {

namespace {

// Items of a call that one thread begins with: the same ones in every call, so that what fits into
// a core's cache stays there.
struct alignas(64) Share {
  std::atomic<uint64_t> next{0};
  uint64_t end = 0;
};

constexpr unsigned kMostShares = 64;

struct Job {
  const std::function<void(uint64_t, uint64_t)>& task;
  const uint64_t chunk;
  const unsigned threads; // at most, the caller's among them
  std::array<Share, kMostShares> shares;
  std::atomic<unsigned> helpers{0}; // workers on this job

  Job(const std::function<void(uint64_t, uint64_t)>& the_task, uint64_t count, uint64_t the_chunk,
      unsigned the_threads)
      : task(the_task), chunk(the_chunk), threads(std::min(the_threads, kMostShares)) {
    const uint64_t chunks = (count + chunk - 1) / chunk;
    for (unsigned i = 0; i < threads; ++i) {
      shares[i].next.store(std::min(count, chunks * i / threads * chunk),
                           std::memory_order_relaxed);
      shares[i].end = std::min(count, chunks * (i + 1) / threads * chunk);
    }
  }

  // First the thread's own share, then what others have not begun.
  void work(unsigned thread) {
    sanitizerAcquire(this);
    for (unsigned i = 0; i < threads; ++i) {
      Share& share = shares[(thread + i) % threads];
      for (;;) {
        const uint64_t begin = share.next.fetch_add(chunk, std::memory_order_relaxed);
        if (begin >= share.end) {
          break;
        }
        task(begin, std::min(share.end, begin + chunk));
      }
    }
    sanitizerRelease(this);
  }
};

// Waits for a condition by asking again, as long as waking a thread would take. Returns whether it
// came true.
template <class Condition>
bool spinUntil(const Condition& condition) {
  constexpr auto kPatience = std::chrono::microseconds(20);
  constexpr int kQuestions = 32;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  do {
    for (int i = 0; i < kQuestions; ++i) {
      if (condition()) {
        return true;
      }
#ifdef __x86_64__
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

class Pool {
 public:
  explicit Pool(unsigned workers) {
    for (unsigned i = 0; i < workers; ++i) {
      std::thread([this, i] { serve(i + 1); }).detach();
    }
  }

  void run(Job& job) {
    bool asleep = false;
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(&job);
      waiting_.store(jobs_.size(), std::memory_order_relaxed);
      asleep = sleepers_ > 0;
    }
    if (asleep) {
      wake_.notify_all();
    }
    job.work(0);
    {
      const std::lock_guard lock(mutex_);
      remove(&job);
    }
    const auto is_done = [&] { return job.helpers.load(std::memory_order_acquire) == 0; };
    if (!spinUntil(is_done)) {
      std::unique_lock lock(mutex_);
      done_.wait(lock, is_done);
    }
  }

 private:
  [[noreturn]] void serve(unsigned thread) {
    for (;;) {
      spinUntil([&] { return waiting_.load(std::memory_order_relaxed) > 0; });
      std::unique_lock lock(mutex_);
      ++sleepers_;
      wake_.wait(lock, [this] { return !jobs_.empty(); });
      --sleepers_;
      Job* job = jobs_.front();
      // The last that it has use for.
      if (job->helpers.fetch_add(1, std::memory_order_relaxed) + 2 >= job->threads) {
        remove(job);
      }
      lock.unlock();
      job->work(thread % job->threads);
      lock.lock();
      remove(job);
      if (job->helpers.fetch_sub(1, std::memory_order_release) == 1) {
        done_.notify_all(); // the job may be gone
      }
    }
  }

  void remove(Job* job) {
    jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), job), jobs_.end());
    waiting_.store(jobs_.size(), std::memory_order_relaxed);
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<Job*> jobs_;
  std::atomic<size_t> waiting_{0}; // jobs_.size(), for threads without the mutex
  unsigned sleepers_ = 0;
};

// Never freed: workers may outlive static destruction. fork() copies the object but not its
// threads, and maybe a locked mutex: the child forgets it and makes another.
std::atomic<Pool*> pool{nullptr};

// A child has none of the threads of OpenMP either, whose runtime would wait for them.
std::atomic<bool> forked{false};

const int at_fork = pthread_atfork(nullptr, nullptr, [] {
  pool.store(nullptr, std::memory_order_release);
  forked.store(true, std::memory_order_release);
});

Pool& currentPool() {
  Pool* current = pool.load(std::memory_order_acquire);
  if (current != nullptr) {
    return *current;
  }
  static std::atomic_flag making = ATOMIC_FLAG_INIT;
  while (making.test_and_set(std::memory_order_acquire)) {
    std::this_thread::yield();
  }
  current = pool.load(std::memory_order_acquire);
  if (current == nullptr) {
    current = new Pool(hostThreadCount() - 1);
    pool.store(current, std::memory_order_release);
  }
  making.clear(std::memory_order_release);
  return *current;
}

// The OpenMP runtime that a library has loaded for the whole process, by the entry points that
// compilers call (LLVM's has those of GCC too). Null without one.
struct OpenMp {
  void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
  int (*inParallel)() = nullptr;
  int (*threadNumber)() = nullptr;

  template <class Function>
  static void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
  }
  static OpenMp load() {
    OpenMp found;
    find(found.parallel, "GOMP_parallel");
    find(found.inParallel, "omp_in_parallel");
    find(found.threadNumber, "omp_get_thread_num");
    const bool complete =
        found.parallel != nullptr && found.inParallel != nullptr && found.threadNumber != nullptr;
    return complete ? found : OpenMp();
  }
};

const OpenMp& openMp() {
  static const OpenMp loaded = OpenMp::load();
  return loaded;
}

void runOnOpenMp(Job& job) {
  openMp().parallel(
      [](void* data) {
        auto* shared = static_cast<Job*>(data);
        shared->work(static_cast<unsigned>(openMp().threadNumber()) % shared->threads);
      },
      &job, job.threads, 0);
}

// Of the innermost SharedThreads of this thread; 0: none.
thread_local unsigned shared_threads = 0;

constexpr const char* kThreadsVariable = "NVFUSER_HOST_THREADS";

// hostThreadCount() as it was at the first launch, and whether it was asked for.
struct OwnThreads {
  unsigned count = hostThreadCount();
  bool asked_for = !environmentString(kThreadsVariable).empty();
};

const OwnThreads& ownThreads() {
  static const OwnThreads own;
  return own;
}

} // namespace

SharedThreads::SharedThreads(unsigned count) : outer_(shared_threads) {
  shared_threads = count;
}

SharedThreads::~SharedThreads() {
  shared_threads = outer_;
}

unsigned hostThreadCount() {
  if (!environmentString(kThreadsVariable).empty()) {
    constexpr int64_t kMostThreads = 1024;
    const int64_t number = environmentInt(kThreadsVariable, 0);
    NVF_CHECK(number > 0 && number <= kMostThreads, kThreadsVariable, " must be between 1 and ",
              kMostThreads, ", got ", number);
    return static_cast<unsigned>(number);
  }
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) {
    return static_cast<unsigned>(std::max(1, CPU_COUNT(&cpus)));
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

unsigned launchThreadCount() {
  const OwnThreads& own = ownThreads();
  return own.asked_for || shared_threads == 0 ? own.count : shared_threads;
}

void parallelChunks(uint64_t count, uint64_t chunk,
                    const std::function<void(uint64_t, uint64_t)>& task) {
  const unsigned threads = count <= chunk ? 1 : launchThreadCount();
  const bool shares = shared_threads != 0 && openMp().parallel != nullptr;
  if (threads == 1 || (shares && openMp().inParallel() != 0)) {
    for (uint64_t begin = 0; begin < count; begin += chunk) {
      task(begin, std::min(count, begin + chunk));
    }
    return;
  }
  Job job(task, count, chunk, threads);
  sanitizerRelease(&job);
  if (shares && !ownThreads().asked_for && !forked.load(std::memory_order_acquire)) {
    runOnOpenMp(job);
  } else {
    currentPool().run(job);
  }
  sanitizerAcquire(&job);
}

} // namespace nvfuser
