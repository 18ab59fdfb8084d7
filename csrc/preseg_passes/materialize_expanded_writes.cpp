// SPDX-License-Identifier: BSD-3-Clause
// An output that is expanded where the input that it is written to has elements gets all of them.
#include <preseg_passes/passes.h>

#include <ir/builder.h>
#include <ops/utils.h>

#include <algorithm>

namespace nvfuser {

void materializeExpandedWrites(Fusion* fusion, std::vector<InPlaceWrite>& writes,
                               std::vector<TensorView*>& outputs) {
  FusionGuard guard(fusion);
  for (InPlaceWrite& write : writes) {
    const auto from = logicalIds(write.output);
    const auto to = logicalIds(write.input);
    bool expanded = false;
    for (size_t i = 0; i < from.size() && from.size() == to.size(); ++i) {
      expanded = expanded || (from[i]->isBroadcast() && !to[i]->isBroadcast());
    }
    if (!expanded) {
      continue;
    }
    // An op with the input as the other operand has an iteration for each element.
    TensorDomain::Ids ids;
    for (size_t i = 0; i < from.size(); ++i) {
      ids.push_back(IterDomainBuilder(from[i]->isBroadcast() ? to[i] : from[i]).build());
    }
    TensorView* whole = ops_utils::makeTensor(std::move(ids), write.output->dtype());
    IrBuilder::create<ElementwiseOp>(
        OpType::Where, whole,
        std::vector<Val*>{IrBuilder::create<Val>(false, DataType::Bool), write.input,
                          write.output});
    TensorView* value = write.output;
    std::replace(outputs.begin(), outputs.end(), value, whole);
    fusion->removeOutput(value);
    value->setMemoryType(MemoryType::Local);
    fusion->addOutput(whole);
    write.output = whole;
  }
}

} // namespace nvfuser
