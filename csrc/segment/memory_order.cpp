// SPDX-License-Identifier: BSD-3-Clause
// See memory_order.h.
#include <segment/memory_order.h>

#include <ir/exprs.h>
#include <runtime/in_place_hazard.h>
#include <segment/library_segment.h>
#include <segment/loops.h>
#include <segment/traffic.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

namespace nvfuser {

namespace {

bool writesInPlace(const Segment& segment) {
  return std::any_of(segment.exprs.begin(), segment.exprs.end(), [](const Expr* e) {
    const auto* scatter = tryAs<ScatterOp>(e);
    return e->kind() == ExprKind::ScatterStoreOp || (scatter != nullptr && scatter->isInPlace());
  });
}

bool mayDraw(const Segment& segment) {
  return std::any_of(segment.exprs.begin(), segment.exprs.end(), [](const Expr* e) {
    const auto* op = tryAs<LibraryOp>(e);
    return op != nullptr && op->op() == LibraryOpType::SdpaFwd;
  });
}

// The tensors that lie in the memory of one.
std::vector<const Val*> writtenTo(const Val* tensor) {
  const Expr* e = tensor->definition();
  if (e == nullptr || !isOfMemory(e)) {
    return {tensor};
  }
  if (const auto* view = tryAs<MemoryViewOp>(e)) {
    return writtenTo(view->in());
  }
  return {e->inputs().begin(), e->inputs().end()};
}

// What segments read and write, by number.
class MemoryOrder {
 public:
  explicit MemoryOrder(const std::vector<Segment>& segments)
      : made_(segments.size()),
        read_(segments.size()),
        after_(segments.size()),
        before_(segments.size()) {
    std::vector<size_t> drawing;
    for (size_t s = 0; s < segments.size(); ++s) {
      const LibraryOp* op = librarySegmentOp(segments[s].exprs);
      taken_.push_back(op == nullptr ? 0 : bytesTaken(*op));
      for (const Val* out : segments[s].outputs) {
        made_[s].push_back(tensors_.size());
        number_.emplace(out, tensors_.size());
        tensors_.push_back({sizeOf(out), s, out->isFusionOutput(), {}});
      }
      std::set<size_t> before;
      for (const Val* in : segments[s].inputs) {
        for (const Val* written : writtenTo(in)) {
          if (const auto it = number_.find(written); it != number_.end()) {
            read_[s].push_back(it->second);
            tensors_[it->second].readers.push_back(s);
            before.insert(tensors_[it->second].maker);
          }
        }
      }
      if (mayDraw(segments[s])) {
        before.insert(drawing.begin(), drawing.end());
        drawing = {s};
      }
      for (const size_t each : before) {
        after_[each].push_back(s);
      }
      before_[s].assign(before.begin(), before.end());
      findOverwrites(segments[s], s);
      reads_nothing_.push_back(std::none_of(segments[s].inputs.begin(), segments[s].inputs.end(),
                                            [](const Val* v) { return v->isTensor(); }));
    }
  }

  double peakOf(const std::vector<size_t>& order) const {
    std::vector<size_t> left = numReaders();
    double now = 0;
    double most = 0;
    for (const size_t s : order) {
      most = std::max(most, now + bytesMade(s) - bytesOverwritten(s, left) + taken_[s]);
      now += bytesMade(s) - take(s, left);
    }
    return most;
  }

  // The same order, but what adds more than it would keep from being freed comes later: right
  // before it is read, or at the end. The gradient of a weight that is computed of what the caller
  // holds anyway need not be there while another one is.
  std::vector<size_t> addLate(const std::vector<size_t>& order) const {
    std::vector<size_t> late = order;
    std::vector<size_t> place(order.size());
    for (size_t p = 0; p < late.size(); ++p) {
      place[late[p]] = p;
    }
    std::vector<bool> has_moved(order.size(), false);
    for (size_t i = order.size(); i-- > 0;) {
      const size_t s = order[i];
      const size_t from = place[s];
      const size_t to = latestPlace(s, late, place, has_moved);
      const auto at = [&](size_t p) { return late.begin() + static_cast<std::ptrdiff_t>(p); };
      std::rotate(at(from), at(from + 1), at(to + 1));
      for (size_t p = from; p <= to; ++p) {
        place[late[p]] = p;
      }
      has_moved[s] = to != from;
    }
    return late;
  }

