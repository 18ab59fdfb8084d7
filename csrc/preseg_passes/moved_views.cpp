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

} // namespace nvfuser
