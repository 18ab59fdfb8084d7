// SPDX-License-Identifier: BSD-3-Clause
// See cost.h.
#include <scheduler/cost.h>

#include <base/integer_math.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace nvfuser {

int64_t registersBeside(int64_t kept, const MachineModel& machine) {
  return roundUp(kept + machine.other_registers, machine.register_unit) + machine.register_unit;
}

int64_t registersHolding(int64_t bytes, const MachineModel& machine) {
  const int64_t wanted = machine.streaming_registers + ceilDiv(bytes, kRegisterBytes);
  return std::min(roundUp(wanted, machine.register_unit), machine.max_registers_per_thread);
}

double linesOfWarp(int64_t threads, double bytes, double row, const MachineModel& machine) {
  const double accesses = std::max(bytes / kVectorBytes, 1.0);
  const auto line = static_cast<double>(machine.line_bytes);
  const auto in_row = static_cast<double>(std::min(threads, kWarp));
  const double run = in_row * bytes / accesses / line;
  return accesses * kWarp / in_row * std::max(run, std::min(row / accesses / line, 1.0));
}

double microsecondsOfStarts(int64_t blocks, const MachineModel& machine) {
  return static_cast<double>(blocks) * machine.block_start / static_cast<double>(machine.sms);
}

double instructionsOf(int64_t accesses, int64_t elements, const MachineModel& machine) {
  return machine.start_instructions +
         machine.step_instructions * static_cast<double>(accesses + elements);
}

int64_t registersOfThread(int64_t threads_of_sm, const MachineModel& machine) {
  const int64_t warps = ceilDiv(threads_of_sm, machine.schedulers_per_sm * kWarp);
  const int64_t share = machine.registers_per_sm / (machine.schedulers_per_sm * kWarp * warps);
  return std::min(share / machine.register_unit * machine.register_unit,
                  machine.max_registers_per_thread);
}

int64_t blocksOfSm(const Tile& tile, const MachineModel& machine) {
  if (tile.shared_bytes > machine.max_shared_per_block) {
    return 0;
  }
  const int64_t shared = machine.shared_reserved_per_block + tile.shared_bytes;
  return std::min({machine.registers_per_sm / (tile.registers * roundUp(tile.threads, kWarp)),
                   machine.max_threads_per_sm / tile.threads, machine.max_blocks_per_sm,
                   machine.shared_per_sm / std::max<int64_t>(shared, 1)});
}

int64_t residentClusters(int64_t size, const MachineModel& machine) {
  const int64_t most = std::max<int64_t>(machine.sms / size, 1);
  const auto index = static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(size)));
  const int64_t known =
      index < machine.resident_clusters.size() ? machine.resident_clusters[index] : 0;
  return known > 0 ? std::min(known, most) : most;
}

