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

  // Threads that share a line: a power of two up to 32, or a multiple of 32. 1: each goes along
  // lines of its own.
  int64_t threads_per_line = 1;
  // Consecutive elements that a thread takes of a tile.
  int64_t elements_per_thread = 1;
  int64_t lines_per_block = 128;
  // Of shared lines the next tile is loaded while one is scanned.
  bool load_ahead = false;
  // Width of the accesses to each input and then each output.
  std::vector<int64_t> vector_widths;

  template <class Visitor>
  static void fields(Visitor&& visit) {
    visit("threads_per_line", &GreedyParams::threads_per_line);
    visit("elements_per_thread", &GreedyParams::elements_per_thread);
    visit("lines_per_block", &GreedyParams::lines_per_block);
    visit("load_ahead", &GreedyParams::load_ahead);
    visit("vector_widths", &GreedyParams::vector_widths);
  }
};

} // namespace nvfuser
