// SPDX-License-Identifier: BSD-3-Clause
// See row_groups.h.
#include <scheduler/row_groups.h>

#include <base/integer_math.h>
#include <scheduler/cost.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace nvfuser {

namespace {

// Rows of a group in shared memory, at most.
constexpr int64_t kMostSharedRows = 4;

// Threads that share a row in a block.
int64_t mostRowThreads(const MachineModel& machine) {
  return std::min(machine.largeThreads(), machine.max_threads_per_block);
}

// Elements of a row that a thread has where registers keep the sums of its columns and two rows.
int64_t elementsOfGroup(const MachineModel& machine) {
  return machine.elementsOfThread() / 2;
}

// Threads of an SM that have registers for that.
int64_t threadsOfGroups(const MachineModel& machine) {
  const int64_t registers = registersBeside(3 * elementsOfGroup(machine), machine);
  const int64_t threads = machine.registers_per_sm / registers;
  return std::min(threads / machine.fewThreads() * machine.fewThreads(),
                  machine.max_threads_per_block);
}

int64_t threadsOfGroup(int64_t columns, int64_t elements) {
  const int64_t wanted = ceilDiv(columns, elements);
  return wanted <= kWarp ? powerOfTwoFrom(wanted) : roundUp(wanted, kWarp);
}

// Of a thread, for each of its elements of a row: the sums, and what it has of so many rows.
int64_t registersKept(const GroupedRows& grouped, int64_t elements, int64_t half_rows) {
  return elements * grouped.sums +
         ceilDiv(elements * std::max<int64_t>(grouped.row_bytes, 1) * half_rows,
                 2 * kRegisterBytes);
}

int64_t registersOfRows(const GroupedRows& grouped, int64_t elements, int64_t half_rows,
                        const MachineModel& machine) {
  return machine.other_registers + registersKept(grouped, elements, half_rows);
}

// So many if all inputs have few bytes of each.
int64_t fewElements(int64_t row_bytes, const MachineModel& machine) {
  return std::clamp(powerOfTwoUpTo(machine.bytesOfThread() / std::max<int64_t>(row_bytes, 1)),
                    kElementsOfVector, elementsOfGroup(machine));
}

// Types that are converted, and leave registers for it: less than a register for each of the two
// inputs of a gradient.
bool isNarrow(const GroupedRows& grouped) {
  return grouped.row_bytes < 2 * kRegisterBytes;
}

// Elements that an access to any of the rows takes at once, of narrow types.
int64_t elementsAtOnce(const GroupedRows& grouped) {
  return std::gcd(grouped.columns, kElementsOfVector);
}

// Rows of an odd number of 16-bit elements are read one by one: nothing copies them to shared
// memory, so the next row is in registers.
bool canBeCopied(const GroupedRows& grouped) {
  return elementsAtOnce(grouped) > 1 || !isNarrow(grouped);
}

// Copies of two such elements are slower than loads of the next row into registers (H200: a layer
// norm backward of 5002 columns 86 us, 64 with loads).
bool areCopied(const GroupedRows& grouped) {
  return elementsAtOnce(grouped) > 2 || !isNarrow(grouped);
}

// How rows are shared out on one SM; threads are 0 if they are too long.
struct RowShare {
  int64_t cluster = 1;
  int64_t elements = 1; // of a row that a thread has
  int64_t threads = 0;  // of a group
  int64_t groups = 1;
};

bool fitsSharedMemory(const GroupedRows& grouped, const RowShare& share, int64_t rows,
                      const MachineModel& machine) {
  return rows * share.groups * share.threads * share.elements *
             std::max<int64_t>(grouped.row_bytes, 1) <=
         machine.sharedForTensors();
}

// For the rows under way: in shared memory, or the next one in registers beside the one in use. A
// share with room for these and the sums alone may spill, one without does. The fewest elements
// that a thread can have are taken as they are.
bool hasRoom(const GroupedRows& grouped, const RowShare& share, int64_t rows_under_way,
             const MachineModel& machine) {
  return share.elements <= fewElements(grouped.row_bytes, machine) ||
         (rows_under_way > 2 && fitsSharedMemory(grouped, share, rows_under_way, machine)) ||
         registersKept(grouped, share.elements, 4) <=
             registersOfThread(share.threads * share.groups, machine);
}

// --- one sum for each column ---

RowShare shareRow(const GroupedRows& grouped, const MachineModel& machine) {
  const int64_t most_busy = threadsOfGroups(machine);
  const int64_t most_threads = mostRowThreads(machine);
  const int64_t most_cluster = machine.max_cluster;
  const auto threads = [&](const RowShare& share) {
    return threadsOfGroup(ceilDiv(grouped.columns, share.cluster), share.elements);
  };
  RowShare share;
  share.elements = fewElements(grouped.row_bytes, machine);
  while (share.cluster < most_cluster && threads(share) > most_threads) {
    share.cluster *= 2;
  }
  while (share.elements < machine.elementsOfThread() && threads(share) > most_threads) {
    share.elements += kElementsOfVector;
  }
  if (threads(share) > most_threads) {
    return share;
  }
  // Several short groups fill a multiprocessor better than one that is long, but not enough.
  constexpr double kBusyEnough = 0.75; // of the threads that may be
  constexpr double kFillsMore = 1.25;
  const auto busy = [&](const RowShare& one) {
    return static_cast<double>(most_busy / threads(one) * threads(one));
  };
  const auto fills = [&](const RowShare& other) {
    return busy(share) < kBusyEnough * static_cast<double>(most_busy) &&
           busy(other) >= kFillsMore * busy(share);
  };
  const int64_t small_cluster = machine.usual_cluster / 2; // larger ones leave some SMs idle
  for (RowShare other = share; (other.cluster *= 2) <= std::min(most_cluster, small_cluster);) {
    if (fills(other)) {
      share = other;
    }
  }
  // So do fewer blocks with half as many elements again, of float32.
  if (share.elements < elementsOfGroup(machine) && share.cluster > 1) {
    RowShare fewer = share;
    fewer.cluster /= 2;
    fewer.elements += fewer.elements / 2;
    fewer.threads = threads(fewer);
    if (fewer.threads <= most_threads && fills(fewer) && hasRoom(grouped, fewer, 2, machine)) {
      share = fewer;
    }
  }
  share.threads = threads(share);
  share.groups = std::max<int64_t>(most_busy / share.threads, 1);
  return share;
}

// --- several sums: rows are under way in shared memory ---

// Which share of registers, threads and shared memory is best, by the time that an SM takes for the
// rows that its groups have at once.
class Sharer {
 public:
  Sharer(const GroupedRows& grouped, const MachineModel& machine)
      : grouped_(grouped),
        row_bytes_(std::max<int64_t>(grouped.row_bytes, 1)),
        machine_(machine),
        usual_threads_(mostRowThreads(machine)),
        most_threads_(threadsOfGroups(machine)) {}

