// SPDX-License-Identifier: BSD-3-Clause
// Finds accesses to shared memory (and to global memory that blocks exchange values through) that
// nothing orders: the happens-before relation of the threads
// of a cluster, kept while they run one after the other. Barriers order everything before them; an
// mbarrier orders what its arrivals had seen before what its waiters do next. Asynchronous copies
// are agents of their own whose accesses are ordered before a thread once it has waited for them.
//
// The method is that of Flanagan and Freund, "FastTrack: efficient and precise dynamic race
// detection" (PLDI 2009), with one clock for all agents, as only one of them runs at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace nvfuser {

class RaceCheck {
 public:
  // What an agent knows to have happened: everything up to a time, for the threads of each block,
  // and for single agents.
  struct Knowledge {
    std::vector<uint32_t> blocks;
    std::vector<uint32_t> agents;

    void join(const Knowledge& other);
    void learn(int agent, uint32_t time);
  };

  // Threads are the agents [0, blocks * threads_per_block), copies those after them. A block's
  // memory begins at a multiple of `stride`. Unless `only_barriers` say what comes before what,
  // every reader of a byte is remembered, which costs memory.
  void reset(int blocks, int threads_per_block, size_t stride, bool only_barriers);

  // More memory, after that of the blocks.
  void extend(size_t bytes) {
    bytes_.resize(bytes);
  }

  static constexpr int kNone = -1;
  static constexpr int kSeveral = -2;
  static constexpr int kUnfenced = -3;
  // Accesses by `agent`, which knows what `thread` knows. Returns the agent that it races with,
  // kSeveral or kNone; kUnfenced when a copy reads what was written without a proxy fence.
  int access(size_t offset, size_t bytes, int agent, int thread, bool is_write);

  // What `thread` wrote may be read by copies.
  void fence(int thread);
  // The threads [first, end) synchronize: those of whole blocks, or of a warp.
  void barrier(int first, int end);
  // `thread` passes on what it knows, its own accesses included.
  void release(int thread, Knowledge& to);
  void acquire(int thread, const Knowledge& from);
  // `thread` has waited for what the agent did up to `time`.
  void acquire(int thread, int agent, uint32_t time);

  uint32_t now() const {
    return now_;
  }
  void advance() {
    ++now_;
  }

 private:
  struct Byte {
    uint32_t write_time = 0, read_time = 0; // of the last access
    int32_t writer = kNone, reader = kNone; // reader kSeveral: in readers_ if that is kept
  };
  using Times = std::vector<uint32_t>; // of the last read by each agent

  bool isOrdered(int agent, uint32_t time, const Knowledge& knowledge, int thread) const;
  bool isBeforeBarrier(uint32_t time, const Knowledge& knowledge) const;
  int raceWithReaders(size_t offset, const Byte& byte, int agent, int thread) const;
  void addReader(size_t offset, Byte& byte, int agent, int thread);

  bool only_barriers_ = true;
  int threads_per_block_ = 1;
  int threads_ = 0;
  uint32_t now_ = 1;
  std::vector<std::shared_ptr<const Knowledge>> known_; // by each thread; shared after barriers
  std::vector<uint32_t> fences_;                        // of each thread: when it was last fenced
  std::vector<Byte> bytes_;
  std::unordered_map<size_t, Times> readers_;
};

} // namespace nvfuser