  // The same order, but what reads nothing comes right before what reads that.
  std::vector<size_t> fillLate(const std::vector<size_t>& order) const {
    std::vector<size_t> late;
    std::set<size_t> waiting;
    for (const size_t s : order) {
      if (reads_nothing_[s]) {
        waiting.insert(s);
        continue;
      }
      for (const size_t each : before_[s]) {
        if (waiting.erase(each) != 0) {
          late.push_back(each);
        }
      }
      late.push_back(s);
    }
    late.insert(late.end(), waiting.begin(), waiting.end());
    return late;
  }

  std::vector<size_t> leastFirst() const {
    std::vector<size_t> left = numReaders();
    return oneByOne<std::less<>>(
        before_, after_, [&](size_t s) { return bytesAdded(s, left); },
        [&](size_t s) { take(s, left); });
  }

  // From the end: what makes more than it reads, and is not read by what comes before, is last.
  std::vector<size_t> mostLast() const {
    std::vector<bool> is_live(tensors_.size());
    for (size_t t = 0; t < tensors_.size(); ++t) {
      is_live[t] = tensors_[t].is_result;
    }
    std::vector<size_t> order = oneByOne<std::greater<>>(
        after_, before_, [&](size_t s) { return bytesKept(s, is_live); },
        [&](size_t s) {
          for (const size_t t : read_[s]) {
            is_live[t] = true;
          }
        });
    std::ranges::reverse(order);
    return order;
  }

 private:
  using Lists = std::vector<std::vector<size_t>>;

  // Each has the least bytes among those that are ready, as all that they wait for has its place:
  // the first of these in this order of numbers. `take`: it has its place.
  template <class Order, class Bytes, class Take>
  static std::vector<size_t> oneByOne(const Lists& waits_for, const Lists& waited_for_by,
                                      Bytes bytes, Take take) {
    constexpr size_t kMostTries = 32; // so that planning stays linear
    std::vector<size_t> left = numOf(waits_for);
    std::set<size_t, Order> ready;
    for (size_t s = 0; s < left.size(); ++s) {
      if (left[s] == 0) {
        ready.insert(s);
      }
    }
    std::vector<size_t> order;
    while (!ready.empty()) {
      size_t best = *ready.begin();
      double least = bytes(best);
      size_t tries = 0;
      for (auto it = ready.begin(); it != ready.end() && tries < kMostTries; ++it, ++tries) {
        if (const double own = bytes(*it); own < least) {
          best = *it;
          least = own;
        }
      }
      ready.erase(best);
      take(best);
      order.push_back(best);
      for (const size_t next : waited_for_by[best]) {
        if (--left[next] == 0) {
          ready.insert(next);
        }
      }
    }
    return order;
  }

  struct Tensor {
    double bytes;
    size_t maker;
    bool is_result;
    std::vector<size_t> readers;
  };

  // What a kernel reads last may make room for what it writes.
  void findOverwrites(const Segment& segment, size_t s) {
    overwrites_.emplace_back();
    if (!visitsEachElementOnce(segment)) {
      return;
    }
    for (size_t i = 0; i < segment.inputs.size(); ++i) {
      const auto* in = tryAs<TensorView>(segment.fusion->inputs()[i]);
      const std::vector<const Val*> written =
          in == nullptr ? std::vector<const Val*>() : writtenTo(segment.inputs[i]);
      const auto from = written.size() == 1 ? number_.find(written.front()) : number_.end();
      if (from == number_.end() || !isLargest(segment, in)) {
        continue;
      }
      for (size_t o = 0; o < segment.outputs.size(); ++o) {
        const auto* out = segment.fusion->outputs()[o]->as<TensorView>();
        if (out->dtype() == in->dtype() && sameShape(in, out)) {
          overwrites_[s].emplace_back(from->second, made_[s][o]);
        }
      }
    }
  }

  double bytesOverwritten(size_t s, const std::vector<size_t>& left) const {
    double bytes = 0;
    std::set<size_t> taken;
    for (const auto& [from, to] : overwrites_[s]) {
      const bool is_free = left[from] == 1 && !tensors_[from].is_result && taken.count(from) == 0 &&
                           taken.count(to) == 0;
      if (is_free && tensors_[from].bytes == tensors_[to].bytes) {
        taken.insert({from, to});
        bytes += tensors_[to].bytes;
      }
    }
    return bytes;
  }