  // In the smallest cluster that holds a row: the blocks of a larger one wait longer for each
  // other.
  RowShare best() const {
    const std::vector<int64_t> choices = elementsToTry();
    for (int64_t cluster = 1; cluster <= machine_.max_cluster; cluster *= 2) {
      RowShare best;
      for (const int64_t elements : choices) {
        for (const int64_t most : {usual_threads_, most_threads_}) {
          if (elements <= machine_.fewerElements()) {
            improve(best, shareOf(cluster, elements, most));
          }
        }
      }
      if (best.threads > 0) {
        return best;
      }
    }
    return longest();
  }

  // In clusters two rows in registers are better, unless there are few threads or they would not
  // fit. Powers of two are counted round by one instruction.
  int64_t rowsUnderWay(const RowShare& share) const {
    if (!areCopied(grouped_)) {
      return 2;
    }
    const int64_t threads = share.threads * share.groups;
    const bool is_small = share.cluster <= 2 && threads < usual_threads_;
    if (share.cluster > 1 && isNarrow(grouped_) && !is_small &&
        registersWithNextRow(share.elements) <= registersOfThread(threads, machine_)) {
      return 2;
    }
    return hasSharedMemory(share, kMostSharedRows)                ? kMostSharedRows
           : hasSharedMemory(share, RowGroups::kFewestSharedRows) ? RowGroups::kFewestSharedRows
                                                                  : 2;
  }

 private:
  std::vector<int64_t> elementsToTry() const {
    const int64_t few = fewElements(row_bytes_, machine_);
    if (areCopied(grouped_)) {
      return {few, few * 3 / 2, few * 2};
    }
    std::vector<int64_t> out;
    const int64_t step = elementsAtOnce(grouped_);
    for (int64_t elements = few; 2 * elements >= few; elements -= step) {
      out.push_back(elements);
    }
    for (int64_t elements = few + step; step > 1 && 2 * elements <= 3 * few; elements += step) {
      out.push_back(elements); // in registers for few threads
    }
    return out;
  }

