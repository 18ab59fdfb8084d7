// SPDX-License-Identifier: BSD-3-Clause
// See memory_places.h.
#include <executor/memory_places.h>

#include <executor/launch_plan.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

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
    blocks_.insert(at, {offset, offset + aligned(tensor.bytes), tensor.first_use, tensor.last_use});
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
  Memory shared;
  for (const size_t t : by_size) {
    const TensorLifetime& tensor = tensors[t];
    const auto room = std::find_if(by_room.begin(), by_room.end(), [&](size_t r) {
      return tensor.last_use < free[r].first_use && tensor.bytes <= free[r].bytes &&
             rooms[r].lowestOffset(tensor) <= free[r].bytes - tensor.bytes;
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

struct Uses {
  size_t first;
  size_t last;
};

// Steps that read or write each value.
std::unordered_map<uint32_t, Uses> usesOf(const LaunchPlan& plan) {
  std::unordered_map<uint32_t, Uses> uses;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    for (const auto* values : {&plan.steps[s].inputs, &plan.steps[s].outputs}) {
      for (const uint32_t value : *values) {
        uses.try_emplace(value, Uses{s, s}).first->second.last = s;
      }
    }
  }
  return uses;
}

} // namespace

void placeIntermediates(LaunchPlan& plan) {
  const std::unordered_map<uint32_t, Uses> uses = usesOf(plan);
  std::vector<FreeMemory> free;
  std::vector<uint32_t> results;
  std::unordered_set<uint32_t> is_placed;
  for (const LaunchPlan::Result& result : plan.results) {
    const auto use = uses.find(result.source);
    if (result.kind == LaunchPlan::Result::Kind::New && use != uses.end()) {
      free.push_back({bytesOf(*result.shape), use->second.first});
      results.push_back(result.source);
      is_placed.insert(result.source);
    }
  }
  std::vector<TensorLifetime> tensors;
  std::vector<uint32_t> values;
  for (const LaunchPlan::Step& step : plan.steps) {
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const uint32_t value = step.outputs[i];
      // A scatter in place writes a value that is there.
      if (value >= plan.num_args && is_placed.insert(value).second) {
        const Uses& use = uses.at(value);
        tensors.push_back({bytesOf(step.launch.outputs[i]), use.first, use.last});
        values.push_back(value);
      }
    }
  }
  const MemoryPlaces found = placeTensors(tensors, free);
  for (size_t t = 0; t < values.size(); ++t) {
    const auto [memory, offset] = found.places[t];
    const bool is_shared = memory == MemoryPlaces::kSharedBlock;
    const uint32_t home = is_shared ? LaunchPlan::Workspace::kSharedBlock : results[memory];
    plan.workspaces.push_back({values[t], home, offset});
  }
  plan.workspace_bytes = found.shared_bytes;
}

int64_t peakBytes(const LaunchPlan& plan) {
  int64_t bytes = static_cast<int64_t>(plan.workspace_bytes);
  for (const LaunchPlan::Result& result : plan.results) {
    if (result.kind == LaunchPlan::Result::Kind::New) {
      bytes += static_cast<int64_t>(bytesOf(*result.shape));
    }
  }
  uint64_t of_kernel = 0;
  for (const LaunchPlan::Step& step : plan.steps) {
    of_kernel = std::max(of_kernel, step.launch.workspace_bytes);
  }
  return bytes + static_cast<int64_t>(of_kernel);
}

} // namespace nvfuser
