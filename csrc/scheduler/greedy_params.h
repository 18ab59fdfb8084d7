// SPDX-License-Identifier: BSD-3-Clause
// Parameters of the greedy scheduler (greedy.h).
#pragma once

#include <scheduler/param_fields.h>

namespace nvfuser {

class GreedyParams : public ListedParams<GreedyParams> {
 public:
  static constexpr const char* kTitle = "Greedy Parameters";

  GreedyParams() : ListedParams(SchedulerType::Greedy) {
    tag = "Greedy heuristics";
  }

  // Threads that share a scan: a power of two up to 32, or a multiple of 32. 1: each has scans of
  // its own.
  int64_t threads_per_scan = 1;
  // Consecutive elements that a thread takes of a tile.
  int64_t elements_per_thread = 1;
  int64_t scans_per_block = 1;
  // Of a shared scan the next tile is loaded while one is scanned.
  bool prefetch_loads = false;
  // Width of the accesses to each input and then each output.
  std::vector<int64_t> vector_widths;

  template <class Visitor>
  static void fields(Visitor&& visit) {
    visit("threads_per_scan", &GreedyParams::threads_per_scan);
    visit("elements_per_thread", &GreedyParams::elements_per_thread);
    visit("scans_per_block", &GreedyParams::scans_per_block);
    visit("prefetch_loads", &GreedyParams::prefetch_loads);
    visit("vector_widths", &GreedyParams::vector_widths);
  }
};

} // namespace nvfuser
