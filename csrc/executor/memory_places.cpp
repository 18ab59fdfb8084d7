// SPDX-License-Identifier: BSD-3-Clause
// See memory_places.h.
#include <executor/memory_places.h>

#include <executor/launch_plan.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace nvfuser {

namespace {

size_t aligned(size_t bytes) {
  return std::max(bytes + kPlaceAlignment - 1, kPlaceAlignment) / kPlaceAlignment * kPlaceAlignment;
}

// Tensors in one piece of memory, by address.
class Memory {
 public:
  // The lowest offset at which the tensor overlaps none that is needed at the same time.
  size_t lowestOffset(const TensorLifetime& tensor) const {
    size_t offset = 0;
    for (const Block& block : blocks_) {
      if (block.first_use > tensor.last_use || tensor.first_use > block.last_use) {
        continue;
      }
      if (block.begin >= offset + aligned(tensor.bytes)) {
        break;
      }
      offset = std::max(offset, block.end);
    }
    return offset;
  }

  void put(const TensorLifetime& tensor, size_t offset) {
    const auto at =
        std::upper_bound(blocks_.begin(), blocks_.end(), offset,
                         [](size_t begin, const Block& block) { return begin < block.begin; });
    blocks_.insert(at, {offset, aligned(offset + tensor.bytes), tensor.first_use, tensor.last_use});
  }

  // What is written in it stays there.
  void putParts(const FreeMemory& memory) {
    if (memory.parts.empty()) {
      put({memory.bytes, memory.first_use, SIZE_MAX}, 0);
    }
    for (const FreeMemory::Part& part : memory.parts) {
      put({part.bytes, part.first_use, SIZE_MAX}, part.offset);
    }
  }

 private:
  struct Block {
    size_t begin, end;
    size_t first_use, last_use;
  };
  std::vector<Block> blocks_;
};

} // namespace

MemoryPlaces placeTensors(std::span<const TensorLifetime> tensors,
                          std::span<const FreeMemory> free) {
  std::vector<size_t> by_size(tensors.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return tensors[a].bytes > tensors[b].bytes; });
  // The smallest memory that a tensor fits into: larger ones are for larger tensors.
  std::vector<size_t> by_room(free.size());
  std::iota(by_room.begin(), by_room.end(), 0);
  std::stable_sort(by_room.begin(), by_room.end(),
                   [&](size_t a, size_t b) { return free[a].bytes < free[b].bytes; });
  MemoryPlaces result;
  result.places.resize(tensors.size());
  std::vector<Memory> rooms(free.size());
  for (size_t r = 0; r < free.size(); ++r) {
    rooms[r].putParts(free[r]);
  }
  Memory shared;
  for (const size_t t : by_size) {
    const TensorLifetime& tensor = tensors[t];
    const auto room = std::find_if(by_room.begin(), by_room.end(), [&](size_t r) {
      const size_t bytes = std::max<size_t>(tensor.bytes, 1);
      return bytes <= free[r].bytes && rooms[r].lowestOffset(tensor) <= free[r].bytes - bytes;
    });
    const bool is_shared = room == by_room.end();
    Memory& memory = is_shared ? shared : rooms[*room];
    const size_t offset = memory.lowestOffset(tensor);
    memory.put(tensor, offset);
    result.places[t] = {is_shared ? MemoryPlaces::kSharedBlock : *room, offset};
    if (is_shared) {
      result.shared_bytes = std::max(result.shared_bytes, offset + aligned(tensor.bytes));
    }
  }
  return result;
}

size_t bytesOf(const OutputShape& shape) {
  return static_cast<size_t>(shape.storage_elements * dataTypeSizeBytes(shape.dtype));
}

namespace {

using Result = LaunchPlan::Result;

// How many bytes are in use in each step.
class Profile {
 public:
  explicit Profile(size_t num_steps) : changes_(num_steps + 1, 0) {}

