// See row_walk.h.
#include <scheduler/row_walk.h>

#include <base/integer_math.h>
#include <runtime/resident_clusters.h>

#include <algorithm>
#include <bit>

namespace nvfuser {

namespace {

constexpr int64_t kWarp = 32;
// Threads that share a row in a block, elements of it that each of them has if all inputs take so
// many bytes of it, and the most for rows that no cluster holds otherwise: registers keep the sums
// of the columns and two rows.
constexpr int64_t kRowThreads = 512;
constexpr int64_t kElements = 16;
constexpr int64_t kBytesOfElements = 64;
constexpr int64_t kMostElements = 32;
constexpr int64_t kVector = 8;
// Of a walker that reduces the next row ahead: that one, the one in use, and one or two on their
// way.
constexpr int64_t kFewestRowsAhead = 3;
constexpr int64_t kMostRowsAhead = 4;

int64_t threadsOfWalker(int64_t columns, int64_t elements) {
  const int64_t wanted = ceilDiv(columns, elements);
  return wanted <= kWarp ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wanted)))
                         : ceilDiv(wanted, kWarp) * kWarp;
}

// Which of the elements of a row a thread has, and in how large a cluster; threads are 0 if it is
// too long.
struct RowShare {
  int64_t cluster = 1;
  int64_t elements = kElements;
  int64_t threads = 0;
};

RowShare shareRow(const WalkedRows& walked, int64_t most_walking, const DeviceInfo& device) {
  // Larger clusters leave some multiprocessors idle.
  constexpr int64_t kSmallCluster = 4;
  // With a register for each sum of each of the most elements.
  constexpr int64_t kThreadsWithManySums = 320;
  int64_t most_threads = std::min<int64_t>(kRowThreads, device.max_threads_per_block);
  const int64_t most_cluster = std::max(device.max_cluster_size, 1);
  const auto threads = [&](const RowShare& share) {
    return threadsOfWalker(ceilDiv(walked.columns, share.cluster), share.elements);
  };
  RowShare share;
  share.elements =
      std::clamp(powerOfTwoUpTo(kBytesOfElements / std::max<int64_t>(walked.row_bytes, 1)), kVector,
                 kElements);
  while (share.cluster < most_cluster && threads(share) > most_threads) {
    share.cluster *= 2;
  }
  while (share.elements < kMostElements && threads(share) > most_threads) {
    share.elements += kVector;
  }
  if (share.elements > kElements && walked.sums > 1) {
    share.elements = kMostElements;
    most_threads = std::min(most_threads, kThreadsWithManySums);
  }
  if (threads(share) > most_threads) {
    return share;
  }
  // Several short walkers fill a multiprocessor better than one that is long, but not enough.
  const auto walking = [&](const RowShare& one) {
    return most_walking / threads(one) * threads(one);
  };
  for (RowShare other = share;
       walked.sums == 1 && (other.cluster *= 2) <= std::min(most_cluster, kSmallCluster);) {
    if (4 * walking(share) < 3 * most_walking && 4 * walking(other) >= 5 * walking(share)) {
      share = other;
    }
  }
  share.threads = threads(share);
  return share;
}

