// SPDX-License-Identifier: BSD-3-Clause
// See memory_order.h.
#include <segment/memory_order.h>

#include <ir/exprs.h>
#include <segment/traffic.h>

#include <algorithm>
#include <set>
#include <unordered_map>

namespace nvfuser {

namespace {

bool writesInPlace(const Segment& segment) {
  return std::any_of(segment.exprs.begin(), segment.exprs.end(), [](const Expr* e) {
    const auto* scatter = dynamic_cast<const ScatterOp*>(e);
    return e->kind() == ExprKind::ScatterStoreOp || (scatter != nullptr && scatter->isInPlace());
  });
}

bool mayDraw(const Segment& segment) {
  return std::any_of(segment.exprs.begin(), segment.exprs.end(), [](const Expr* e) {
    const auto* op = dynamic_cast<const LibraryOp*>(e);
    return op != nullptr && op->op() == LibraryOpType::SdpaFwd;
  });
}

// What segments read and write, by number.
class MemoryOrder {
 public:
  explicit MemoryOrder(const std::vector<Segment>& segments)
      : made_(segments.size()), read_(segments.size()), readers_(segments.size()) {
    std::vector<size_t> drawing;
    for (size_t s = 0; s < segments.size(); ++s) {
      for (const Val* out : segments[s].outputs) {
        made_[s].push_back(tensors_.size());
        number_.emplace(out, tensors_.size());
        tensors_.push_back({sizeOf(out), s, out->isFusionOutput(), 0});
      }
      std::set<size_t> before;
      for (const Val* in : segments[s].inputs) {
        if (const auto it = number_.find(in); it != number_.end()) {
          read_[s].push_back(it->second);
          ++tensors_[it->second].num_readers;
          before.insert(tensors_[it->second].maker);
        }
      }
      if (mayDraw(segments[s])) {
        before.insert(drawing.begin(), drawing.end());
        drawing = {s};
      }
      for (const size_t each : before) {
        readers_[each].push_back(s);
      }
      num_before_.push_back(before.size());
    }
  }

  double peakOf(const std::vector<size_t>& order) const {
    std::vector<size_t> left = numReaders();
    double now = 0;
    double most = 0;
    for (const size_t s : order) {
      most = std::max(most, now + bytesMade(s));
      now += bytesMade(s) - take(s, left);
    }
    return most;
  }

  // Among the first that are ready.
  std::vector<size_t> leastFirst() const {
    constexpr size_t kMostTries = 32;
    std::vector<size_t> left = numReaders();
    std::vector<size_t> waits_for = num_before_;
    std::set<size_t> ready;
    for (size_t s = 0; s < made_.size(); ++s) {
      if (waits_for[s] == 0) {
        ready.insert(s);
      }
    }
    std::vector<size_t> order;
    while (!ready.empty()) {
      size_t best = *ready.begin();
      double least = bytesAdded(best, left);
      size_t tries = 0;
      for (auto it = ready.begin(); it != ready.end() && tries < kMostTries; ++it, ++tries) {
        if (const double added = bytesAdded(*it, left); added < least) {
          best = *it;
          least = added;
        }
      }
      ready.erase(best);
      take(best, left);
      order.push_back(best);
      for (const size_t next : readers_[best]) {
        if (--waits_for[next] == 0) {
          ready.insert(next);
        }
      }
    }
    return order;
  }

 private:
  struct Tensor {
    double bytes;
    size_t maker;
    bool is_result;
    size_t num_readers;
  };

  std::vector<size_t> numReaders() const {
    std::vector<size_t> out;
    for (const Tensor& tensor : tensors_) {
      out.push_back(tensor.num_readers);
    }
    return out;
  }

  double bytesMade(size_t s) const {
    double bytes = 0;
    for (const size_t t : made_[s]) {
      bytes += tensors_[t].bytes;
    }
    return bytes;
  }

  // Of what the segment reads last; `left` counts who is still to read.
  double bytesFreed(size_t s, const std::vector<size_t>& left) const {
    double bytes = 0;
    for (const size_t t : read_[s]) {
      bytes += left[t] == 1 && !tensors_[t].is_result ? tensors_[t].bytes : 0;
    }
    return bytes;
  }

  double bytesAdded(size_t s, const std::vector<size_t>& left) const {
    return bytesMade(s) - bytesFreed(s, left);
  }

  double take(size_t s, std::vector<size_t>& left) const {
    const double freed = bytesFreed(s, left);
    for (const size_t t : read_[s]) {
      --left[t];
    }
    return freed;
  }

  std::unordered_map<const Val*, size_t> number_;
  std::vector<Tensor> tensors_;
  std::vector<std::vector<size_t>> made_, read_; // by segment
  std::vector<std::vector<size_t>> readers_;     // segments that come after it
  std::vector<size_t> num_before_;
};

} // namespace

void orderForMemory(std::vector<Segment>& segments) {
  if (segments.size() < 3 || std::any_of(segments.begin(), segments.end(), writesInPlace)) {
    return;
  }
  const MemoryOrder memory(segments);
  std::vector<size_t> as_it_is(segments.size());
  for (size_t s = 0; s < segments.size(); ++s) {
    as_it_is[s] = s;
  }
  const std::vector<size_t> order = memory.leastFirst();
  // Neighbours that read the same tensor find it in L2, which is not given up for little.
  constexpr double kNotably = 0.98;
  if (memory.peakOf(order) >= kNotably * memory.peakOf(as_it_is)) {
    return;
  }
  std::vector<Segment> ordered;
  for (const size_t s : order) {
    ordered.push_back(std::move(segments[s]));
  }
  segments = std::move(ordered);
}

} // namespace nvfuser