  void add(size_t bytes, size_t first_step, size_t last_step) {
    changes_.at(std::min(first_step, changes_.size() - 1)) += static_cast<int64_t>(bytes);
    if (last_step + 1 < changes_.size()) {
      changes_[last_step + 1] -= static_cast<int64_t>(bytes);
    }
  }
  // Until the call has ended.
  void addResult(size_t bytes, size_t first_step) {
    add(bytes, first_step, changes_.size());
  }
  int64_t peak() const {
    int64_t now = 0;
    int64_t most = 0;
    for (const int64_t change : changes_) {
      now += change;
      most = std::max(most, now);
    }
    return most;
  }

 private:
  std::vector<int64_t> changes_;
};

// One tensor, or several of the same layout each of which is written over the one before.
struct Unit {
  TensorLifetime life;
  std::vector<uint32_t> values;
  Result* result = nullptr; // the last one is returned
  bool is_made = false;     // by its step
  // Of a result: what is written part by part, where each part is in one piece.
  std::vector<FreeMemory::Part> parts = {};
};

class MemoryAssignment {
 public:
  explicit MemoryAssignment(LaunchPlan& plan) : plan_(plan) {}

  void run() {
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      addOutputs(s);
    }
    for (Unit& unit : units_) {
      keepPartsApart(unit);
    }
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      overwriteInputs(s);
    }
    const size_t at_once = allocateAtOnce();
    const size_t one_by_one = peakOneByOne();
    // Memory comes from the device in pieces of this size (torch's allocator for one); and a
    // request takes the host about a microsecond.
    constexpr size_t kWorthIt = 2 << 20;
    if (at_once >= one_by_one + kWorthIt) {
      allocateOneByOne();
    }
    keepWhatIsMade();
    plan_.orderMemoryEvents();
  }

 private:
  void addOutputs(size_t s) {
    const LaunchPlan::Step& step = plan_.steps[s];
    for (const uint32_t value : step.inputs) {
      if (const auto it = unit_of_.find(plan_.memoryOf(value)); it != unit_of_.end()) {
        units_[it->second].life.last_use = s;
      }
    }
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const uint32_t value = step.outputs[i];
      if (value < plan_.num_args) {
        first_write_ = std::min(first_write_, s);
        continue;
      }
      // A scatter in place writes a value that is there; of a part, its result is.
      const LaunchPlan::View* part = plan_.partOf(value);
      const uint32_t whole = part == nullptr ? value : part->source;
      const auto [it, is_new] = unit_of_.try_emplace(whole, units_.size());
      if (is_new) {
        const size_t bytes =
            part == nullptr ? bytesOf(step.launch.outputs[i]) : bytesOfLocal(whole);
        units_.push_back({{bytes, s, s}, {whole}, resultOf(whole), step.makes_results});
      }
      Unit& unit = units_[it->second];
      unit.life.last_use = s;
      if (part != nullptr) {
        const auto& seen = unit.values;
        if (std::find(seen.begin(), seen.end(), value) == seen.end()) {
          unit.parts.push_back({static_cast<size_t>(part->offset), bytesOfLocal(value), s});
        }
        unit.values.push_back(value);
      }
    }
  }

  size_t bytesOfLocal(uint32_t value) const {
    const ArgView& view = plan_.locals[value - plan_.num_args];
    return static_cast<size_t>(view.storage_elements * dataTypeSizeBytes(view.dtype));
  }

  // Parts of rows lie between those of others.
  static void keepPartsApart(Unit& unit) {
    std::ranges::sort(unit.parts, {}, &FreeMemory::Part::offset);
    const auto overlap = [](const FreeMemory::Part& a, const FreeMemory::Part& b) {
      return a.offset + a.bytes > b.offset;
    };
    if (std::ranges::adjacent_find(unit.parts, overlap) != unit.parts.end()) {
      unit.parts.clear();
    }
  }

  Result* resultOf(uint32_t value) {
    const auto it =
        std::find_if(plan_.results.begin(), plan_.results.end(), [&](const Result& result) {
          return (result.kind == Result::Kind::New || result.kind == Result::Kind::Made) &&
                 result.source == value;
        });
    return it == plan_.results.end() ? nullptr : &*it;
  }

  // What a step reads last makes room for what it writes.
  void overwriteInputs(size_t s) {
    const LaunchPlan::Step& step = plan_.steps[s];
    for (const LaunchPlan::Overwrite& each : step.overwrites) {
      const auto from = unit_of_.find(each.input);
      const LaunchPlan::View* part = plan_.partOf(each.output);
      const auto to = unit_of_.find(part == nullptr ? each.output : part->source);
      if (from == unit_of_.end() || to == unit_of_.end() || from->second == to->second) {
        continue;
      }
      Unit& old = units_[from->second];
      Unit& fresh = units_[to->second];
      const bool is_free = old.life.last_use == s && old.result == nullptr && !old.is_made &&
                           !old.values.empty() && fresh.life.first_use == s && !fresh.is_made &&
                           isNew(fresh) && old.life.bytes == fresh.life.bytes;
      if (is_free) {
        fresh.life.first_use = old.life.first_use;
        fresh.parts.clear();
        fresh.values.insert(fresh.values.begin(), old.values.begin(), old.values.end());
        for (const uint32_t value : std::exchange(old.values, {})) {
          unit_of_[value] = to->second;
        }
      }
    }
  }

  // It is written over nothing yet.
  bool isNew(const Unit& unit) const {
    return std::all_of(unit.values.begin() + 1, unit.values.end(),
                       [&](uint32_t value) { return plan_.partOf(value) != nullptr; });
  }

  // Units that are no results and need a place.
  std::vector<size_t> intermediates() const {
    std::vector<size_t> found;
    for (size_t u = 0; u < units_.size(); ++u) {
      if (!units_[u].values.empty() && units_[u].result == nullptr && !units_[u].is_made) {
        found.push_back(u);
      }
    }
    return found;
  }

  void put(const Unit& unit, uint32_t home, bool is_in_block, size_t offset) {
    for (const uint32_t value : unit.values) {
      const LaunchPlan::View* part = plan_.partOf(value);
      if (value != home || is_in_block) {
        plan_.workspaces.push_back(
            {value, home, is_in_block, offset + (part == nullptr ? 0 : part->offset)});
      }
    }
  }

  // The peak. What is made comes on top.
  size_t allocateAtOnce() {
    std::vector<FreeMemory> free;
    std::vector<uint32_t> homes;
    Profile profile(plan_.steps.size());
    for (const Unit& unit : units_) {
      if (unit.is_made) {
        addMade(unit, profile);
      } else if (unit.result != nullptr) {
        free.push_back({unit.life.bytes, unit.life.first_use, unit.parts});
        homes.push_back(unit.result->source);
        profile.addResult(unit.life.bytes, 0);
        put(unit, unit.result->source, /*is_in_block=*/false, 0);
      }
    }
    const std::vector<size_t> others = intermediates();
    std::vector<TensorLifetime> tensors;
    for (const size_t u : others) {
      tensors.push_back(units_[u].life);
    }
    const MemoryPlaces found = placeTensors(tensors, free);
    for (size_t t = 0; t < others.size(); ++t) {
      const auto [memory, offset] = found.places[t];
      const bool is_shared = memory == MemoryPlaces::kSharedBlock;
      put(units_[others[t]], is_shared ? 0 : homes[memory], is_shared, offset);
    }
    if (found.shared_bytes != 0) {
      const auto last = static_cast<uint32_t>(plan_.steps.size() - 1);
      plan_.blocks.push_back({found.shared_bytes, 0, last});
      profile.add(found.shared_bytes, 0, last);
    }
    return static_cast<size_t>(profile.peak());
  }

  void addMade(const Unit& unit, Profile& profile) const {
    if (unit.result != nullptr) {
      profile.addResult(unit.life.bytes, unit.life.first_use);
    } else {
      profile.add(unit.life.bytes, unit.life.first_use, unit.life.last_use);
    }
  }

  // What is allocated one by one is there before the first step that writes to an argument: a call
  // that finds no memory has changed nothing, and may be made again.
  size_t allocatedBefore(const Unit& unit) const {
    return std::min(unit.life.first_use, first_write_);
  }

  size_t peakOneByOne() const {
    Profile profile(plan_.steps.size());
    for (const Unit& unit : units_) {
      if (unit.values.empty()) {
        continue;
      }
      if (unit.is_made) {
        addMade(unit, profile);
      } else if (unit.result != nullptr) {
        profile.addResult(unit.life.bytes, allocatedBefore(unit));
      } else {
        profile.add(aligned(unit.life.bytes), allocatedBefore(unit), unit.life.last_use);
      }
    }
    return static_cast<size_t>(profile.peak());
  }

  void allocateOneByOne() {
    plan_.workspaces.clear();
    plan_.blocks.clear();
    for (const Unit& unit : units_) {
      if (unit.result != nullptr && !unit.is_made) {
        unit.result->first_step = static_cast<uint32_t>(allocatedBefore(unit));
        put(unit, unit.result->source, /*is_in_block=*/false, 0);
      }
    }
    // Short ones are not worth a request each.
    constexpr size_t kShort = 1 << 16;
    std::vector<size_t> short_ones;
    for (const size_t u : intermediates()) {
      if (units_[u].life.bytes < kShort) {
        short_ones.push_back(u);
        continue;
      }
      const TensorLifetime& life = units_[u].life;
      put(units_[u], static_cast<uint32_t>(plan_.blocks.size()), /*is_in_block=*/true, 0);
      plan_.blocks.push_back({aligned(life.bytes),
                              static_cast<uint32_t>(allocatedBefore(units_[u])),
                              static_cast<uint32_t>(life.last_use)});
    }
    shareBlock(short_ones);
  }

  void shareBlock(const std::vector<size_t>& units) {
    std::vector<TensorLifetime> tensors;
    for (const size_t u : units) {
      tensors.push_back(units_[u].life);
    }
    const MemoryPlaces found = placeTensors(tensors, {});
    if (found.shared_bytes == 0) {
      return;
    }
    LaunchPlan::Block block{found.shared_bytes, UINT32_MAX, 0};
    for (size_t t = 0; t < units.size(); ++t) {
      put(units_[units[t]], static_cast<uint32_t>(plan_.blocks.size()), /*is_in_block=*/true,
          found.places[t].offset);
      block.first_step =
          std::min(block.first_step, static_cast<uint32_t>(allocatedBefore(units_[units[t]])));
      block.last_step = std::max(block.last_step, static_cast<uint32_t>(tensors[t].last_use));
    }
    plan_.blocks.push_back(block);
  }

  void keepWhatIsMade() {
    for (const Unit& unit : units_) {
      if (unit.is_made && unit.result != nullptr) {
        unit.result->kind = Result::Kind::Made;
        unit.result->first_step = static_cast<uint32_t>(unit.life.first_use);
      } else if (unit.is_made) {
        plan_.made.push_back({unit.values.front(), static_cast<uint32_t>(unit.life.last_use)});
      }
    }
  }

  LaunchPlan& plan_;
  size_t first_write_ = SIZE_MAX; // the first step that writes to an argument
  std::vector<Unit> units_;
  std::unordered_map<uint32_t, size_t> unit_of_; // by value
};

} // namespace

void assignMemory(LaunchPlan& plan) {
  MemoryAssignment(plan).run();
}

int64_t peakBytes(const LaunchPlan& plan) {
  Profile profile(plan.steps.size());
  for (const Result& result : plan.results) {
    if (result.kind == Result::Kind::New || result.kind == Result::Kind::Made) {
      profile.addResult(bytesOf(*result.shape), result.first_step);
    }
  }
  for (const LaunchPlan::Block& block : plan.blocks) {
    profile.add(block.bytes, block.first_step, block.last_step);
  }
  std::unordered_map<uint32_t, uint32_t> made; // last steps
  for (const LaunchPlan::Made& each : plan.made) {
    made.emplace(each.value, each.last_step);
  }
  uint64_t of_kernel = 0;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const LaunchPlan::Step& step = plan.steps[s];
    of_kernel = std::max(of_kernel, step.launch.workspace_bytes);
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      if (const auto it = made.find(step.outputs[i]); it != made.end()) {
        profile.add(bytesOf(step.launch.outputs[i]), s, it->second);
        made.erase(it);
      }
    }
  }
  return profile.peak() + static_cast<int64_t>(of_kernel);
}

} // namespace nvfuser
