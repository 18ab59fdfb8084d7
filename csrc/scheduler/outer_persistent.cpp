// See outer_persistent.h.
#include <scheduler/outer_persistent.h>

#include <base/integer_math.h>
#include <cuda/resident_clusters.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace nvfuser {

namespace {

using Scope = ColumnShares::Scope;

constexpr int64_t kWarp = 32;
constexpr int64_t kRegisterBits = 32;
// Registers of a thread that hold rows: usually, and at most where they would not fit otherwise.
constexpr int64_t kRowRegisters = 32;
constexpr int64_t kMostRowRegisters = 64;
// Rows are unrolled: more elements than these make long kernels.
constexpr int64_t kMostElements = 128;
// Registers for everything else.
constexpr int64_t kOtherRegisters = 48;
constexpr int64_t kUsualThreads = 256;
constexpr int64_t kMostThreads = 512;
// Where there are few elements each SM still has so many threads.
constexpr int64_t kBusyThreads = 1024;
// Bytes that an SM requests at once when its memory is busy.
constexpr double kBusyBytes = 40 << 10;
// Microseconds.
constexpr double kBlockTime = 0.7;
// For each byte of a column's statistics and each block of a cluster; they are reduced one after
// the other.
constexpr double kClusterTimeOfByte = 0.06;
constexpr double kGridTime = 3;
constexpr double kKernelTime = 4;
constexpr double kClearlyLess = 0.95;
// Bandwidth of L2, as a multiple of the memory's.
constexpr double kCacheSpeed = 1.5;

class ShareChooser {
 public:
  ShareChooser(const ColumnsOnChip& shape, const DeviceInfo& device)
      : shape_(shape), device_(device), sms_(std::max(device.sm_count, 1)) {
    const double elements = static_cast<double>(shape.columns) * static_cast<double>(shape.rows);
    read_ = elements * shape.bytes_read;
    written_ = elements * shape.bytes_written;
    // Both edges of the clock, 90 % of what there is.
    bytes_per_us_ =
        std::max(1.0, 0.9 * 2e-3 * device.memory_clock_khz * device.memory_bus_bits / 8);
  }

  std::optional<ColumnShares> fastest() {
    const int64_t widest = powerOfTwoFrom(ceilDiv(shape_.columns, shape_.vector));
    auto threads = [&](int64_t bytes) {
      return std::clamp<int64_t>(bytes / (shape_.vector * shape_.narrowest), 1, widest);
    };
    for (int64_t blocks = 1; blocks <= device_.max_cluster_size; blocks *= 2) {
      for (int64_t x = std::min(kUsualThreads, widest); x >= threads(kShortestLine); x /= 2) {
        consider(blocks > 1 ? Scope::Cluster : Scope::Block, x, blocks);
      }
    }
    for (int64_t x = std::min(kUsualThreads, widest); x >= threads(kShortestLine); x /= 2) {
      considerGrid(x);
    }
    return best_;
  }

  double time() const {
    return best_time_;
  }

  // What little there is takes less time than starting another kernel.
  bool isSmall() const {
    return read_ + written_ < kKernelTime * bytes_per_us_;
  }

  // A kernel for each of the statistics, then one for the rest: what is left in L2 is read
  // faster.
  double timeOfSeveralKernels() const {
    const double again = read_ < static_cast<double>(device_.l2_bytes) / 2 ? 0.5 : 1;
    const auto more = static_cast<double>(shape_.combinations);
    return (read_ * (1 + more * again) + written_) / bytes_per_us_ + kKernelTime * more;
  }

 private:
  static constexpr int64_t kShortestLine = 32;

  int64_t groups(int64_t threads_x) const {
    return ceilDiv(shape_.columns, threads_x * shape_.vector);
  }
  int64_t elementsIn(int64_t registers) const {
    const int64_t bits = std::max<int64_t>(shape_.bits_kept, 1);
    return std::clamp(registers * kRegisterBits / bits, shape_.vector, kMostElements);
  }

  // All blocks of the grid at once, one on each SM: that there is room for.
  void considerGrid(int64_t threads_x) {
    const int64_t blocks = std::min(sms_ / groups(threads_x), shape_.rows);
    if (device_.cooperative_launch && blocks > 1) {
      consider(Scope::Grid, threads_x, blocks);
    }
  }

  void consider(Scope scope, int64_t threads_x, int64_t blocks) {
    ColumnShares shares{scope, threads_x, 1, blocks, 1};
    if (blocks > shape_.rows || !dealRows(shares)) {
      return;
    }
    const double time = estimate(shares);
    // More blocks that synchronize must be worth it.
    if (time > 0 && (!best_.has_value() || time < kClearlyLess * best_time_)) {
      best_ = shares;
      best_time_ = time;
    }
  }

  // Threads for each column and rows of each thread.
  bool dealRows(ColumnShares& s) const {
    const int64_t rows = ceilDiv(shape_.rows, s.blocks);
    const int64_t share = shape_.columns * shape_.rows / (sms_ * kBusyThreads);
    const int64_t wanted = std::clamp(powerOfTwoUpTo(std::max<int64_t>(share, 1)), shape_.vector,
                                      elementsIn(kRowRegisters));
    const int64_t most_y =
        std::min<int64_t>(kMostThreads, device_.max_threads_per_block) / s.threads_x;
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
    return s.batch * shape_.vector <= elementsIn(kMostRowRegisters);
  }