// Clusters whose next rows are reduced ahead: no row is in registers, but some are in shared
// memory. Threads are 0 if there is no such share.
RowShare shareRowAhead(const WalkedRows& walked, const DeviceInfo& device) {
  constexpr int64_t kRegistersOfSums = 64;
  constexpr int64_t kManyElements = 24;
  constexpr int64_t kUsualCluster = 8;
  const int64_t most_threads = std::min<int64_t>(kRowThreads, device.max_threads_per_block);
  const int64_t most_elements =
      std::min({kMostElements, kRegistersOfSums / walked.sums,
                sharedForRows(device) / (kFewestRowsAhead * most_threads * walked.row_bytes)}) /
      kVector * kVector;
  RowShare share;
  share.cluster = 2;
  if (most_elements == 0 || walked.columns % kVector != 0) {
    return share; // rows that are no vectors are not copied asynchronously
  }
  while (walked.columns > share.cluster * most_threads * most_elements) {
    share.cluster *= 2;
  }
  const auto elements = [&] {
    const int64_t needed = ceilDiv(walked.columns, share.cluster * most_threads);
    return std::max(ceilDiv(needed, kVector) * kVector, std::min(kElements, most_elements));
  };
  // Clusters of 4 leave as many multiprocessors idle as those of 8, with fewer rows on their way.
  if (share.cluster > 2 && 2 * share.cluster <= kUsualCluster && elements() > kManyElements) {
    share.cluster *= 2;
  }
  if (share.cluster > device.max_cluster_size) {
    return share;
  }
  share.elements = elements();
  share.threads = threadsOfWalker(ceilDiv(walked.columns, share.cluster), share.elements);
  return share;
}

// Two rows in registers: enough where combinations within small clusters are waited for.
bool waitsLittle(const RowShare& share, int64_t sums, int64_t most_walking) {
  constexpr int64_t kClusterOfOneSum = 8;
  constexpr int64_t kClusterOfSums = 2;
  if (share.threads == 0) {
    return false;
  }
  return sums == 1 ? share.cluster <= kClusterOfOneSum
                   : share.cluster < kClusterOfSums ||
                         (share.cluster == kClusterOfSums && share.threads == most_walking);
}

} // namespace

int64_t sharedForRows(const DeviceInfo& device) {
  constexpr int64_t kReserved = 16 << 10; // for combinations of threads and blocks
  return static_cast<int64_t>(device.shared_per_block_optin) - kReserved;
}

RowWalk chooseRowWalk(const WalkedRows& walked, const DeviceInfo& device) {
  // A walker takes so many rows at least, if there are enough.
  constexpr int64_t kFewestRows = 4;
  // Threads of a multiprocessor that registers for their sums are left for.
  const int64_t most_walking =
      std::min<int64_t>(walked.sums > 1 ? 512 : 640, device.max_threads_per_block);
  RowWalk walk;
  RowShare share = shareRow(walked, most_walking, device);
  if (walked.reduced_once && walked.row_bytes > 0 &&
      !waitsLittle(share, walked.sums, most_walking)) {
    const RowShare ahead = shareRowAhead(walked, device);
    if (ahead.threads > 0) {
      share = ahead;
      walk.reduces_ahead = true;
    }
  }
  if (share.threads == 0) {
    return walk;
  }
  walk.cluster = share.cluster;
  walk.threads = share.threads;
  const int64_t clusters = residentClusters(device, static_cast<int>(walk.cluster));
  const int64_t most = powerOfTwoUpTo(walked.rows / kFewestRows);
  const int64_t blocks = std::clamp<int64_t>(clusters, 1, most);
  walk.walkers_per_block =
      std::min(std::max<int64_t>(most_walking / walk.threads, 1), powerOfTwoUpTo(most / blocks));
  walk.walkers = blocks * walk.walkers_per_block;
  // Where registers are short.
  constexpr int64_t kSumsInRegisters = 24;
  constexpr int64_t kSmallCluster = 2;
  if (walk.reduces_ahead) {
    const int64_t elements = walk.threads * walk.walkers_per_block * share.elements;
    walk.rows_under_way = std::clamp(sharedForRows(device) / (elements * walked.row_bytes),
                                     kFewestRowsAhead, kMostRowsAhead);
  } else if (share.elements > kElements && walked.sums * share.elements > kSumsInRegisters) {
    walk.rows_under_way = 3;
  } else if (walked.sums > 1 && share.elements == kElements &&
             (walk.cluster == 1 || (walk.cluster <= kSmallCluster &&
                                    walk.threads * walk.walkers_per_block < most_walking))) {
    walk.rows_under_way = 4;
  }
  return walk;
}

} // namespace nvfuser
