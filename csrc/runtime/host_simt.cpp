// Runs host kernels; see host_simt.h.
#include <runtime/host_simt.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <random>
#include <sstream>
#include <vector>

#include <runtime/fiber.h>
#include <runtime/thread_pool.h>

namespace nvfuser {

namespace {

std::string toText(NvfHostDim d) {
  std::ostringstream text;
  text << "(" << d.x << ", " << d.y << ", " << d.z << ")";
  return text.str();
}

NvfHostDim unflatten(uint64_t index, NvfHostDim extents) {
  const uint64_t row = index / extents.x;
  return {static_cast<unsigned>(index % extents.x), static_cast<unsigned>(row % extents.y),
          static_cast<unsigned>(row / extents.y)};
}

uint64_t volume(NvfHostDim d) {
  return static_cast<uint64_t>(d.x) * d.y * d.z;
}

// ---- Race check on shared memory ----

// Who touched a byte of shared memory since the last barrier.
struct ByteHistory {
  uint32_t write_interval = 0, read_interval = 0;
  int32_t writer = -1;
  int32_t reader = -1; // kSeveral when more than one thread read it
};
constexpr int32_t kSeveral = -2;

class RaceCheck {
 public:
  void reset(size_t bytes) {
    history_.assign(bytes, ByteHistory());
    interval_ = 1;
  }
  void nextInterval() {
    ++interval_;
  }
  // The thread that `thread` races with, kSeveral for more than one, -1 for none.
  int32_t access(size_t offset, size_t bytes, int32_t thread, bool is_write) {
    int32_t other = -1;
    for (size_t i = offset; i < offset + bytes; ++i) {
      ByteHistory& byte = history_[i];
      const bool was_written = byte.write_interval == interval_ && byte.writer != thread;
      const bool was_read = byte.read_interval == interval_ && byte.reader != thread;
      if (was_written) {
        other = byte.writer;
      } else if (is_write && was_read) {
        other = byte.reader;
      }
      if (is_write) {
        byte.write_interval = interval_;
        byte.writer = thread;
      } else {
        byte.reader = was_read ? kSeveral : thread;
        byte.read_interval = interval_;
      }
    }
    return other;
  }

 private:
  std::vector<ByteHistory> history_;
  uint32_t interval_ = 1;
};

// ---- One block, thread by thread ----

struct AlignedFree {
  void operator()(char* p) const {
    std::free(p);
  }
};

// Memory that an operating system thread keeps for the blocks it runs.
struct BlockResources {
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::unique_ptr<char, AlignedFree> shared;
  size_t shared_capacity = 0;
  RaceCheck races;

  char* sharedMemory(size_t bytes) {
    if (bytes > shared_capacity) {
      const size_t rounded = (bytes + 1023) / 1024 * 1024;
      shared.reset(static_cast<char*>(std::aligned_alloc(1024, rounded)));
      shared_capacity = shared ? rounded : 0;
    }
    return shared.get();
  }
};

BlockResources& threadResources() {
  static thread_local BlockResources resources;
  return resources;
}

struct LaunchState {
  LaunchState(const NvfHostKernel& the_kernel, const HostLaunch& the_launch,
              NvfHostLaunch for_device, void** the_args)
      : kernel(the_kernel), launch(the_launch), device_launch(for_device), args(the_args) {}

  const NvfHostKernel& kernel;
  const HostLaunch& launch;
  NvfHostLaunch device_launch;
  void** args;
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::string error; // the first one

  void fail(const std::string& message) {
    std::lock_guard<std::mutex> lock(mutex);
    if (!failed.exchange(true)) {
      error = message;
    }
  }
};

class BlockRun {
 public:
  BlockRun(LaunchState& state, NvfHostDim block)
      : state_(state),
        block_(block),
        resources_(threadResources()),
        threads_(volume(state.launch.block)) {}

  void run() {
    const size_t bytes = state_.launch.dynamic_shared_bytes;
    shared_ = resources_.sharedMemory(bytes);
    if (isAdversarial() && bytes != 0) {
      std::memset(shared_, 0xff, bytes); // NaN in every float format, -1 in integers
    }
    if (hasChecks()) {
      resources_.races.reset(bytes);
    }
    slots_.resize(threads_.size());
    for (size_t i = 0; i < threads_.size(); ++i) {
      threads_[i].run = this;
      threads_[i].index = static_cast<int32_t>(i);
      threads_[i].place = {unflatten(i, state_.launch.block), block_, state_.launch.block,
                           state_.launch.grid};
    }
    BlockRun* const outer = current_run;
    current_run = this;
    if (threads_.size() == 1 && !isAdversarial() && !hasChecks()) {
      runAlone();
    } else {
      runTogether();
    }
    current_run = outer;
  }

  static const NvfHostServices services;