  bool hasSharedMemory(const RowShare& share, int64_t rows) const {
    return fitsSharedMemory(grouped_, share, rows, machine_);
  }

  // For rows that no cluster holds otherwise.
  RowShare longest() const {
    RowShare share;
    share.cluster = machine_.max_cluster;
    share.elements = machine_.elementsOfThread();
    const int64_t threads =
        threadsOfGroup(ceilDiv(grouped_.columns, share.cluster), share.elements);
    // Twice as many elements: half as many threads have registers.
    share.threads = threads <= most_threads_ / 2 ? threads : 0;
    return share;
  }

  // As many groups as there is room for.
  RowShare shareOf(int64_t cluster, int64_t elements, int64_t most_threads) const {
    RowShare share;
    share.cluster = cluster;
    share.elements = elements;
    const int64_t columns = ceilDiv(grouped_.columns, cluster);
    const int64_t threads = threadsOfGroup(columns, elements);
    if (!areCopied(grouped_)) {
      share.elements = roundUp(ceilDiv(columns, threads), elementsAtOnce(grouped_));
    }
    for (share.groups = most_threads / threads; share.groups > 0; --share.groups) {
      share.threads = threads;
      if (fits(share)) {
        return share;
      }
    }
    share.threads = 0;
    return share;
  }

  bool fits(const RowShare& share) const {
    const int64_t threads = share.threads * share.groups;
    if (!canBeCopied(grouped_)) {
      return threads <= usual_threads_;
    }
    if (!areCopied(grouped_)) {
      // A kernel without copies has two units more for elements.
      return registersWithNextRow(share.elements) <=
             registersOfThread(threads, machine_) + 2 * machine_.register_unit;
    }
    if (share.elements == fewElements(row_bytes_, machine_) && threads <= usual_threads_) {
      return true;
    }
    return registers(share.elements) <= registersOfThread(threads, machine_) &&
           hasSharedMemory(share,
                           share.cluster == 1 ? RowGroups::kFewestSharedRows : kMostSharedRows);
  }

  // Of a thread: the sums, the rows in use and what all rows share.
  int64_t registers(int64_t elements) const {
    return registersOfRows(grouped_, elements, 3, machine_);
  }
  int64_t registersWithNextRow(int64_t elements) const {
    return registers(elements) + ceilDiv(elements * row_bytes_, kRegisterBytes);
  }

  // The better one by a margin, as what takes fewer threads and elements has been tried first.
  void improve(RowShare& best, const RowShare& other) const {
    constexpr double kMargin = 0.9; // of the time [rows, see machine.h]
    if (other.threads > 0 && (best.threads == 0 || cost(other) < kMargin * cost(best))) {
      best = other;
    }
  }

  // Microseconds of an SM for a byte of its rows.
  double cost(const RowShare& share) const {
    // For an element [rows]; conversions of narrow types are instructions too.
    constexpr double kInstructions = 15;
    constexpr double kWithConversions = 24;
    const double instructions = isNarrow(grouped_) ? kWithConversions : kInstructions;
    const int64_t bytes = share.groups * ceilDiv(grouped_.columns, share.cluster) * row_bytes_;
    return microsecondsOfIteration(share.threads * share.groups, bytes,
                                   static_cast<double>(share.elements) * instructions, machine_) /
           static_cast<double>(bytes);
  }

