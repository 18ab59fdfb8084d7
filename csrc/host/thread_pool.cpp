// Persistent worker threads for the host target; see thread_pool.h.
#include <host/thread_pool.h>

#include <base/error.h>
#include <base/options.h>

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

namespace nvfuser {

namespace {

struct Job {
  const std::function<void(uint64_t, uint64_t)>& task;
  const uint64_t count, chunk;
  std::atomic<uint64_t> next{0};
  unsigned helpers = 0; // workers on this job; guarded by the pool's mutex

  void work() {
    for (;;) {
      const uint64_t begin = next.fetch_add(chunk);
      if (begin >= count) {
        return;
      }
      task(begin, std::min(count, begin + chunk));
    }
  }
};

class Pool {
 public:
  explicit Pool(unsigned workers) {
    for (unsigned i = 0; i < workers; ++i) {
      std::thread([this] { serve(); }).detach();
    }
  }

  void run(Job& job) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      jobs_.push_back(&job);
    }
    wake_.notify_all();
    job.work();
    std::unique_lock<std::mutex> lock(mutex_);
    jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), &job), jobs_.end());
    done_.wait(lock, [&] { return job.helpers == 0; });
  }

 private:
  void serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return !jobs_.empty(); });
      Job* job = jobs_.front();
      ++job->helpers;
      lock.unlock();
      job->work();
      lock.lock();
      jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), job), jobs_.end());
      if (--job->helpers == 0) {
        done_.notify_all();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<Job*> jobs_;
};

// Never freed: workers may outlive static destruction. fork() copies the object but not its
// threads, and maybe a locked mutex: the child forgets it and makes another.
std::atomic<Pool*> pool{nullptr};

Pool& currentPool() {
  Pool* current = pool.load(std::memory_order_acquire);
  if (current != nullptr) {
    return *current;
  }
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { pool.store(nullptr, std::memory_order_release); });
  (void)registered;
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

} // namespace

unsigned hostThreadCount() {
  constexpr const char* kVariable = "NVFUSER_HOST_THREADS";
  if (!environmentString(kVariable).empty()) {
    constexpr int64_t kMostThreads = 1024;
    const int64_t number = environmentInt(kVariable, 0);
    NVF_CHECK(number > 0 && number <= kMostThreads, kVariable, " must be between 1 and ",
              kMostThreads, ", got ", number);
    return static_cast<unsigned>(number);
  }
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) {
    return static_cast<unsigned>(std::max(1, CPU_COUNT(&cpus)));
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

void parallelChunks(uint64_t count, uint64_t chunk,
                    const std::function<void(uint64_t, uint64_t)>& task) {
  static const unsigned threads = hostThreadCount();
  if (threads == 1 || count <= chunk) {
    for (uint64_t begin = 0; begin < count; begin += chunk) {
      task(begin, std::min(count, begin + chunk));
    }
    return;
  }
  Job job{task, count, chunk};
  currentPool().run(job);
}

} // namespace nvfuser