namespace {

// The part of the bandwidth that is used: SMs without a block request nothing, and those with few
// bytes under way little.
double busyShare(const Tile& tile, int64_t active, const MachineModel& machine) {
  const auto sms = static_cast<double>(machine.sms);
  const auto blocks = static_cast<double>(active);
  const double with_blocks = machine.lone_sm_speed * std::min(blocks, sms) / sms;
  const double requested = blocks * tile.requested_bytes / (sms * machine.busy_bytes);
  return std::min({1.0, with_blocks, tile.requested_bytes > 0 ? requested : 1.0});
}

double lineShare(int64_t run_bytes, const MachineModel& machine) {
  double share = machine.run_shares.front().share;
  for (const MachineModel::RunShare& each : machine.run_shares) {
    if (run_bytes >= each.bytes) {
      share = each.share;
    }
  }
  return share;
}

// Until all that share results have them, once.
double microsecondsOfReduction(const Tile& tile, const MachineModel& machine) {
  switch (tile.scope) {
    case Tile::Scope::Block:
      return machine.block_wait;
    case Tile::Scope::Cluster: // the blocks' results in turn
      return machine.cluster_wait_of_byte * static_cast<double>(tile.result_bytes * tile.sharing);
    case Tile::Scope::Grid: // every block reads those of all that it shares with
      break;
  }
  const int64_t bytes = tile.blocks * tile.sharing * tile.results * tile.result_bytes;
  return machine.grid_wait +
         static_cast<double>(bytes) / (machine.l2_speed * machine.memory_bandwidth);
}

// Of blocks that wait for nothing but memory, so many of them at a time.
double microsecondsOfStream(const Tile& tile, const Traffic& traffic, int64_t at_once,
                            const MachineModel& machine) {
  const int64_t active = std::min(tile.blocks, at_once);
  const auto sms = static_cast<double>(machine.sms);
  const double memory = (traffic.read + traffic.written) / machine.memory_bandwidth;
  const double share =
      std::min(busyShare(tile, active, machine), lineShare(tile.run_bytes, machine));
  const double requested = static_cast<double>(active) * tile.requested_bytes / sms;
  const double crowd = requested / static_cast<double>(machine.wanted_bytes);
  const double slower = 1 + machine.crowded_slower * std::log2(std::max(crowd, 1.0));
  // The last blocks' iterations are no longer side by side with those of others.
  const double answer = machine.busy_bytes * sms / machine.memory_bandwidth;
  const double of_block =
      std::max(static_cast<double>(tile.iterations) * answer,
               memory * static_cast<double>(active) / static_cast<double>(tile.blocks));
  const double last = of_block * (1 - 1 / static_cast<double>(tile.iterations));
  // Of a scheduler that has many warps, each takes a cycle.
  const double warps = static_cast<double>(tile.blocks * ceilDiv(tile.threads, kWarp)) /
                       (sms * static_cast<double>(machine.schedulers_per_sm));
  const double busy =
      tile.instructions * std::max(warps, machine.dependent_cycles) / machine.cycles_per_us;
  const double lines = tile.lines * static_cast<double>(tile.blocks) / sms / machine.cycles_per_us;
  return memory / share * slower + last + machine.exposed_share * (busy + lines);
}

} // namespace

double microseconds(const Tile& tile, const Traffic& traffic, const MachineModel& machine) {
  const int64_t per_sm = blocksOfSm(tile, machine);
  if (per_sm < 1) {
    return 0;
  }
  if (tile.scope == Tile::Scope::Block && tile.reductions == 0) {
    return microsecondsOfStream(tile, traffic, per_sm * machine.sms, machine);
  }
  const bool is_cluster = tile.scope == Tile::Scope::Cluster;
  const int64_t at_once =
      per_sm * (is_cluster ? residentClusters(tile.sharing, machine) * tile.sharing : machine.sms);
  if (tile.scope == Tile::Scope::Grid && tile.blocks > at_once) {
    return 0;
  }
  const int64_t waves = ceilDiv(tile.blocks, at_once);
  const double data =
      (traffic.read + traffic.written) /
      (machine.memory_bandwidth * busyShare(tile, std::min(tile.blocks, at_once), machine) *
       lineShare(tile.run_bytes, machine));
  // The last wave takes as long as the others; of many that is little [columns].
  constexpr int64_t kManyWaves = 4;
  const double idle = waves >= kManyWaves ? 1.0
                                          : static_cast<double>(waves * at_once) /
                                                static_cast<double>(std::max(tile.blocks, at_once));
  // Other blocks of the SM load while one waits, if there are some and they are not small.
  double slower = 1;
  if (waves > 1) {
    slower = per_sm == 1 ? machine.one_block_slower : per_sm == 2 ? machine.two_blocks_slower : 1;
    slower *= tile.threads < machine.usualThreads() ? machine.small_blocks_slower : 1;
  }
  if (is_cluster) {
    slower *= 1 + machine.cluster_block_slower * static_cast<double>(tile.sharing);
  }
  const double waiting =
      microsecondsOfReduction(tile, machine) * static_cast<double>(waves * tile.reductions);
  return data * idle * slower + waiting / static_cast<double>(waves > 1 ? per_sm : 1);
}