  const GroupedRows& grouped_;
  int64_t row_bytes_;
  const MachineModel& machine_;
  int64_t usual_threads_;
  int64_t most_threads_;
};

// --- large clusters: the reduction of the next row is prefetched ---

// Registers of a thread that may hold sums of columns.
int64_t registersOfSums(const MachineModel& machine) {
  return 2 * machine.elementsOfThread();
}

// No row is in registers, but some are in shared memory. Threads are 0 if there is no such share.
RowShare shareRowToPrefetch(const GroupedRows& grouped, const MachineModel& machine) {
  const int64_t most_threads = mostRowThreads(machine);
  const int64_t most_elements =
      std::min({machine.elementsOfThread(), registersOfSums(machine) / grouped.sums,
                machine.sharedForTensors() /
                    (RowGroups::kFewestSharedRows * most_threads * grouped.row_bytes)}) /
      kElementsOfVector * kElementsOfVector;
  RowShare share;
  share.cluster = 2;
  if (most_elements == 0 || grouped.columns % kElementsOfVector != 0) {
    return share; // rows that are no vectors are not copied asynchronously
  }
  // One sum: more blocks with fewer elements, so that four rows are under way (measured,
  // docs/measurements/normalizations.md). Larger clusters leave more multiprocessors idle.
  const auto elementsIn = [&](int64_t cluster) {
    return grouped.sums == 1 && cluster < machine.usual_cluster
               ? std::min(machine.fewerElements(), most_elements)
               : most_elements;
  };
  while (grouped.columns > share.cluster * most_threads * elementsIn(share.cluster)) {
    share.cluster *= 2;
  }
  if (share.cluster > machine.max_cluster) {
    return share;
  }
  const int64_t columns = ceilDiv(grouped.columns, share.cluster);
  share.elements = std::max(roundUp(ceilDiv(columns, most_threads), kElementsOfVector),
                            std::min(elementsOfGroup(machine), most_elements));
  // Equal shares need no guards (measured, docs/measurements/normalizations.md).
  for (int64_t more = share.elements; more <= most_elements; more += kElementsOfVector) {
    if (columns % (more * kWarp) == 0) {
      share.elements = more;
      break;
    }
  }
  share.threads = threadsOfGroup(columns, share.elements);
  return share;
}

// Whether little would be gained by prefetching the reduction: there is one block, or an
// iteration of the small cluster takes long.
bool waitsLittle(const RowShare& share, const GroupedRows& grouped, const MachineModel& machine) {
  if (share.threads == 0) {
    return false;
  }
  const int64_t wide = grouped.sums == 1 ? machine.usual_cluster : machine.usual_cluster / 2;
  return share.cluster <= (isNarrow(grouped) ? 1 : wide);
}

struct GroupCounts {
  int64_t rows_of_block = 1;
  int64_t count = 1;
};

// As many as there are rows for: a group makes several iterations.
GroupCounts groupsOfRows(int64_t rows, int64_t clusters, int64_t most_in_block) {
  const int64_t most = powerOfTwoUpTo(rows / RowGroups::kFewestRows);
  const int64_t groups = std::clamp<int64_t>(clusters, 1, most);
  return {std::min(most_in_block, powerOfTwoUpTo(most / groups)), groups};
}

} // namespace

AnyRowGroups chooseAnyRowGroups(const GroupedRows& grouped, const MachineModel& machine) {
  AnyRowGroups groups;
  groups.threads = powerOfTwoUpTo(mostRowThreads(machine));
  const int64_t few = fewElements(grouped.row_bytes, machine);
  // Of those that are read one by one each has a register of its own, beside the row in use and
  // what all rows share: as many bytes as three and a half rows. A spilled one would be waited for
  // at once.
  constexpr int64_t kHalfRows = 7;
  int64_t few_singles = few;
  while (registersOfRows(grouped, few_singles, kHalfRows, machine) + machine.register_unit >
         registersOfThread(groups.threads, machine)) {
    --few_singles;
  }
  const int64_t few_in_block = canBeCopied(grouped) ? few : few_singles;
  const int64_t most_cluster = powerOfTwoUpTo(machine.max_cluster);
  const auto fits = [&](int64_t rows, int64_t elements) {
    return rows * groups.threadsOfBlock() * elements * std::max<int64_t>(grouped.row_bytes, 1) <=
           machine.sharedForTensors();
  };
  if (grouped.columns <= groups.threads * few_in_block) {
    groups.elements = few_in_block;
    // Two rows in a block of as many threads as have registers: one alone is slower (measured,
    // docs/measurements/normalizations.md). Rows that are under way in registers need too many for
    // that.
    const int64_t all = canBeCopied(grouped) ? threadsOfGroups(machine) : groups.threads;
    groups.rows_of_block = std::min(all, machine.max_threads_per_block) / kWarp;
  } else if (grouped.reduced_once && grouped.row_bytes > 0 &&
             grouped.columns % kElementsOfVector == 0) {
    // As few blocks as registers for the sums and the row in use allow, while the other rows are in
    // shared memory. More elements would spill (docs/measurements/normalizations.md).
    groups.elements = machine.elementsOfThread();
    while (registersOfRows(grouped, groups.elements, 2, machine) >
               registersOfThread(groups.threads, machine) ||
           !fits(RowGroups::kFewestSharedRows, groups.elements)) {
      groups.elements -= kElementsOfVector;
    }
    groups.cluster = most_cluster;
    groups.prefetches_reduction = groups.elements > 0;
  } else {
    groups.elements = grouped.columns % kElementsOfVector == 0 ? few : few_singles;
    groups.cluster = most_cluster;
  }
  if (grouped.columns > groups.threads * groups.elements * groups.cluster) {
    groups.elements = 0;
  }
  if (groups.prefetches_reduction ||
      (grouped.sums > 1 && canBeCopied(grouped) && groups.cluster == 1)) {
    groups.rows_under_way =
        fits(kMostSharedRows, groups.elements) ? kMostSharedRows : RowGroups::kFewestSharedRows;
    groups.rows_under_way =
        fits(groups.rows_under_way, groups.elements) ? groups.rows_under_way : 2;
  }
  return groups;
}

