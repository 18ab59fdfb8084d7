// SPDX-License-Identifier: BSD-3-Clause
// See in_place_write.h.
#include <preseg_passes/in_place_write.h>

#include <ir/builder.h>
#include <ops/utils.h>
#include <tensor/layout.h>

namespace nvfuser {

TensorView* copyInFusion(Fusion* fusion, TensorView* tv) {
  FusionGuard guard(fusion);
  TensorDomain::Ids ids;
  for (const IterDomain* id : logicalIds(tv)) {
    ids.push_back(IterDomainBuilder(id).build());
  }
  TensorView* copy = ops_utils::makeTensor(std::move(ids), tv->dtype());
  IrBuilder::create<LoadStoreOp>(LoadStoreOpType::Set, copy, tv);
  return copy;
}

void writeThroughCopy(Fusion* fusion, InPlaceWrite& write) {
  TensorView* value = write.output;
  write.output = copyInFusion(fusion, value);
  write.through_copy = true;
  fusion->removeOutput(value);
  value->setMemoryType(MemoryType::Local);
  fusion->addOutput(write.output);
}

void takeLayoutOfInput(const InPlaceWrite& write) {
  adoptLayout(write.output, write.input);
  if (write.misaligned) {
    // A tensor that promises nothing is not written in vectors.
    const TensorDomain::Ids ids = write.output->getMaybeAllocationDomain();
    write.output->setAllocationDomain(ids, TensorDomain::contiguityFilledWith(ids, false));
  }
}

} // namespace nvfuser