 private:
  struct Thread {
    BlockRun* run = nullptr;
    int32_t index = 0;
    bool finished = false;
    bool is_meeting = false;
    int barrier_line = 0;
    NvfHostThread place{};
  };

  static thread_local BlockRun* current_run;

  // A single thread waits for nobody: no stack of its own.
  void runAlone() {
    current_ = &threads_[0];
    runThread(threads_[0]);
  }

  void runTogether() {
    std::vector<uint32_t> order(threads_.size());
    std::iota(order.begin(), order.end(), 0);
    while (resources_.fibers.size() < threads_.size()) {
      resources_.fibers.push_back(std::make_unique<Fiber>());
    }
    for (size_t i = 0; i < threads_.size(); ++i) {
      resources_.fibers[i]->start(&BlockRun::threadMain, &threads_[i]);
    }
    while (!state_.failed) {
      if (isAdversarial()) {
        std::shuffle(order.begin(), order.end(), random());
      }
      runUntilBarrier(order);
      if (state_.failed || finished_ == threads_.size() || !passBarrier()) {
        break;
      }
    }
  }

  bool isAdversarial() const {
    return state_.launch.adversarial_seed != 0;
  }
  bool hasChecks() const {
    return (state_.kernel.flags & kNvfHostAdversarial) != 0;
  }

  // The order depends on seed and block only, not on which worker runs it.
  std::mt19937_64& random() {
    if (!random_) {
      const uint64_t flat =
          block_.x + (block_.y + static_cast<uint64_t>(block_.z) * 65536) * 2147483648ull;
      random_ = std::make_unique<std::mt19937_64>(
          state_.launch.adversarial_seed * 0x9e3779b97f4a7c15ull ^ flat);
    }
    return *random_;
  }

  static void threadMain(void* argument) {
    auto* thread = static_cast<Thread*>(argument);
    BlockRun* run = thread->run;
    run->runThread(*thread);
    thread->finished = true;
    ++run->finished_;
    run->suspendCurrent();
  }

  void runThread(const Thread& thread) {
    state_.kernel.run_thread(&state_.device_launch, state_.args, thread.place.block,
                             thread.place.thread, shared_);
  }

  void suspendCurrent() {
    resources_.fibers[current_->index]->suspend();
  }

  void runUntilBarrier(const std::vector<uint32_t>& order) {
    for (uint32_t i : order) {
      if (!threads_[i].finished) {
        current_ = &threads_[i];
        resources_.fibers[i]->resume();
        if (state_.failed) {
          return; // the other fibers are dropped as they stand
        }
      }
    }
  }

  // Every thread has finished or waits. They may go on only if all wait at the same barrier.
  bool passBarrier() {
    const Thread* waiting = nullptr;
    for (const Thread& thread : threads_) {
      if (!thread.finished) {
        waiting = &thread;
        break;
      }
    }
    for (const Thread& thread : threads_) {
      if (thread.finished || thread.barrier_line != waiting->barrier_line ||
          thread.is_meeting != waiting->is_meeting) {
        std::ostringstream text;
        text << "barrier divergence in block " << toText(block_) << ": thread "
             << threadText(waiting->index) << " waits at the barrier on line "
             << waiting->barrier_line << ", thread " << threadText(thread.index);
        if (thread.finished) {
          text << " has finished";
        } else {
          text << " waits on line " << thread.barrier_line;
        }
        state_.fail(text.str());
        return false;
      }
    }
    if (!waiting->is_meeting) {
      resources_.races.nextInterval();
    }
    return true;
  }

  std::string threadText(int32_t index) const {
    return toText(unflatten(index, state_.launch.block));
  }

  // ---- services, called on a fiber. A fiber that failed is dropped where it stands, so nothing
  // that owns memory may be alive there.

  void report(const std::string& message, int line) {
    std::ostringstream text;
    text << message << " by thread " << threadText(current_->index) << " of block "
         << toText(block_) << ", line " << line;
    state_.fail(text.str());
  }

  static void syncBlock(int line) {
    current_run->waitForBlock(line, false);
  }
  static void meetBlock(int line) {
    current_run->waitForBlock(line, true);
  }

  void waitForBlock(int line, bool is_meeting) {
    if (threads_.size() > 1) {
      current_->barrier_line = line;
      current_->is_meeting = is_meeting;
      suspendCurrent();
    } else if (!is_meeting) {
      resources_.races.nextInterval();
    }
  }

  static const NvfHostThread* thread() {
    return &current_run->current_->place;
  }

  static void** exchange(void* mine) {
    BlockRun* run = current_run;
    run->slots_[run->current_->index] = mine;
    return run->slots_.data();
  }

  static void access(const void* address, unsigned bytes, bool is_write, bool must_be_shared,
                     int line) {
    BlockRun* run = current_run;
    if (!run->checkAccess(address, bytes, is_write, must_be_shared, line)) {
      run->suspendCurrent();
    }
  }

