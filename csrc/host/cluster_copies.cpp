// SPDX-License-Identifier: BSD-3-Clause
// The mbarriers and asynchronous copies of a cluster; see cluster.h.
#include <host/cluster_run.h>

#include <cstring>

namespace nvfuser::cluster {

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

} // namespace nvfuser::cluster