  // Where a segment of an order adds for the shortest time. Those that come late themselves keep
  // their order.
  size_t latestPlace(size_t s, const std::vector<size_t>& order, const std::vector<size_t>& place,
                     const std::vector<bool>& has_moved) const {
    constexpr size_t kFarthest = 256; // so that planning stays linear
    size_t last = std::min(order.size(), place[s] + kFarthest) - 1;
    for (const size_t reader : after_[s]) {
      last = std::min(last, place[reader] - 1);
    }
    // What is read, by the place from which on nothing else keeps it.
    std::map<size_t, double> kept;
    for (const size_t t : read_[s]) {
      if (!tensors_[t].is_result) {
        size_t free_after = place[s];
        for (const size_t reader : tensors_[t].readers) {
          free_after = std::max(free_after, reader == s ? 0 : place[reader]);
        }
        kept[free_after] += tensors_[t].bytes;
      }
    }
    double bytes = 0;
    for (const auto& [free_after, more] : kept) {
      bytes += more;
      if (bytes >= bytesMade(s)) {
        last = std::min(last, std::max(place[s], free_after - 1));
        break;
      }
    }
    while (last > place[s] && has_moved[order[last]]) {
      --last;
    }
    return last;
  }

  static std::vector<size_t> numOf(const Lists& lists) {
    std::vector<size_t> out;
    for (const std::vector<size_t>& list : lists) {
      out.push_back(list.size());
    }
    return out;
  }

  std::vector<size_t> numReaders() const {
    std::vector<size_t> out;
    for (const Tensor& tensor : tensors_) {
      out.push_back(tensor.readers.size());
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

  // What must be there before a segment, less what must not any more, if everything behind it has
  // its place. What only it reads need not be there before its own maker, and so on.
  double bytesKept(size_t s, const std::vector<bool>& is_live) const {
    constexpr int kMostSteps = 16;
    double bytes = 0;
    double least = std::numeric_limits<double>::max();
    for (int step = 0; step < kMostSteps; ++step) {
      const size_t* maker = nullptr;
      size_t num_new = 0;
      bytes -= bytesMade(s);
      for (const size_t t : read_[s]) {
        if (!is_live[t]) {
          bytes += tensors_[t].bytes;
          maker = &tensors_[t].maker;
          ++num_new;
        }
      }
      least = std::min(least, bytes);
      if (num_new != 1 || after_[*maker].size() != 1 || made_[*maker].size() != 1) {
        break;
      }
      s = *maker;
    }
    return least;
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
  std::vector<std::vector<size_t>> after_;       // segments that need it
  std::vector<std::vector<size_t>> before_;      // segments that it needs
  // Pairs of tensors of a segment, of which the second may be written over the first.
  std::vector<std::vector<std::pair<size_t, size_t>>> overwrites_;
  std::vector<bool> reads_nothing_; // no tensor
  std::vector<double> taken_;       // while it runs, by a library for itself
};

} // namespace

double peakBytes(const std::vector<Segment>& segments) {
  std::vector<size_t> order(segments.size());
  std::iota(order.begin(), order.end(), 0);
  return MemoryOrder(segments).peakOf(order);
}

void orderForMemory(std::vector<Segment>& segments) {
  if (segments.size() < 2 || std::any_of(segments.begin(), segments.end(), writesInPlace)) {
    return;
  }
  const MemoryOrder memory(segments);
  std::vector<size_t> best(segments.size());
  std::iota(best.begin(), best.end(), 0);
  double least = memory.peakOf(best);
  // Neighbours that read the same tensor find it in L2, which is not given up for little.
  const std::vector<size_t> least_first = memory.leastFirst();
  const std::vector<size_t> most_last = memory.mostLast();
  for (const auto& order : {memory.addLate(best), least_first, memory.addLate(least_first),
                            most_last, memory.addLate(most_last)}) {
    if (const double peak = memory.peakOf(order); peak < kNotably * least) {
      least = peak;
      best = order;
    }
  }
  std::vector<Segment> ordered;
  for (const size_t s : memory.fillLate(best)) {
    ordered.push_back(std::move(segments[s]));
  }
  segments = std::move(ordered);
}

} // namespace nvfuser
