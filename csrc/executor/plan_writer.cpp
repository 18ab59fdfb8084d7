// SPDX-License-Identifier: BSD-3-Clause
// The queue of plans to be written, and the thread that writes them.
#include <executor/plan_writer.h>

#include <target/disk_cache.h>

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace nvfuser {
namespace {

// By their keys.
using Plans = std::map<std::string, std::string>;

void writeAll(const Plans& plans) {
  for (const auto& [key, bytes] : plans) {
    CompiledBinary entry;
    entry.bytes = bytes;
    KernelDiskCache::instance().store(key, entry);
  }
}

class PlanWriter {
 public:
  void add(const std::string& key, std::string bytes) {
    // A disk that does not keep up: it is a cache, some plans are not kept.
    constexpr size_t kMostWaiting = 1024;
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= kMostWaiting) {
      return;
    }
    waiting_.insert_or_assign(key, std::move(bytes));
    if (!std::exchange(is_started_, true)) {
      start();
    }
    if (waiting_.size() == 1) {
      added_.notify_one();
    }
  }

  std::optional<std::string> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    for (const Plans* plans : {&waiting_, &being_written_}) {
      if (auto it = plans->find(key); it != plans->end()) {
        return it->second;
      }
    }
    return std::nullopt;
  }

  void finish() {
    Plans rest;
    std::unique_lock lock(mutex_);
    rest.swap(waiting_);
    lock.unlock();
    writeAll(rest);
    lock.lock();
    written_.wait(lock, [this] { return being_written_.empty(); });
  }

 private:
  // Signals are for the program's threads.
  void start() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { serve(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void serve() {
    // Several plans that are made one after the other wake the thread once.
    constexpr std::chrono::milliseconds kGathering(10);
    std::unique_lock lock(mutex_);
    while (true) {
      added_.wait(lock, [this] { return !waiting_.empty(); });
      lock.unlock();
      std::this_thread::sleep_for(kGathering);
      lock.lock();
      being_written_.swap(waiting_);
      lock.unlock();
      writeAll(being_written_);
      lock.lock();
      being_written_.clear();
      written_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable added_, written_;
  bool is_started_ = false;
  Plans waiting_;
  Plans being_written_; // changed with the mutex, by the thread alone
};

// Never freed: the thread may outlive static destruction. A forked child has no such thread, and
// maybe a locked mutex: it forgets the writer and makes another.
std::atomic<PlanWriter*> writer{nullptr};

PlanWriter& currentWriter() {
  static const bool is_registered = [] {
    pthread_atfork(nullptr, nullptr, [] { writer.store(nullptr); });
    std::atexit(finishWritingPlans);
    return true;
  }();
  (void)is_registered;
  PlanWriter* current = writer.load();
  if (current == nullptr) {
    auto* made = new PlanWriter();
    if (writer.compare_exchange_strong(current, made)) {
      return *made;
    }
    delete made;
  }
  return *current;
}

} // namespace

void writePlanLater(const std::string& stored_key, std::string bytes) {
  currentWriter().add(stored_key, std::move(bytes));
}

std::optional<std::string> findUnwrittenPlan(const std::string& stored_key) {
  PlanWriter* current = writer.load();
  return current == nullptr ? std::nullopt : current->find(stored_key);
}

void finishWritingPlans() {
  if (PlanWriter* current = writer.load()) {
    current->finish();
  }
}

} // namespace nvfuser