  int64_t sharedBytes(const ColumnShares& s) const {
    // Two reductions alternately, with padding.
    return 2 * s.threads_x * s.threads_y * shape_.vector * shape_.result_bytes * 9 / 8;
  }

  // Blocks that an SM has room for.
  int64_t blocksOfSm(const ColumnShares& s) const {
    const int64_t threads = s.threads_x * s.threads_y;
    const int64_t registers = roundUp(
        ceilDiv(s.batch * shape_.vector * shape_.bits_kept, kRegisterBits) + kOtherRegisters, 8);
    const auto shared = static_cast<int64_t>(device_.shared_reserved_per_block) + sharedBytes(s);
    return std::min({device_.registers_per_sm / (registers * roundUp(threads, kWarp)),
                     static_cast<int64_t>(device_.max_threads_per_sm) / threads,
                     static_cast<int64_t>(device_.max_blocks_per_sm),
                     static_cast<int64_t>(device_.shared_per_sm) / std::max<int64_t>(shared, 1)});
  }

  // Microseconds; 0 if it cannot run.
  double estimate(const ColumnShares& s) const {
    const int64_t per_sm = blocksOfSm(s);
    if (per_sm < 1 || sharedBytes(s) > static_cast<int64_t>(device_.shared_per_block_optin)) {
      return 0;
    }
    const int64_t blocks = groups(s.threads_x) * s.blocks;
    const int64_t at_once =
        per_sm * (s.scope == Scope::Cluster
                      ? residentClusters(device_, static_cast<int>(s.blocks)) * s.blocks
                      : sms_);
    if (s.scope == Scope::Grid && blocks > at_once) {
      return 0;
    }
    const int64_t waves = ceilDiv(blocks, at_once);
    const auto sms = static_cast<double>(sms_);
    const auto active = static_cast<double>(std::min(blocks, at_once));
    const double requested =
        active * static_cast<double>(s.threads_x * s.threads_y * s.batch * shape_.vector) *
        shape_.bytes_read;
    // An SM that is alone has twice its share of the bandwidth.
    const double busy =
        std::min({1.0, 2 * std::min(active, sms) / sms, requested / (sms * kBusyBytes)});
    const double data = (read_ + written_) / (bytes_per_us_ * busy * lineShare(s));
    // The last wave takes as long as the others.
    const double idle = waves > 3 ? 1.0
                                  : static_cast<double>(waves * at_once) /
                                        static_cast<double>(std::max(blocks, at_once));
    const double wait = s.scope == Scope::Block     ? kBlockTime
                        : s.scope == Scope::Cluster ? clusterTime(s)
                                                    : kGridTime + exchange(s);
    const double waiting = wait * static_cast<double>(waves * shape_.combinations);
    // Other blocks of the SM load meanwhile, if there are some.
    const double alone = waves == 1 ? 1.0 : per_sm == 1 ? 1.3 : per_sm == 2 ? 1.1 : 1.0;
    const double small = waves > 1 && s.threads_x * s.threads_y < kUsualThreads ? 1.1 : 1.0;
    const double clusters = s.scope == Scope::Cluster ? 1 + static_cast<double>(s.blocks) / 80 : 1;
    return data * idle * alone * small * clusters +
           waiting / static_cast<double>(waves > 1 ? per_sm : 1);
  }

  double clusterTime(const ColumnShares& s) const {
    return kClusterTimeOfByte * static_cast<double>(shape_.result_bytes * s.blocks);
  }

  // Every block of the grid reads the partials of all that share its columns.
  double exchange(const ColumnShares& s) const {
    const int64_t columns = s.threads_x * shape_.vector * s.blocks;
    const int64_t bytes = groups(s.threads_x) * s.blocks * columns * shape_.result_bytes;
    return static_cast<double>(bytes) / (kCacheSpeed * bytes_per_us_);
  }

  // The part of the bandwidth that accesses of so many bytes next to each other get.
  double lineShare(const ColumnShares& s) const {
    const int64_t bytes = std::min(s.threads_x * shape_.vector, shape_.columns) * shape_.narrowest;
    return bytes >= 128 ? 1.0 : bytes >= 64 ? 0.87 : bytes >= 32 ? 0.65 : 0.3;
  }

  const ColumnsOnChip& shape_;
  const DeviceInfo& device_;
  int64_t sms_;
  double read_ = 0;
  double written_ = 0;
  double bytes_per_us_ = 1;
  std::optional<ColumnShares> best_;
  double best_time_ = 0;
};

} // namespace

ColumnShares shareColumns(const ColumnsOnChip& exact, const DeviceInfo& device, std::string* why) {
  // In steps, so that a few more columns do not take another kernel.
  ColumnsOnChip shape = exact;
  shape.columns = roundUp(exact.columns, std::max<int64_t>(powerOfTwoUpTo(exact.columns) / 4, 1));
  ShareChooser chooser(shape, device);
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
