// SPDX-License-Identifier: BSD-3-Clause
// See outer_persistent.h.
#include <scheduler/outer_persistent.h>

#include <base/integer_math.h>

#include <algorithm>
#include <numeric>
#include <optional>

namespace nvfuser {

namespace {

using Scope = ColumnShares::Scope;

// Rows are unrolled: more elements than these make long kernels.
constexpr int64_t kMostElements = 128;

class ShareChooser {
 public:
  ShareChooser(const ColumnsOnChip& shape, const MachineModel& machine)
      : shape_(shape), machine_(machine) {
    const double elements = static_cast<double>(shape.columns) * static_cast<double>(shape.rows);
    traffic_ = {elements * shape.bytes_read, elements * shape.bytes_written};
  }

  std::optional<ColumnShares> fastest() {
    const int64_t widest = powerOfTwoFrom(ceilDiv(shape_.columns, shape_.vector));
    auto threads = [&](int64_t bytes) {
      return std::clamp<int64_t>(bytes / (shape_.vector * shape_.narrowest), 1, widest);
    };
    const int64_t most = std::min(machine_.usualThreads(), widest);
    const int64_t fewest = threads(machine_.sector_bytes);
    for (int64_t blocks = 1; blocks <= machine_.max_cluster; blocks *= 2) {
      for (int64_t x = most; x >= fewest; x /= 2) {
        consider(blocks > 1 ? Scope::Cluster : Scope::Block, x, blocks);
      }
    }
    for (int64_t x = most; x >= fewest; x /= 2) {
      considerGrid(x);
    }
    return best_;
  }

  double time() const {
    return best_time_;
  }

  // What little there is takes less time than starting another kernel.
  bool isSmall() const {
    return traffic_.read + traffic_.written < machine_.kernel_start * machine_.memory_bandwidth;
  }

  // A kernel for each of the statistics, then one for the rest.
  double timeOfSeveralKernels() const {
    return microsecondsOfKernels(shape_.reductions, traffic_, machine_);
  }

 private:
  int64_t groups(int64_t threads_x) const {
    return ceilDiv(shape_.columns, threads_x * shape_.vector);
  }
  int64_t elementsIn(int64_t registers) const {
    const int64_t bits = std::max<int64_t>(shape_.bits_kept, 1);
    return std::clamp(registers * kRegisterBytes * 8 / bits, shape_.vector, kMostElements);
  }

  // All blocks of the grid at once, one on each SM: that there is room for.
  void considerGrid(int64_t threads_x) {
    const int64_t blocks = std::min(machine_.sms / groups(threads_x), shape_.rows);
    if (machine_.cooperative_launch && blocks > 1) {
      consider(Scope::Grid, threads_x, blocks);
    }
  }

  void consider(Scope scope, int64_t threads_x, int64_t blocks) {
    ColumnShares shares{scope, threads_x, 1, blocks, 1};
    if (blocks > shape_.rows || !dealRows(shares)) {
      return;
    }
    const double time = microseconds(tileOf(shares), traffic_, machine_);
    // More blocks that synchronize must be worth it.
    if (time > 0 && (!best_.has_value() || time < kClearlyLess * best_time_)) {
      best_ = shares;
      best_time_ = time;
    }
  }

  // Threads for each column and rows of each thread.
  bool dealRows(ColumnShares& s) const {
    const int64_t rows = ceilDiv(shape_.rows, s.blocks);
    const int64_t share = shape_.columns * shape_.rows / (machine_.sms * machine_.busyThreads());
    const int64_t wanted = std::clamp(powerOfTwoUpTo(std::max<int64_t>(share, 1)), shape_.vector,
                                      elementsIn(machine_.elementsOfThread()));
    const int64_t most_y =
        std::min(machine_.largeThreads(), machine_.max_threads_per_block) / s.threads_x;
    if (most_y < 1) {
      return false;
    }
    const int64_t step = kWarp / std::gcd(s.threads_x, kWarp); // to whole warps
    auto whole = [&](int64_t y) {
      return y * s.threads_x <= kWarp ? y : std::min(roundUp(y, step), most_y);
    };
    s.threads_y = whole(std::min(ceilDiv(rows * shape_.vector, wanted), most_y));
    s.batch = ceilDiv(rows, s.threads_y);
    s.threads_y = whole(ceilDiv(rows, s.batch));
    return s.batch * shape_.vector <= elementsIn(2 * machine_.elementsOfThread());
  }

  Tile tileOf(const ColumnShares& s) const {
    Tile tile;
    tile.threads = s.threads_x * s.threads_y;
    const int64_t elements = s.batch * shape_.vector;
    tile.registers =
        registersBeside(ceilDiv(elements * shape_.bits_kept, kRegisterBytes * 8), machine_);
    // Two reductions alternately.
    tile.shared_bytes = 2 * tile.threads * shape_.vector * shape_.result_bytes;
    tile.blocks = groups(s.threads_x) * s.blocks;
    tile.requested_bytes = static_cast<double>(tile.threads * elements) * shape_.bytes_read;
    const int64_t columns = s.threads_x * shape_.vector;
    tile.run_bytes = std::min(columns, shape_.columns) * shape_.narrowest;
    tile.scope = s.scope;
    tile.sharing = s.blocks;
    tile.results = columns;
    tile.result_bytes = shape_.result_bytes;
    tile.reductions = shape_.reductions;
    return tile;
  }

  const ColumnsOnChip& shape_;
  const MachineModel& machine_;
  Traffic traffic_;
  std::optional<ColumnShares> best_;
  double best_time_ = 0;
};

} // namespace

ColumnShares shareColumns(const ColumnsOnChip& exact, const MachineModel& machine,
                          std::string* why) {
  // In steps between two powers of two, so that a few more columns do not take another kernel.
  constexpr int64_t kSteps = 4;
  ColumnsOnChip shape = exact;
  shape.columns =
      roundUp(exact.columns, std::max<int64_t>(powerOfTwoUpTo(exact.columns) / kSteps, 1));
  ShareChooser chooser(shape, machine);
  const std::optional<ColumnShares> best = chooser.fastest();
  if (!best.has_value()) {
    *why = std::to_string(exact.columns) + " columns of " + std::to_string(shape.rows) +
           " elements do not fit on chip";
    return {};
  }
  if (!chooser.isSmall() && chooser.time() > chooser.timeOfSeveralKernels()) {
    *why = "columns of " + std::to_string(shape.rows) +
           " elements are read again in less time than it takes to share them";
    return {};
  }
  return *best;
}

} // namespace nvfuser
