// SPDX-License-Identifier: BSD-3-Clause
// See moved_views.h.
#include <preseg_passes/moved_views.h>

#include <ir/builder.h>

namespace nvfuser {

TensorView* tensorInMemory(const TensorDomain::Ids& logical, const TensorDomain::Ids& memory,
                           const TensorDomain::Contiguity& contiguity, DataType dtype) {
  auto* domain =
      IrBuilder::create<TensorDomain>(logical, TensorDomain::contiguityFilledWith(logical, true));
  if (memory == logical) {
    domain->setContiguity(contiguity);
  } else {
    domain->setAllocationDomain(memory, contiguity);
  }
  return IrBuilder::create<TensorView>(domain, dtype);
}

TensorView* tensorInMemoryOf(const TensorView* source, const TensorDomain::Ids& logical,
                             const DimensionCopies& copies) {
  TensorDomain::Ids memory;
  TensorDomain::Contiguity contiguity;
  const auto& order = source->getMaybeAllocationDomain();
  for (size_t i = 0; i < order.size(); ++i) {
    if (const auto it = copies.find(order[i]); it != copies.end()) {
      memory.push_back(it->second);
      contiguity.push_back(source->getContiguity().at(i));
    }
  }
  if (memory.size() != logical.size()) {
    memory = logical;
    contiguity = TensorDomain::contiguityFilledWith(logical, true);
  }
  return tensorInMemory(logical, memory, contiguity, source->dtype());
}

void MovedViews::makeInstead(TensorView* output, TensorView* made, Val* offset) {
  for (OutputView& view : outputs) {
    if (view.made == output) {
      view.made = made;
      if (offset != nullptr) {
        view.offset = view.offset == nullptr ? offset : IrBuilder::addExpr(view.offset, offset);
      }
    }
  }
  outputs.push_back({made, output, offset});
}

TensorView* sameMemoryAs(const TensorView* made) {
  TensorDomain::Ids logical;
  DimensionCopies of;
  for (const IterDomain* id : logicalIds(made)) {
    logical.push_back(
        of[id] = IterDomainBuilder(id).isRfactor(false).parallelType(ParallelType::Serial).build());
  }
  TensorView* out = tensorInMemoryOf(made, logical, of);
  out->setSourceLocation(made->sourceLocation());
  return out;
}

} // namespace nvfuser
