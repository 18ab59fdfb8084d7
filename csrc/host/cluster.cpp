// SPDX-License-Identifier: BSD-3-Clause
// The threads of a cluster, their barriers and their copies; see cluster.h.
#include <host/cluster.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <sstream>
#include <unordered_map>
#include <vector>

#include <host/fiber.h>
#include <host/race_check.h>
#include <host/tensor_map.h>

namespace nvfuser {

namespace {

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

Resources& threadResources() {
  static thread_local Resources resources;
  return resources;
}

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

thread_local ClusterRun* ClusterRun::current = nullptr;

// ---- Running ----

void ClusterRun::run() {
  const size_t bytes = state_.launch.dynamic_shared_bytes;
  constexpr size_t kGap = 1024; // an access after a block's memory does not hit the next one's
  stride_ = blocks_ == 1 ? bytes : (bytes + 1023) / 1024 * 1024 + kGap;
  shared_ = resources_.sharedMemory(stride_ * blocks_);
  if (isAdversarial() && bytes != 0) {
    std::memset(shared_, 0xff, stride_ * blocks_); // NaN in every float format, -1 in integers
  }
  if (hasChecks()) {
    resources_.races.reset(blocks_, block_threads_, stride_,
                           (state_.kernel.flags & kNvfHostUsesPhases) == 0);
  }
  placeThreads();
  ClusterRun* const outer = current;
  current = this;
  const bool may_wait = (state_.kernel.flags & kNvfHostUsesPhases) != 0;
  if (threads_.size() == 1 && !isAdversarial() && !hasChecks() && !may_wait) {
    // Waits for nobody: no stack of its own.
    current_ = &threads_[0];
    runThread(threads_[0]);
  } else {
    runTogether();
  }
  current = outer;
}

void ClusterRun::placeThreads() {
  const NvfHostDim shape = state_.launch.cluster;
  const NvfHostDim block = state_.launch.block;
  Thread thread;
  thread.run = this;
  thread.place.block_dim = block;
  thread.place.grid_dim = state_.launch.grid;
  thread.place.cluster_blocks = static_cast<unsigned>(blocks_);
  auto next = threads_.begin();
  for (int rank = 0; rank < blocks_; ++rank) {
    const NvfHostDim in_cluster = unflatten(static_cast<uint64_t>(rank), shape);
    thread.place.cluster_rank = static_cast<unsigned>(rank);
    thread.place.block = {cluster_.x * shape.x + in_cluster.x, cluster_.y * shape.y + in_cluster.y,
                          cluster_.z * shape.z + in_cluster.z};
    NvfHostDim& at = thread.place.thread;
    for (at.z = 0; at.z < block.z; ++at.z) {
      for (at.y = 0; at.y < block.y; ++at.y) {
        for (at.x = 0; at.x < block.x; ++at.x) {
          *next++ = thread;
          ++thread.index;
        }
      }
    }
  }
}

// The order depends on seed and cluster only, not on which worker runs it.
std::mt19937_64& ClusterRun::random() {
  if (!random_) {
    const uint64_t flat =
        cluster_.x + (cluster_.y + static_cast<uint64_t>(cluster_.z) * 65536) * 2147483648ull;
    random_ = std::make_unique<std::mt19937_64>(
        state_.launch.adversarial_seed * 0x9e3779b97f4a7c15ull ^ flat);
  }
  return *random_;
}

void ClusterRun::threadMain(void* argument) {
  auto* thread = static_cast<Thread*>(argument);
  ClusterRun* run = thread->run;
  run->runThread(*thread);
  run->finish(*thread);
  run->suspendCurrent();
}

void ClusterRun::runThread(const Thread& thread) {
  state_.kernel.run_thread(&state_.device_launch, state_.args, thread.place.block,
                           thread.place.thread, sharedOf(thread));
}

void ClusterRun::finish(Thread& thread) {
  if (!groups_.empty()) {
    commitCopies(kNvfHostSmallCopies);
    completeCopies(thread, kNvfHostSmallCopies, 0);
    const CopyGroups& bulk = groupsOf(thread, kNvfHostBulkCopies);
    if (!bulk.open.empty() || !bulk.committed.empty()) {
      report("bulk copies from shared memory are still under way at the end of the kernel", 0);
    }
  }
  thread.waits = Wait::Forever;
  ++finished_;
}

void ClusterRun::runTogether() {
  while (resources_.fibers.size() < threads_.size()) {
    resources_.fibers.push_back(std::make_unique<Fiber>());
  }
  for (Thread& thread : threads_) {
    resources_.fibers[thread.index]->start(&ClusterRun::threadMain, &thread);
  }
  ready_.reserve(threads_.size());
  while (!state_.failed) {
    runReady();
    if (state_.failed || finished_ == threads_.size()) {
      break;
    }
    if (passBarriers() || state_.failed || isAnyReady()) {
      continue;
    }
    const bool completed = completeSomething();
    if (!wakePollers() && !completed) {
      reportStuck();
    }
    fruitless_polls_ = completed ? 0 : fruitless_polls_ + 1;
  }
  if (!state_.failed && !copies_.empty()) {
    state_.fail("asynchronous copies into shared memory are still under way at the end of block " +
                toText(threads_[0].place.block));
  }
}

bool ClusterRun::isAnyReady() const {
  return std::any_of(threads_.begin(), threads_.end(),
                     [](const Thread& t) { return t.waits == Wait::Nothing; });
}

// Not for ever, if nothing comes of it.
bool ClusterRun::wakePollers() {
  constexpr int kMostPolls = 10000;
  bool woke = false;
  for (Thread& thread : threads_) {
    if (thread.waits == Wait::Poll && fruitless_polls_ < kMostPolls) {
      thread.waits = Wait::Nothing;
      woke = true;
    }
  }
  return woke;
}

void ClusterRun::runReady() {
  ready_.clear();
  for (const Thread& thread : threads_) {
    if (thread.waits == Wait::Nothing) {
      ready_.push_back(static_cast<uint32_t>(thread.index));
    }
  }
  if (isAdversarial()) {
    std::shuffle(ready_.begin(), ready_.end(), random());
  }
  for (const uint32_t i : ready_) {
    current_ = &threads_[i];
    resources_.fibers[i]->resume();
    if (state_.failed) {
      return; // the other fibers are dropped as they stand
    }
  }
}

// ---- Barriers of blocks and of the cluster ----

// Whether anyone may go on.
bool ClusterRun::passBarriers() {
  bool passed = false;
  for (int block = 0; block < blocks_; ++block) {
    const int first = block * block_threads_;
    passed |= passBarrier(first, first + block_threads_, Wait::Block, Wait::BlockMeeting);
    passed |= has_part_waits_ && passPart(first, first + block_threads_);
    for (int warp = first; has_warp_waits_ && warp < first + block_threads_; warp += 32) {
      passed |=
          passBarrier(warp, std::min(warp + 32, first + block_threads_), Wait::Warp, Wait::Warp);
    }
  }
  return passBarrier(0, static_cast<int>(threads_.size()), Wait::Cluster, Wait::ClusterMeeting) ||
         passed;
}

// Once every thread has finished or waits there they go on, if they agree.
bool ClusterRun::passBarrier(int first, int end, Wait barrier, Wait meeting) {
  bool is_anyone_there = false;
  for (int i = first; i < end; ++i) {
    const Wait waits = threads_[i].waits;
    const bool is_there = waits == barrier || waits == meeting;
    if (!is_there && waits != Wait::Forever) {
      return false;
    }
    is_anyone_there |= is_there;
  }
  if (!is_anyone_there || !agree(first, end)) {
    return false;
  }
  if (hasChecks() && threads_[first].waits == barrier) {
    resources_.races.barrier(first, end);
  }
  for (int i = first; i < end; ++i) {
    threads_[i].waits = Wait::Nothing;
  }
  return true;
}

// Once as many threads as they say have arrived they go on, if they agree.
bool ClusterRun::passPart(int first, int end) {
  std::vector<Thread*> there;
  for (int i = first; i < end; ++i) {
    if (threads_[i].waits == Wait::Part || threads_[i].waits == Wait::PartMeeting) {
      there.push_back(&threads_[i]);
    }
  }
  if (there.empty() || there.size() < there.front()->count) {
    return false;
  }
  for (const Thread* thread : there) {
    if (thread->waits != there.front()->waits || thread->line != there.front()->line) {
      std::ostringstream text;
      text << "barrier divergence: " << nameOf(there.front()->index)
           << " waits at the barrier on line " << there.front()->line << ", "
           << nameOf(thread->index) << " waits on line " << thread->line;
      state_.fail(text.str());
      return false;
    }
  }
  RaceCheck::Knowledge all;
  const bool orders = hasChecks() && there.front()->waits == Wait::Part;
  for (const Thread* thread : there) {
    if (orders) {
      resources_.races.release(thread->index, all);
    }
  }
  for (Thread* thread : there) {
    if (orders) {
      resources_.races.acquire(thread->index, all);
    }
    thread->waits = Wait::Nothing;
  }
  return true;
}

bool ClusterRun::agree(int first, int end) {
  const auto begin = threads_.begin() + first;
  const auto waiting = std::find_if(begin, threads_.begin() + end,
                                    [](const Thread& t) { return t.waits != Wait::Forever; });
  for (int i = first; i < end; ++i) {
    const Thread& thread = threads_[i];
    if (thread.waits == waiting->waits && thread.line == waiting->line) {
      continue;
    }
    std::ostringstream text;
    text << "barrier divergence: " << nameOf(waiting->index) << " waits at the barrier on line "
         << waiting->line << ", " << nameOf(thread.index);
    if (thread.waits == Wait::Forever) {
      text << " has finished";
    } else {
      text << " waits on line " << thread.line;
    }
    state_.fail(text.str());
    return false;
  }
  return true;
}

// Nobody can go on: what has been put off as long as possible happens, one at a time.
bool ClusterRun::completeSomething() {
  const size_t count = copies_.size() + late_arrivals_.size();
  if (count == 0) {
    return false;
  }
  size_t choice = isAdversarial() ? random()() % count : 0;
  if (choice < copies_.size()) {
    std::swap(copies_[choice], copies_.back());
    const Copy copy = std::move(copies_.back());
    copies_.pop_back();
    complete(copy);
  } else {
    choice -= copies_.size();
    std::swap(late_arrivals_[choice], late_arrivals_.back());
    const LateArrival arrival = late_arrivals_.back();
    late_arrivals_.pop_back();
    completeArrival(arrival);
  }
  return true;
}

void ClusterRun::reportStuck() {
  for (const Thread& thread : threads_) {
    if (thread.waits != Wait::Forever) {
      std::ostringstream text;
      text << "deadlock: " << nameOf(thread.index) << " waits on line " << thread.line
           << (thread.waits == Wait::Phase ? " for an mbarrier that nothing completes"
                                           : " for threads that never come");
      state_.fail(text.str());
      return;
    }
  }
}

void ClusterRun::waitFor(Wait what, int line) {
  has_warp_waits_ |= what == Wait::Warp;
  current_->waits = what;
  current_->line = line;
  if (threads_.size() > 1 || what == Wait::Phase || what == Wait::Poll) {
    suspendCurrent();
    return;
  }
  current_->waits = Wait::Nothing;
  if (hasChecks() && (what == Wait::Block || what == Wait::Cluster)) {
    resources_.races.barrier(0, 1);
  }
}

void ClusterRun::waitForPart(Wait what, unsigned count, int line) {
  has_part_waits_ = true;
  current_->count = count;
  waitFor(what, line);
}

void** ClusterRun::exchange(void* mine) {
  slots_[current_->index] = mine;
  return slots_.data() + static_cast<size_t>(current_->place.cluster_rank) * block_threads_;
}

void* ClusterRun::mapShared(const void* address, unsigned rank) {
  const auto offset = static_cast<const char*>(address) - sharedOf(*current_);
  return shared_ + rank * stride_ + offset;
}

// ---- Checks ----

std::string ClusterRun::nameOf(int agent) const {
  if (agent == RaceCheck::kSeveral) {
    return "several threads";
  }
  if (agent >= static_cast<int>(threads_.size())) {
    return "an asynchronous copy";
  }
  const NvfHostThread& place = threads_[agent].place;
  return "thread " + toText(place.thread) + " of block " + toText(place.block);
}

void ClusterRun::report(const std::string& message, int line) {
  std::ostringstream text;
  text << message << " by " << nameOf(current_->index) << ", line " << line;
  state_.fail(text.str());
}

void ClusterRun::fail(const char* message, int line) {
  report(message, line);
  suspendCurrent();
}

void ClusterRun::access(const void* address, unsigned bytes, bool is_write, bool must_be_shared,
                        int line) {
  if (!checkAccess(address, bytes, is_write, must_be_shared, current_->index, line)) {
    suspendCurrent();
  }
}

bool ClusterRun::checkAccess(const void* address, unsigned bytes, bool is_write,
                             bool must_be_shared, int agent, int line) {
  // Compared as integers: the address may be anywhere.
  const uintptr_t offset =
      reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(shared_);
  const size_t size = state_.launch.dynamic_shared_bytes;
  const bool is_in_cluster = offset < stride_ * static_cast<size_t>(blocks_);
  if (!is_in_cluster || offset % stride_ >= size || bytes > size - offset % stride_) {
    if (must_be_shared) {
      report("access outside of shared memory", line);
    }
    return !must_be_shared;
  }
  const int other = resources_.races.access(offset, bytes, agent, current_->index, is_write);
  if (other == RaceCheck::kNone) {
    return true;
  }
  if (other == RaceCheck::kUnfenced) {
    report("a bulk copy reads shared memory that was written without nvf::fenceAsyncProxy()", line);
    return false;
  }
  const bool is_copy = agent != current_->index;
  std::ostringstream text;
  text << "race on byte " << offset % stride_
       << " of shared memory: " << (is_write ? "written" : "read")
       << (is_copy ? " by an asynchronous copy" : "") << " after an access of " << nameOf(other)
       << " without a barrier in between,";
  report(text.str(), line);
  return false;
}

// To the race check pages of global memory follow the shared memory, as they come.
void ClusterRun::accessGlobal(const void* address, unsigned bytes, bool is_write, int line) {
  constexpr uintptr_t kPage = 4096;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const auto end = begin + bytes;
  for (uintptr_t at = begin; at < end && hasChecks();) {
    const uintptr_t next = std::min(end, (at / kPage + 1) * kPage);
    const auto [page, is_new] = global_pages_.try_emplace(at / kPage, global_pages_.size());
    const size_t shared = stride_ * static_cast<size_t>(blocks_);
    if (is_new) {
      resources_.races.extend(shared + global_pages_.size() * kPage);
    }
    const int other = resources_.races.access(shared + page->second * kPage + at % kPage, next - at,
                                              current_->index, current_->index, is_write);
    if (other != RaceCheck::kNone) {
      report("race on global memory: " + std::string(is_write ? "written" : "read") +
                 " after an access of " + nameOf(other) + " without a barrier in between,",
             line);
      suspendCurrent();
    }
    at = next;
  }
}

// ---- mbarriers ----

PhaseBarrier* ClusterRun::barrierAt(void* address, int line) {
  if (hasChecks()) {
    access(address, 8, false, true, line);
  }
  const auto found = barriers_.find(address);
  if (found == barriers_.end()) {
    fail("use of an mbarrier that was not initialized", line);
  }
  return &found->second;
}

void ClusterRun::initBarrier(void* address, unsigned count, int line) {
  if (hasChecks()) {
    access(address, 8, true, true, line);
  }
  const auto agent = static_cast<int>(3 * threads_.size() + barriers_.size());
  const auto [found, is_new] = barriers_.try_emplace(address);
  PhaseBarrier& barrier = found->second;
  const int old_agent = barrier.agent;
  barrier = PhaseBarrier();
  barrier.agent = is_new ? agent : old_agent;
  barrier.count = count;
  barrier.pending = count;
}

void ClusterRun::arrive(void* address, unsigned count, unsigned expected_bytes, int line) {
  PhaseBarrier* barrier = barrierAt(address, line);
  if (hasChecks()) {
    resources_.races.release(current_->index, barrier->arriving);
  }
  barrier->expected_bytes += expected_bytes;
  barrier->pending -= count;
  if (barrier->pending < 0) {
    fail("more arrivals at an mbarrier than it was initialized for", line);
  }
  checkPhase(*barrier);
}

void ClusterRun::acquirePhase(const Thread& thread, const PhaseBarrier& barrier) {
  if (hasChecks()) {
    resources_.races.acquire(thread.index, barrier.complete);
  }
}

void ClusterRun::checkPhase(PhaseBarrier& barrier) {
  if (barrier.pending != 0 || barrier.expected_bytes != 0) {
    return;
  }
  ++barrier.phase;
  barrier.pending = barrier.count;
  barrier.complete.join(barrier.arriving);
  barrier.arriving = {};
  for (Thread& thread : threads_) {
    if (thread.waits == Wait::Phase && thread.barrier == &barrier &&
        (barrier.phase & 1) != thread.parity) {
      thread.waits = Wait::Nothing;
      acquirePhase(thread, barrier);
    }
  }
}

bool ClusterRun::testBarrier(void* address, unsigned parity, int line) {
  const PhaseBarrier* barrier = barrierAt(address, line);
  if ((barrier->phase & 1) == parity) {
    waitFor(Wait::Poll, line);
  }
  if ((barrier->phase & 1) == parity) {
    return false;
  }
  acquirePhase(*current_, *barrier);
  return true;
}

void ClusterRun::waitForPhase(void* address, unsigned parity, int line) {
  PhaseBarrier* barrier = barrierAt(address, line);
  if ((barrier->phase & 1) != parity) {
    acquirePhase(*current_, *barrier);
    return;
  }
  current_->barrier = barrier;
  current_->parity = parity;
  waitFor(Wait::Phase, line);
}

// ---- Asynchronous copies ----

void ClusterRun::copy(const NvfHostCopy& what, int line) {
  PhaseBarrier* barrier = what.barrier == nullptr ? nullptr : barrierAt(what.barrier, line);
  const int agent = barrier != nullptr ? barrier->agent : groupAgent(*current_, what.group);
  bool is_fine = true;
  if (hasChecks() && what.to_shared != nullptr) {
    is_fine = checkAccess(what.to_shared, what.bytes, true, true, agent, line);
  }
  if (hasChecks() && is_fine && what.from_shared != nullptr) {
    is_fine = checkAccess(what.from_shared, what.bytes, false, true, agent, line);
  }
  if (!is_fine) {
    suspendCurrent();
  }
  if (barrier == nullptr && !isAdversarial() && !hasChecks()) {
    what.run(what.argument);
    return;
  }
  Copy copy;
  copy.what = what;
  copy.argument.resize(what.argument_bytes / sizeof(ArgumentPiece) + 1);
  std::memcpy(copy.argument.data(), what.argument, what.argument_bytes);
  copy.agent = agent;
  copy.time = resources_.races.now();
  resources_.races.advance();
  if (barrier == nullptr) {
    groupsOf(*current_, what.group).open.push_back(std::move(copy));
  } else if (isAdversarial()) {
    copies_.push_back(std::move(copy));
  } else {
    complete(copy);
  }
}

void ClusterRun::complete(const Copy& copy) {
  copy.run();
  if (copy.what.barrier != nullptr) {
    PhaseBarrier& barrier = barriers_.find(copy.what.barrier)->second;
    barrier.expected_bytes -= copy.what.bytes;
    if (hasChecks()) {
      barrier.arriving.learn(copy.agent, copy.time);
    }
    checkPhase(barrier);
  }
}

void ClusterRun::commitCopies(unsigned group) {
  if (!isAdversarial() && !hasChecks()) {
    return; // they were carried out at once
  }
  CopyGroups& groups = groupsOf(*current_, group);
  groups.committed.push_back(std::move(groups.open));
  groups.open.clear();
}

// Completes the oldest groups until at most `pending` are left.
void ClusterRun::completeCopies(Thread& thread, unsigned group, size_t pending) {
  CopyGroups& groups = groupsOf(thread, group);
  while (groups.committed.size() > pending) {
    for (const Copy& copy : groups.committed.front()) {
      complete(copy);
      if (hasChecks()) {
        resources_.races.acquire(thread.index, copy.agent, copy.time);
      }
    }
    groups.committed.erase(groups.committed.begin());
  }
}

void ClusterRun::waitForCopies(unsigned group, unsigned pending) {
  if (!groups_.empty()) {
    completeCopies(*current_, group, pending);
  }
}

void ClusterRun::arriveAfterCopies(void* address, int line) {
  PhaseBarrier* barrier = barrierAt(address, line);
  if (hasChecks()) {
    resources_.races.release(current_->index, barrier->arriving);
  }
  late_arrivals_.push_back({current_, barrier});
  if (!isAdversarial()) {
    completeArrival(late_arrivals_.back());
    late_arrivals_.pop_back();
  }
}

void ClusterRun::completeArrival(const LateArrival& arrival) {
  CopyGroups& groups = groupsOf(*arrival.thread, kNvfHostSmallCopies);
  const auto finish_all = [&](std::vector<Copy>& copies) {
    for (const Copy& copy : copies) {
      complete(copy);
      if (hasChecks()) {
        arrival.barrier->arriving.learn(copy.agent, copy.time);
      }
    }
    copies.clear(); // later waits have nothing left to complete
  };
  for (std::vector<Copy>& committed : groups.committed) {
    finish_all(committed);
  }
  finish_all(groups.open);
  --arrival.barrier->pending;
  checkPhase(*arrival.barrier);
}

ClusterRun& running() {
  return *ClusterRun::current;
}

} // namespace

// NOLINTNEXTLINE(bugprone-throwing-static-initialization): nothing runs
constinit const NvfHostServices kHostServices = {
    [](int line) { running().waitFor(Wait::Block, line); },
    [](const void* address, unsigned bytes, bool is_write, bool must_be_shared, int line) {
      running().access(address, bytes, is_write, must_be_shared, line);
    },
    [](const char* message, int line) { running().fail(message, line); },
    [] { return running().place(); },
    [](void* mine) { return running().exchange(mine); },
    [](int line) { running().waitFor(Wait::BlockMeeting, line); },
    [](int line) { running().waitFor(Wait::Cluster, line); },
    [](int line) { running().waitFor(Wait::ClusterMeeting, line); },
    [](const void* address, unsigned rank) { return running().mapShared(address, rank); },
    [](int line) { running().waitFor(Wait::Warp, line); },
    [](void* barrier, unsigned count, int line) { running().initBarrier(barrier, count, line); },
    [](void* barrier, unsigned count, unsigned expected_bytes, int line) {
      running().arrive(barrier, count, expected_bytes, line);
    },
    [](void* barrier, unsigned parity, int line) {
      return running().testBarrier(barrier, parity, line);
    },
    [](void* barrier, unsigned parity, int line) { running().waitForPhase(barrier, parity, line); },
    [](const NvfHostCopy* copy, int line) { running().copy(*copy, line); },
    [](unsigned group) { running().commitCopies(group); },
    [](unsigned group, unsigned pending) { running().waitForCopies(group, pending); },
    [](void* barrier, int line) { running().arriveAfterCopies(barrier, line); },
    [] { running().fenceCopies(); },
    [](unsigned count, int line) { running().waitForPart(Wait::Part, count, line); },
    [](unsigned count, int line) { running().waitForPart(Wait::PartMeeting, count, line); },
    [](const void* address, unsigned bytes, bool is_write, int line) {
      running().accessGlobal(address, bytes, is_write, line);
    }};

void runCluster(LaunchState& state, NvfHostDim cluster) {
  ClusterRun(state, cluster).run();
}

char* hostSharedMemory(size_t bytes) {
  return threadResources().sharedMemory(bytes);
}

std::string toText(NvfHostDim d) {
  std::ostringstream text;
  text << "(" << d.x << ", " << d.y << ", " << d.z << ")";
  return text.str();
}

} // namespace nvfuser