  bool checkAccess(const void* address, unsigned bytes, bool is_write, bool must_be_shared,
                   int line) {
    // Compared as integers: the address may be anywhere.
    const uintptr_t offset =
        reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(shared_);
    const size_t size = state_.launch.dynamic_shared_bytes;
    if (offset >= size || bytes > size - offset) {
      if (must_be_shared) {
        report("access outside of shared memory", line);
      }
      return !must_be_shared;
    }
    const int32_t other = resources_.races.access(offset, bytes, current_->index, is_write);
    if (other == -1) {
      return true;
    }
    std::ostringstream text;
    text << "race on byte " << offset << " of shared memory: " << (is_write ? "written" : "read")
         << " after an access of "
         << (other == kSeveral ? "several threads" : "thread " + threadText(other))
         << " without a barrier in between,";
    report(text.str(), line);
    return false;
  }

  static void fail(const char* message, int line) {
    current_run->report(message, line);
    current_run->suspendCurrent();
  }

  LaunchState& state_;
  const NvfHostDim block_;
  BlockResources& resources_;
  std::vector<Thread> threads_;
  std::vector<void*> slots_; // what the threads exchange
  size_t finished_ = 0;
  Thread* current_ = nullptr;
  char* shared_ = nullptr;
  std::unique_ptr<std::mt19937_64> random_;
};

thread_local BlockRun* BlockRun::current_run = nullptr;
const NvfHostServices BlockRun::services = {&BlockRun::syncBlock, &BlockRun::access,
                                            &BlockRun::fail,      &BlockRun::thread,
                                            &BlockRun::exchange,  &BlockRun::meetBlock};

// ---- The grid ----

std::string checkLaunch(const NvfHostKernel& kernel, const HostLaunch& launch) {
  std::ostringstream text;
  if (kernel.abi != kNvfHostAbi) {
    text << "host kernel of ABI " << kernel.abi << ", this library has ABI " << kNvfHostAbi;
  } else if (volume(launch.grid) == 0 || volume(launch.block) == 0) {
    text << "empty launch: grid " << toText(launch.grid) << ", block " << toText(launch.block);
  } else if (volume(launch.block) > kernel.max_threads) {
    text << "block " << toText(launch.block) << " has more than the " << kernel.max_threads
         << " threads that the kernel was compiled for";
  }
  return text.str();
}

// A random permutation of [0, count): index * step + start modulo count, with step coprime to
// count.
struct BlockOrder {
  uint64_t count, step = 1, start = 0;

  BlockOrder(uint64_t block_count, uint64_t seed) : count(block_count) {
    if (seed != 0) {
      std::mt19937_64 random(seed);
      start = random() % count;
      do {
        step = random() % count + 1;
      } while (std::gcd(step, count) != 1);
    }
  }
  uint64_t operator()(uint64_t index) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(index) * step + start) % count);
  }
};

// Blocks this small are not worth waking a worker for (which takes tens of microseconds).
constexpr uint64_t kInlineThreads = 8192;

uint64_t chunkOfBlocks(uint64_t blocks, uint64_t block_size) {
  const uint64_t chunk = std::max<uint64_t>(1, blocks / (8ull * hostThreadCount()));
  return std::max(chunk, kInlineThreads / block_size);
}

void runPlain(LaunchState& state, uint64_t blocks) {
  const uint64_t chunk = chunkOfBlocks(blocks, volume(state.launch.block));
  parallelChunks(blocks, chunk, [&](uint64_t first, uint64_t end) {
    char* shared = threadResources().sharedMemory(state.launch.dynamic_shared_bytes);
    state.kernel.run_blocks(&state.device_launch, state.args, first, end, shared);
  });
}

void runFibers(LaunchState& state, uint64_t blocks) {
  const BlockOrder order(blocks, state.launch.adversarial_seed);
  const uint64_t chunk = volume(state.launch.block) == 1 ? chunkOfBlocks(blocks, 1) : 1;
  parallelChunks(blocks, chunk, [&](uint64_t first, uint64_t end) {
    try {
      for (uint64_t i = first; i < end && !state.failed; ++i) {
        BlockRun(state, unflatten(order(i), state.launch.grid)).run();
      }
    } catch (const std::bad_alloc&) {
      state.fail("out of memory for the stacks or the shared memory of a block");
    }
  });
}

} // namespace

std::string runHostKernel(const NvfHostKernel& kernel, const HostLaunch& launch, void** args) {
  const std::string error = checkLaunch(kernel, launch);
  if (!error.empty()) {
    return error;
  }
  LaunchState state(kernel, launch, {launch.grid, launch.block, &BlockRun::services}, args);
  const uint64_t blocks = volume(launch.grid);
  if (kernel.run_blocks != nullptr && launch.adversarial_seed == 0) {
    runPlain(state, blocks);
  } else {
    runFibers(state, blocks);
  }
  return state.error;
}

} // namespace nvfuser
