// See reduced_domain.h.
#include <ir/reduced_domain.h>

#include <ir/builder.h>

#include <unordered_map>

namespace nvfuser {

TensorDomain* copyWithoutReductions(const TensorDomain* domain) {
  std::unordered_map<const IterDomain*, IterDomain*> copies;
  std::vector<IterDomain*> logical;
  for (const IterDomain* id : TensorDomain::noReductions(domain->logical())) {
    logical.push_back(IterDomainBuilder(id).build());
    copies[id] = logical.back();
  }
  std::vector<IterDomain*> allocation;
  TensorDomain::Contiguity contiguity;
  for (size_t i = 0; i < domain->maybeAllocation().size(); ++i) {
    if (auto it = copies.find(domain->maybeAllocation()[i]); it != copies.end()) {
      allocation.push_back(it->second);
      contiguity.push_back(domain->contiguity().at(i));
    }
  }
  auto* out = IrBuilder::create<TensorDomain>(logical,
                                              TensorDomain::contiguityFilledWith(logical, true));
  if (domain->hasAllocation() && allocation.size() == logical.size()) {
    out->setAllocationDomain(allocation, contiguity);
  }
  return out;
}

} // namespace nvfuser
