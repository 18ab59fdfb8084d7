// SPDX-License-Identifier: BSD-3-Clause
// The happens-before relation of a cluster's threads and copies; see race_check.h.
#include <host/race_check.h>

#include <algorithm>

namespace nvfuser {

namespace {

void joinTimes(std::vector<uint32_t>& times, const std::vector<uint32_t>& others) {
  times.resize(std::max(times.size(), others.size()), 0);
  for (size_t i = 0; i < others.size(); ++i) {
    times[i] = std::max(times[i], others[i]);
  }
}

} // namespace

void RaceCheck::Knowledge::join(const Knowledge& other) {
  joinTimes(blocks, other.blocks);
  joinTimes(agents, other.agents);
}

void RaceCheck::Knowledge::learn(int agent, uint32_t time) {
  const auto index = static_cast<size_t>(agent);
  agents.resize(std::max(agents.size(), index + 1), 0);
  agents[index] = std::max(agents[index], time);
}

void RaceCheck::reset(int blocks, int threads_per_block, size_t stride, bool only_barriers) {
  only_barriers_ = only_barriers;
  threads_per_block_ = threads_per_block;
  threads_ = blocks * threads_per_block;
  now_ = 1;
  auto nothing = std::make_shared<Knowledge>();
  nothing->blocks.assign(static_cast<size_t>(blocks), 0);
  known_.assign(static_cast<size_t>(threads_), nothing);
  fences_.assign(static_cast<size_t>(threads_), 0);
  bytes_.assign(static_cast<size_t>(blocks) * stride, Byte());
  readers_.clear();
}

bool RaceCheck::isOrdered(int agent, uint32_t time, const Knowledge& knowledge, int thread) const {
  if (agent == thread) {
    return true;
  }
  const auto index = static_cast<size_t>(agent);
  if (agent < threads_ && knowledge.blocks[index / threads_per_block_] >= time) {
    return true;
  }
  return index < knowledge.agents.size() && knowledge.agents[index] >= time;
}

// Whether what any thread did at that time is known by a barrier.
bool RaceCheck::isBeforeBarrier(uint32_t time, const Knowledge& knowledge) const {
  return std::all_of(knowledge.blocks.begin(), knowledge.blocks.end(),
                     [&](uint32_t known) { return known >= time; });
}

// The reader that a write of `agent` races with.
int RaceCheck::raceWithReaders(size_t offset, const Byte& byte, int agent, int thread) const {
  const Knowledge& knowledge = *known_[thread];
  const auto races = [&](int reader, uint32_t time) {
    return reader != agent && !isOrdered(reader, time, knowledge, thread);
  };
  if (byte.reader != kSeveral) {
    return byte.reader != kNone && races(byte.reader, byte.read_time) ? byte.reader : kNone;
  }
  if (only_barriers_) {
    return isBeforeBarrier(byte.read_time, knowledge) ? kNone : kSeveral;
  }
  const Times& times = readers_.at(offset);
  for (size_t reader = 0; reader < times.size(); ++reader) {
    if (times[reader] != 0 && races(static_cast<int>(reader), times[reader])) {
      return static_cast<int>(reader);
    }
  }
  return kNone;
}

void RaceCheck::addReader(size_t offset, Byte& byte, int agent, int thread) {
  const Knowledge& knowledge = *known_[thread];
  const auto is_replaced = [&] {
    if (byte.reader == kSeveral) {
      return only_barriers_ && isBeforeBarrier(byte.read_time, knowledge);
    }
    return byte.reader == kNone || byte.reader == agent ||
           isOrdered(byte.reader, byte.read_time, knowledge, thread);
  };
  if (is_replaced()) {
    byte.reader = agent;
  } else if (!only_barriers_) {
    Times& times = readers_[offset];
    const auto set = [&](int reader, uint32_t time) {
      times.resize(std::max(times.size(), static_cast<size_t>(reader) + 1), 0);
      times[reader] = time;
    };
    if (byte.reader != kSeveral) {
      times.clear();
      set(byte.reader, byte.read_time);
    }
    set(agent, now_);
    byte.reader = kSeveral;
  } else {
    byte.reader = kSeveral;
  }
  byte.read_time = now_;
}

int RaceCheck::access(size_t offset, size_t bytes, int agent, int thread, bool is_write) {
  int other = kNone;
  for (size_t i = offset; i < offset + bytes; ++i) {
    Byte& byte = bytes_[i];
    if (byte.writer != kNone && byte.writer != agent &&
        !isOrdered(byte.writer, byte.write_time, *known_[thread], thread)) {
      other = byte.writer;
    }
    if (!is_write) {
      const bool is_unfenced = agent >= threads_ && byte.writer != kNone &&
                               byte.writer < threads_ &&
                               std::max(fences_[byte.writer], fences_[thread]) < byte.write_time;
      other = other == kNone && is_unfenced ? kUnfenced : other;
      addReader(i, byte, agent, thread);
      continue;
    }
    const int reader = raceWithReaders(i, byte, agent, thread);
    other = reader != kNone ? reader : other;
    byte.writer = agent;
    byte.write_time = now_;
    byte.reader = kNone;
  }
  return other;
}

void RaceCheck::fence(int thread) {
  fences_[thread] = now_;
  advance();
}

void RaceCheck::barrier(int first, int end) {
  auto joined = std::make_shared<Knowledge>(*known_[first]);
  for (int t = first + 1; t < end; ++t) {
    if (known_[t] != known_[t - 1]) {
      joined->join(*known_[t]);
    }
  }
  if (end - first < threads_per_block_) {
    for (int t = first; t < end; ++t) {
      joined->learn(t, now_);
    }
  } else {
    std::fill(joined->blocks.begin() + first / threads_per_block_,
              joined->blocks.begin() + end / threads_per_block_, now_);
  }
  std::fill(known_.begin() + first, known_.begin() + end, joined);
  advance();
}

void RaceCheck::release(int thread, Knowledge& to) {
  to.join(*known_[thread]);
  to.learn(thread, now_);
  advance();
}

void RaceCheck::acquire(int thread, const Knowledge& from) {
  auto joined = std::make_shared<Knowledge>(*known_[thread]);
  joined->join(from);
  known_[thread] = std::move(joined);
}

void RaceCheck::acquire(int thread, int agent, uint32_t time) {
  auto joined = std::make_shared<Knowledge>(*known_[thread]);
  joined->learn(agent, time);
  known_[thread] = std::move(joined);
}

} // namespace nvfuser
