// SPDX-License-Identifier: BSD-3-Clause
// The threads of a cluster and their barriers; see cluster.h.
#include <host/cluster_run.h>

#include <algorithm>
#include <cstring>
#include <sstream>

namespace nvfuser {
namespace cluster {

Resources& threadResources() {
  static thread_local Resources resources;
  return resources;
}

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

} // namespace cluster

namespace {

using cluster::Wait;

cluster::ClusterRun& running() {
  return *cluster::ClusterRun::current;
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
  cluster::ClusterRun(state, cluster).run();
}

char* hostSharedMemory(size_t bytes) {
  return cluster::threadResources().sharedMemory(bytes);
}

std::string toText(NvfHostDim d) {
  std::ostringstream text;
  text << "(" << d.x << ", " << d.y << ", " << d.z << ")";
  return text.str();
}

} // namespace nvfuser