size_t fastestOf(const std::vector<Tile>& tiles, const Traffic& traffic,
                 const MachineModel& machine) {
  size_t best = 0;
  double least = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    const double time = microseconds(tiles[i], traffic, machine);
    if (time > 0 && (least == 0 || time < kWorthMore * least)) {
      best = i;
      least = time;
    }
  }
  return best;
}

double microsecondsOfKernels(int64_t more, const Traffic& traffic, const MachineModel& machine) {
  const double again = traffic.read < machine.keptInL2() ? 1 - machine.l2_kept : 1;
  return (traffic.read * (1 + static_cast<double>(more) * again) + traffic.written) /
             machine.memory_bandwidth +
         machine.kernel_start * static_cast<double>(more);
}

double microsecondsOfIteration(int64_t threads, int64_t bytes, double instructions,
                               const MachineModel& machine) {
  constexpr double kReadAndWritten = 1.5; // by what is read: a gradient of two inputs
  const int64_t warps = ceilDiv(threads, machine.schedulers_per_sm * kWarp);
  const double busy = machine.iteration_wait + static_cast<double>(warps) * instructions *
                                                   machine.issue_cycles / machine.cycles_per_us;
  const double memory = static_cast<double>(bytes) * kReadAndWritten *
                        static_cast<double>(machine.sms) / machine.memory_bandwidth;
  return std::max(busy, memory);
}

namespace {

// Lines that a warp touches for a position of each of its threads. An SM delivers one a cycle.
double linesOfPositions(const AccessAlong& access, int64_t vector, const MachineModel& machine) {
  const int64_t taken = std::min(access.width, vector);
  const int64_t apart = kWarp * vector * access.stride_bytes;
  const double lines =
      std::min(static_cast<double>(kWarp),
               static_cast<double>(apart) / static_cast<double>(machine.line_bytes));
  const double least =
      static_cast<double>(kWarp * taken * access.bytes) / static_cast<double>(machine.line_bytes);
  return std::max({lines, least, 1.0}) / static_cast<double>(taken);
}

} // namespace

int64_t vectorOf(const std::vector<AccessAlong>& accesses, int64_t widest,
                 const MachineModel& machine) {
  const auto lines = [&](int64_t vector) {
    double sum = 0;
    for (const AccessAlong& each : accesses) {
      sum += linesOfPositions(each, vector, machine);
    }
    return sum;
  };
  double bytes = 0;
  for (const AccessAlong& each : accesses) {
    bytes += each.from_memory ? static_cast<double>(kWarp * each.bytes) : 0;
  }
  const double bytes_of_cycle =
      machine.memory_bandwidth / (static_cast<double>(machine.sms) * machine.cycles_per_us);
  if (lines(widest) <= bytes / bytes_of_cycle) {
    return widest;
  }
  int64_t best = widest;
  for (int64_t vector = widest / 2; vector >= 1; vector /= 2) {
    best = lines(vector) < lines(best) ? vector : best;
  }
  return best;
}

bool isFasterInPlace(const ScatterSizes& sizes, const MachineModel& machine) {
  const auto elements = static_cast<double>(sizes.rows * sizes.row_length);
  const double memory =
      2 * elements * static_cast<double>(sizes.element_bytes) / machine.memory_bandwidth;
  const int64_t at_once = machine.sms * (machine.threads_in_loops ? 1 : machine.max_threads_per_sm);
  const double wait = machine.threads_in_loops ? MachineModel::kHostElement : machine.load_wait;
  const double alone = static_cast<double>(ceilDiv(sizes.rows, at_once)) *
                       static_cast<double>(sizes.row_length + sizes.positions) * wait;
  // Threads that are neighbours access a row each: what lies in a line of the cache between their
  // elements is read again for the next ones.
  const int64_t run = sizes.rows_are_neighbours ? machine.line_bytes
                      : sizes.row_length * sizes.element_bytes <= machine.sector_bytes
                          ? machine.sector_bytes
                          : sizes.element_bytes;
  const double share = machine.threads_in_loops ? 1 : lineShare(run, machine);
  const double in_place =
      (sizes.is_copied ? memory : 0) + sizes.more_kernels * machine.kernel_start;
  return in_place < std::max(alone, memory / share);
}

} // namespace nvfuser