int64_t rowGroupsOf(const AnyRowGroups& groups, const GroupedRows& grouped,
                    const MachineModel& machine) {
  if (groups.elements == 0) {
    return 0;
  }
  const int64_t needed = powerOfTwoFrom(ceilDiv(grouped.columns, groups.threads * groups.elements));
  const int64_t cluster = groups.cluster > 1 ? std::max(needed, RowGroups::kFewestBlocks) : needed;
  // Whether there are few rows is the same for all lengths: if longer rows, of which fewer are
  // under way at once, had these kernels and shorter ones others, twice as many would be compiled.
  if (grouped.rows < residentClusters(1, machine)) {
    return RowGroups::kFewRows;
  }
  return groupsOfRows(grouped.rows, residentClusters(cluster, machine), groups.rows_of_block).count;
}

namespace {

// The sums of columns and the row in use stay in the core's cache.
RowGroups rowGroupsInLoops(const GroupedRows& grouped, const MachineModel& machine) {
  RowGroups groups;
  const int64_t bytes = grouped.columns * (grouped.sums * kRegisterBytes + grouped.row_bytes);
  if (bytes > machine.keptBesideRows()) {
    return groups;
  }
  groups.threads =
      std::clamp(powerOfTwoUpTo(grouped.columns), machine.lanes, machine.lanesAtOnce());
  groups.count = std::min(machine.sms, grouped.rows);
  return groups;
}

} // namespace

bool fitsRegisters(const GroupedRows& grouped, int64_t elements, int64_t threads,
                   const MachineModel& machine) {
  return elements <= elementsOfGroup(machine) &&
         registersOfRows(grouped, elements, 2, machine) <= registersOfThread(threads, machine);
}

RowGroups chooseRowGroups(const GroupedRows& grouped, const MachineModel& machine) {
  if (machine.threads_in_loops) {
    return rowGroupsInLoops(grouped, machine);
  }
  RowGroups groups;
  RowShare share;
  if (grouped.sums > 1) {
    const Sharer sharer(grouped, machine);
    share = sharer.best();
    groups.rows_under_way = share.threads > 0 ? sharer.rowsUnderWay(share) : 2;
  } else {
    share = shareRow(grouped, machine);
    // Beside sums of more elements there is no room for two rows in registers.
    groups.rows_under_way =
        share.elements > machine.fewerElements() ? RowGroups::kFewestSharedRows : 2;
  }
  if (grouped.reduced_once && grouped.row_bytes > 0 && !waitsLittle(share, grouped, machine)) {
    const RowShare prefetch = shareRowToPrefetch(grouped, machine);
    if (prefetch.threads > 0) {
      share = prefetch;
      groups.prefetches_reduction = true;
      groups.rows_under_way = std::clamp(
          machine.sharedForTensors() / (share.threads * share.elements * grouped.row_bytes),
          RowGroups::kFewestSharedRows, kMostSharedRows);
    }
  }
  if (share.threads == 0 || !hasRoom(grouped, share, groups.rows_under_way, machine)) {
    return groups;
  }
  groups.cluster = share.cluster;
  groups.threads = share.threads;
  const int64_t clusters = residentClusters(groups.cluster, machine);
  if (grouped.rows < clusters) {
    groups.count = RowGroups::kFewRows;
    return groups;
  }
  const GroupCounts counts = groupsOfRows(grouped.rows, clusters, share.groups);
  groups.rows_of_block = counts.rows_of_block;
  groups.count = counts.count;
  return groups;
}

} // namespace nvfuser
