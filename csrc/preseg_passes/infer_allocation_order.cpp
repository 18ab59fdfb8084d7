// SPDX-License-Identifier: BSD-3-Clause
// Outputs whose memory order nobody asked for take over that of the inputs: a normalization of a
// channels-last tensor is channels-last too.
#include <preseg_passes/passes.h>

#include <id_model/id_model.h>

#include <algorithm>
#include <optional>

namespace nvfuser {

namespace {

bool isConcrete(const IterDomain* id) {
  return !id->isBroadcast() && !id->isReduction();
}

const TensorView* inputWithMostDims(const Fusion* fusion) {
  const TensorView* best = nullptr;
  std::ptrdiff_t most = 0;
  for (const Val* v : fusion->inputs()) {
    if (v->isTensor()) {
      const auto* tv = static_cast<const TensorView*>(v);
      const auto& logical = tv->getLogicalDomain();
      const auto dims = std::count_if(logical.begin(), logical.end(), isConcrete);
      if (dims > most) {
        most = dims;
        best = tv;
      }
    }
  }
  return best;
}

// The output's dimensions in the order that the input's have in memory; empty if they are not the
// same.
std::vector<IterDomain*> orderOf(const IdGraph& graph, const TensorView* input,
                                 const TensorView* output) {
  const auto& logical = output->getLogicalDomain();
  std::vector<IterDomain*> allocation;
  for (const IterDomain* id : input->getAllocationDomain()) {
    auto same = std::find_if(logical.begin(), logical.end(),
                             [&](const IterDomain* l) { return graph.same(l, id); });
    if (same == logical.end() ||
        std::find(allocation.begin(), allocation.end(), *same) != allocation.end()) {
      return {};
    }
    allocation.push_back(*same);
  }
  return allocation;
}

} // namespace

void inferAllocationOrder(Fusion* fusion, const std::vector<TensorView*>& outputs) {
  const TensorView* input = inputWithMostDims(fusion);
  if (input == nullptr || !input->domain()->hasAllocation()) {
    return;
  }
  const auto& memory = input->getAllocationDomain();
  if (!std::all_of(memory.begin(), memory.end(), isConcrete)) {
    return;
  }
  std::optional<IdGraph> graph;
  for (TensorView* output : outputs) {
    const auto& logical = output->getLogicalDomain();
    if (output->isFusionInput() || output->domain()->isOrderGiven() ||
        logical.size() != memory.size() ||
        !std::all_of(logical.begin(), logical.end(), isConcrete)) {
      continue;
    }
    if (!graph.has_value()) {
      graph = buildGraph(fusion, IdMappingMode::Permissive);
    }
    if (const auto allocation = orderOf(*graph, input, output); !allocation.empty()) {
      output->setAllocationDomain(allocation, true);
    }
  }
}

} // namespace nvfuser
