// SPDX-License-Identifier: BSD-3-Clause
// The longest run of axes along a tensor in memory (layout.h).
#include <id_model/layout.h>

#include <set>
#include <tuple>

namespace nvfuser {

namespace {

using Domains = std::vector<DomainNumber>;

Domains with(Domains domains, std::initializer_list<DomainNumber> more) {
  domains.insert(domains.end(), more);
  return domains;
}

// Goes from the innermost axis outwards. An axis is the next digit in memory, or is taken apart as
// it was made. As domains may be made in several ways, this is a search.
class RunFinder {
 public:
  RunFinder(std::span<const MemoryDigit> memory, const DomainSteps& steps)
      : memory_(memory), steps_(steps) {}

  ContiguousRun find(Domains axes) {
    extend({std::move(axes), {}, {}});
    return std::move(best_);
  }

 private:
  // More states than any schedule has; a graph where much is the same in many ways ends here.
  static constexpr size_t kMostStates = 512;

  struct Path {
    Domains axes; // that are left
    ContiguousRun run;
    std::vector<Val*> length; // of the digits so far
    // Digits without which there is no run: a part of one was taken.
    size_t needed = 1;
    // Vectors that divide what was taken divide the axes that are left.
    bool is_divided = false;
  };

  void extend(Path path) {
    while (!path.axes.empty() && steps_.isOne(path.axes.back())) {
      path.axes.pop_back();
    }
    if (seen_.size() == kMostStates || !seen_.emplace(path.axes, path.run.digits).second) {
      return;
    }
    if (path.axes.empty()) {
      path.run.covers_axes = true;
      finish(std::move(path));
      return;
    }
    const DomainNumber axis = path.axes.back();
    const size_t left = memory_.size() - path.run.digits;
    if (left > 0 && memory_[left - 1].domain == axis) {
      if (memory_[left - 1].contiguous) {
        path.axes.pop_back();
        ++path.run.digits;
        path.length.push_back(memory_[left - 1].extent);
        extend(std::move(path));
      } else {
        path.is_divided = false;
        finish(std::move(path));
      }
      return;
    }
    for (const DomainStep& step : steps_.stepsTo(axis)) {
      Path next = path;
      next.axes.pop_back();
      follow(step, std::move(next));
    }
    path.is_divided = false;
    finish(std::move(path));
  }

  // The axis behind those that are left is what the step makes.
  void follow(const DomainStep& step, Path path) {
    switch (step.kind) {
      case DomainStep::Kind::Merge:
        path.axes = with(std::move(path.axes), {step.a, step.b});
        extend(std::move(path));
        break;
      case DomainStep::Kind::SplitInner:
        followInner(step, std::move(path));
        break;
      case DomainStep::Kind::SplitOuter:
        break;
      case DomainStep::Kind::Resize:
        // Behind other dimensions it would have to be whole.
        if (path.length.empty()) {
          path.axes = {step.a};
          path.run.multiples.push_back({step.v0});
          path.run.multiples.push_back({step.v1});
          path.run.resized = true;
          path.is_divided = false;
          extend(std::move(path));
        }
        break;
      case DomainStep::Kind::Align:
        followAligned(step, std::move(path));
        break;
    }
  }

  void followInner(const DomainStep& step, Path path) {
    Domains rest = path.axes;
    if (step.b >= 0 && take(rest, step.b, kMostTaken)) {
      if (step.exact) {
        path.axes = with(std::move(rest), {step.a});
      } else {
        path.axes = {step.a};
        path.is_divided = false;
      }
      extend(std::move(path));
    } else if (step.v0 != nullptr) {
      std::vector<Val*> part = path.length;
      part.push_back(step.v0);
      path.run.multiples.push_back(std::move(part));
      path.axes = {step.a};
      path.needed = path.run.digits + 1;
      path.is_divided = step.exact;
      extend(std::move(path));
    }
  }

  // Rows of any length that lie one after the other begin and end within vectors, which are whole
  // and aligned in memory as far as that has rows.
  void followAligned(const DomainStep& step, Path path) {
    if (!step.exact || !path.length.empty()) {
      return;
    }
    const ContiguousRun rows = RunFinder(memory_, steps_).find({step.a, step.b});
    if (rows.digits == memory_.size() && rows.isOnePiece()) {
      if (!path.is_divided) {
        path.run.multiples.push_back({step.v0});
      }
      path.run.digits = memory_.size();
      offer(std::move(path.run));
    }
  }

  static constexpr int kMostTaken = 16;

  // Takes the axes off the end that are the domain, all of it.
  bool take(Domains& axes, DomainNumber domain, int depth) const {
    while (!axes.empty() && steps_.isOne(axes.back())) {
      axes.pop_back();
    }
    if (axes.empty() || depth == 0) {
      return false;
    }
    const DomainNumber last = axes.back();
    Domains before(axes.begin(), axes.end() - 1);
    if (last == domain) {
      axes = std::move(before);
      return true;
    }
    for (const DomainStep& step : steps_.stepsTo(last)) {
      Domains other;
      if (step.kind == DomainStep::Kind::Merge) {
        other = with(before, {step.a, step.b});
      } else if (step.kind == DomainStep::Kind::SplitInner && step.exact && step.b >= 0) {
        other = before;
        if (!take(other, step.b, depth - 1)) {
          continue;
        }
        other.push_back(step.a);
      } else {
        continue;
      }
      if (take(other, domain, depth - 1)) {
        axes = std::move(other);
        return true;
      }
    }
    return false;
  }

  // The axes are at an end, or memory goes on with something else.
  void finish(Path path) {
    if (path.run.digits < path.needed) {
      return;
    }
    if (!path.is_divided) {
      path.run.multiples.push_back(std::move(path.length));
    }
    offer(std::move(path.run));
  }

  void offer(ContiguousRun run) {
    auto rank = [](const ContiguousRun& r) {
      return std::tuple(!r.empty(), !r.resized, r.digits,
                        -static_cast<int64_t>(r.multiples.size()));
    };
    if (rank(run) > rank(best_)) {
      best_ = std::move(run);
    }
  }

  std::span<const MemoryDigit> memory_;
  const DomainSteps& steps_;
  std::set<std::pair<Domains, size_t>> seen_;
  ContiguousRun best_;
};

} // namespace

ContiguousRun contiguousRun(std::span<const MemoryDigit> memory, std::span<const DomainNumber> axes,
                            const DomainSteps& steps) {
  return RunFinder(memory, steps).find({axes.begin(), axes.end()});
}

} // namespace nvfuser
