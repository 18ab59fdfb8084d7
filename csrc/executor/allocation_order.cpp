// See allocation_order.h.
#include <executor/allocation_order.h>

#include <id_model/id_model.h>

#include <algorithm>

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

} // namespace

void inferAllocationOrder(Fusion* fusion, TensorView* output) {
  if (output->isFusionInput() || output->domain()->hasAllocation()) {
    return;
  }
  const TensorView* input = inputWithMostDims(fusion);
  if (input == nullptr || !input->domain()->hasAllocation()) {
    return;
  }
  const auto logical = TensorDomain::noReductions(output->getLogicalDomain());
  const auto& memory = input->getAllocationDomain();
  if (logical.size() != output->getLogicalDomain().size() ||
      !std::all_of(logical.begin(), logical.end(), isConcrete) ||
      !std::all_of(memory.begin(), memory.end(), isConcrete) || logical.size() != memory.size()) {
    return;
  }
  const IdGraph graph = buildGraph(fusion, IdMappingMode::Permissive);
  std::vector<IterDomain*> allocation;
  for (const IterDomain* id : memory) {
    auto same = std::find_if(
        logical.begin(), logical.end(), [&](const IterDomain* l) { return graph.same(l, id); });
    if (same == logical.end() ||
        std::find(allocation.begin(), allocation.end(), *same) != allocation.end()) {
      return;
    }
    allocation.push_back(*same);
  }
  output->setAllocationDomain(allocation, true);
}

} // namespace nvfuser
