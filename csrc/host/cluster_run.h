// SPDX-License-Identifier: BSD-3-Clause
// ClusterRun: the state of a cluster that runs (cluster.h). Running and barriers are in
// cluster.cpp, mbarriers and asynchronous copies in cluster_copies.cpp.
#pragma once

#include <host/cluster.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include <host/fiber.h>
#include <host/race_check.h>
#include <host/tensor_map.h>

namespace nvfuser::cluster {

struct AlignedFree {
  void operator()(char* p) const {
    std::free(p);
  }
};

enum class Wait {
  Nothing,
  Poll, // asks again when nobody else can go on
  Warp,
  Block,
  BlockMeeting, // no barrier to the race check
  Part,         // so many threads of the block
  PartMeeting,
  Cluster,
  ClusterMeeting,
  Phase,
  Forever // finished
};

class ClusterRun;
struct PhaseBarrier;

struct Thread {
  ClusterRun* run = nullptr;
  int index = 0;
  Wait waits = Wait::Nothing;
  int line = 0;
  unsigned parity = 0;
  unsigned count = 0;              // Wait::Part, Wait::PartMeeting
  PhaseBarrier* barrier = nullptr; // Wait::Phase
  NvfHostThread place{};
};

// Memory that an operating system thread keeps for the clusters it runs.
struct Resources {
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Thread> threads;
  std::vector<void*> slots;
  std::vector<uint32_t> ready;
  std::unique_ptr<char, AlignedFree> shared;
  size_t shared_capacity = 0;
  RaceCheck races;

  char* sharedMemory(size_t bytes) {
    if (bytes > shared_capacity) {
      const size_t rounded = (bytes + 1023) / 1024 * 1024;
      shared.reset(static_cast<char*>(std::aligned_alloc(1024, rounded)));
      shared_capacity = shared ? rounded : 0;
      if (!shared) {
        throw std::bad_alloc();
      }
    }
    return shared.get();
  }
};

// Of this thread of the operating system.
Resources& threadResources();

// An argument is kept where any type of a kernel may begin; tensor maps ask for most.
struct alignas(TensorMapBytes) ArgumentPiece {
  std::array<char, alignof(TensorMapBytes)> bytes;
};

// An asynchronous copy that is under way.
struct Copy {
  NvfHostCopy what{};
  std::vector<ArgumentPiece> argument;
  int agent = 0;
  uint32_t time = 0;

  void run() const {
    what.run(argument.data());
  }
};

// PTX ISA, "Asynchronous barriers": a phase completes when all arrivals and all expected bytes have
// come.
struct PhaseBarrier {
  unsigned count = 0;
  int64_t pending = 0;
  int64_t expected_bytes = 0;
  unsigned phase = 0;
  int agent = 0; // of the copies that it counts
  RaceCheck::Knowledge arriving, complete;
};

// The copies of a thread that it waits for by group.
struct CopyGroups {
  std::vector<Copy> open;
  std::vector<std::vector<Copy>> committed;
};

class ClusterRun {
 public:
  ClusterRun(LaunchState& state, NvfHostDim cluster)
      : state_(state),
        cluster_(cluster),
        resources_(threadResources()),
        block_threads_(static_cast<int>(volume(state.launch.block))),
        blocks_(static_cast<int>(volume(state.launch.cluster))),
        threads_(resources_.threads),
        slots_(resources_.slots),
        ready_(resources_.ready) {
    threads_.resize(static_cast<size_t>(block_threads_) * blocks_);
    slots_.resize(threads_.size());
  }

  void run();

  static thread_local ClusterRun* current;

  // ---- Services, called on a fiber. A fiber that failed is dropped where it stands, so nothing
  // that owns memory may be alive there.
  void waitFor(Wait what, int line);
  void waitForPart(Wait what, unsigned count, int line);
  void access(const void* address, unsigned bytes, bool is_write, bool must_be_shared, int line);
  void accessGlobal(const void* address, unsigned bytes, bool is_write, int line);
  void fail(const char* message, int line);
  const NvfHostThread* place() const {
    return &current_->place;
  }
  void** exchange(void* mine);
  void* mapShared(const void* address, unsigned rank);
  void initBarrier(void* address, unsigned count, int line);
  void arrive(void* address, unsigned count, unsigned expected_bytes, int line);
  bool testBarrier(void* address, unsigned parity, int line);
  void waitForPhase(void* address, unsigned parity, int line);
  void copy(const NvfHostCopy& what, int line);
  void commitCopies(unsigned group);
  void waitForCopies(unsigned group, unsigned pending);
  void arriveAfterCopies(void* address, int line);
  void fenceCopies() {
    if (hasChecks()) {
      resources_.races.fence(current_->index);
    }
  }

 private:
  // An arrival that waits for the copies of a thread.
  struct LateArrival {
    Thread* thread;
    PhaseBarrier* barrier;
  };

  bool isAdversarial() const {
    return state_.launch.adversarial_seed != 0;
  }
  bool hasChecks() const {
    return (state_.kernel.flags & kNvfHostAdversarial) != 0;
  }
  std::mt19937_64& random();
  void placeThreads();
  char* sharedOf(const Thread& thread) const {
    return shared_ + thread.place.cluster_rank * stride_;
  }

  static void threadMain(void* argument);
  void runThread(const Thread& thread);
  void finish(Thread& thread);
  void runTogether();
  void runReady();
  bool passBarriers();
  bool passBarrier(int first, int end, Wait barrier, Wait meeting);
  bool passPart(int first, int end);
  bool agree(int first, int end);
  bool completeSomething();
  bool isAnyReady() const;
  void reportStuck();
  void suspendCurrent() {
    resources_.fibers[current_->index]->suspend();
  }

  bool checkAccess(const void* address, unsigned bytes, bool is_write, bool must_be_shared,
                   int agent, int line);
  PhaseBarrier* barrierAt(void* address, int line);
  void acquirePhase(const Thread& thread, const PhaseBarrier& barrier);
  void checkPhase(PhaseBarrier& barrier);
  void complete(const Copy& copy);
  void completeCopies(Thread& thread, unsigned group, size_t pending);
  void completeArrival(const LateArrival& arrival);
  bool wakePollers();
  CopyGroups& groupsOf(const Thread& thread, unsigned group) {
    groups_.resize(2 * threads_.size());
    return groups_[2 * static_cast<size_t>(thread.index) + group];
  }
  int groupAgent(const Thread& thread, unsigned group) const {
    return static_cast<int>(threads_.size() * (1 + group)) + thread.index;
  }

  std::string nameOf(int agent) const;
  void report(const std::string& message, int line);

  LaunchState& state_;
  const NvfHostDim cluster_;
  Resources& resources_;
  const int block_threads_, blocks_;
  std::vector<Thread>& threads_; // block by block
  std::vector<void*>& slots_;    // what the threads exchange
  std::vector<uint32_t>& ready_;
  std::vector<CopyGroups> groups_; // two of each thread, once there is one
  bool has_warp_waits_ = false;
  bool has_part_waits_ = false;
  size_t finished_ = 0;
  int fruitless_polls_ = 0;
  Thread* current_ = nullptr;
  char* shared_ = nullptr;
  size_t stride_ = 0;                                  // between the shared memory of two blocks
  std::unordered_map<uintptr_t, size_t> global_pages_; // numbers, for the race check
  std::unordered_map<void*, PhaseBarrier> barriers_;
  std::vector<Copy> copies_; // under way, counted by an mbarrier
  std::vector<LateArrival> late_arrivals_;
  std::unique_ptr<std::mt19937_64> random_;
};

} // namespace nvfuser::cluster
