// SPDX-License-Identifier: BSD-3-Clause
// Finds out which writes to an input's storage may be done directly by the kernel that computes the
// output: its threads read an element of the input, if at all, once and before they write the same
// element. (For that the input gets one reader, a register copy, if it has several.) The others are
// written to memory of their own and copied at the end.
#include <preseg_passes/passes.h>

#include <ir/exprs.h>
#include <preseg_passes/scatter_in_place.h>
#include <runtime/in_place_hazard.h>

#include <algorithm>

namespace nvfuser {

namespace {

// A cast for several readers may become one for each of them (separate_widening_casts.cpp).
bool mayMultiply(Fusion* fusion, const Expr* use) {
  const auto* op = tryAs<ElementwiseOp>(use);
  return op != nullptr && op->op() == OpType::Cast &&
         fusion->liveUses(op->output(0)->as<TensorView>()).size() > 1;
}

void readOnce(Fusion* fusion, TensorView* input) {
  const std::vector<Expr*> uses = fusion->liveUses(input);
  if (uses.empty() || (uses.size() == 1 && !mayMultiply(fusion, uses.front()))) {
    return;
  }
  TensorView* copy = copyInFusion(fusion, input);
  for (Expr* use : uses) {
    fusion->replaceExprInput(use, input, copy);
  }
}

} // namespace

void resolveInPlaceWrites(Fusion* fusion, std::vector<InPlaceWrite>& writes, bool overlap) {
  for (size_t i = 0; i < writes.size(); ++i) {
    InPlaceWrite& write = writes[i];
    const bool written_twice =
        std::any_of(writes.begin(), writes.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](const InPlaceWrite& w) { return w.output == write.output; });
    if (written_twice) {
      write.output = copyInFusion(fusion, write.output);
      write.through_copy = true;
      fusion->addOutput(write.output);
      continue;
    }
    if (overlap) {
      writeThroughCopy(fusion, write);
      continue;
    }
    if (isScatteredInto(write)) {
      continue; // whoever reads the input does it before (executor/in_place.h)
    }
    // The memory that a scatter updates is another one than the input's.
    const auto* scatter = tryAs<ScatterOp>(write.output->definition());
    if (scatter != nullptr && scatter->isInPlace()) {
      writeThroughCopy(fusion, write);
      continue;
    }
    const bool is_read = !fusion->liveUses(write.input).empty();
    if (!is_read) {
      continue;
    }
    // The tensor under the new value may have uses of its own; those read registers or another
    // segment's copy.
    if (isElementwiseUpdate(fusion, write.input, write.output)) {
      readOnce(fusion, write.input);
    } else {
      writeThroughCopy(fusion, write);
    }
  }
  for (const InPlaceWrite& write : writes) {
    takeLayoutOfInput(write);
  }
}

} // namespace nvfuser
