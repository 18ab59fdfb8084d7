// In-place updates.
#include <executor/in_place.h>

#include <base/error.h>
#include <ir/builder.h>
#include <runtime/in_place_hazard.h>
#include <runtime/kernel_executor.h>
#include <scheduler/reduction_analysis.h>

#include <algorithm>

namespace nvfuser {
namespace {

TensorView* copyOf(Fusion* fusion, TensorView* tv) {
  FusionGuard guard(fusion);
  TensorDomain::Ids ids;
  for (const IterDomain* id : TensorDomain::noReductions(tv->getLogicalDomain())) {
    ids.push_back(IterDomainBuilder(id).build());
  }
  auto* domain =
      IrBuilder::create<TensorDomain>(ids, TensorDomain::contiguityFilledWith(ids, true));
  auto* copy = IrBuilder::create<TensorView>(domain, tv->dtype());
  IrBuilder::create<LoadStoreOp>(LoadStoreOpType::Set, copy, tv);
  return copy;
}

void readOnce(Fusion* fusion, TensorView* input) {
  const std::vector<Expr*> uses = fusion->liveUses(input);
  if (uses.size() < 2) {
    return;
  }
  TensorView* copy = copyOf(fusion, input);
  for (Expr* use : uses) {
    fusion->replaceExprInput(use, input, copy);
  }
}

void writeThroughCopy(Fusion* fusion, InPlaceWrite& write) {
  TensorView* value = write.output;
  write.output = copyOf(fusion, value);
  write.through_copy = true;
  fusion->removeOutput(value);
  value->setMemoryType(MemoryType::Local);
  fusion->addOutput(write.output);
}

bool hasIndependentReductions(const Segment& segment) {
  std::string ignored;
  return segment.scheduler == SchedulerType::Reduction &&
         ReductionAnalysis::run(segment.fusion.get(), &ignored)->num_sets > 1;
}

// Its loops run over more than the statistics that are updated. Their elements are written once, by
// the first of the threads that compute them (lower/guards.cpp); what the others may read after
// that is used for nothing, as an element of the input decides on that element of outputs only.
bool isNormalization(const Segment& segment) {
  return segment.scheduler == SchedulerType::OuterPersistent ||
         segment.scheduler == SchedulerType::InnerPersistent;
}

} // namespace

void takeLayoutOfInput(const InPlaceWrite& write) {
  adoptLayout(write.output, write.input);
  if (write.misaligned) {
    // A tensor that promises nothing is not written in vectors.
    const TensorDomain::Ids ids = write.output->getMaybeAllocationDomain();
    write.output->setAllocationDomain(ids, TensorDomain::contiguityFilledWith(ids, false));
  }
}

void materializeExpandedWrites(Fusion* fusion, std::vector<InPlaceWrite>& writes,
                               std::vector<TensorView*>& outputs) {
  FusionGuard guard(fusion);
  for (InPlaceWrite& write : writes) {
    const auto from = TensorDomain::noReductions(write.output->getLogicalDomain());
    const auto to = TensorDomain::noReductions(write.input->getLogicalDomain());
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
    auto* domain =
        IrBuilder::create<TensorDomain>(ids, TensorDomain::contiguityFilledWith(ids, true));
    auto* whole = IrBuilder::create<TensorView>(domain, write.output->dtype());
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

void resolveInPlaceWrites(Fusion* fusion, std::vector<InPlaceWrite>& writes, bool overlap) {
  for (size_t i = 0; i < writes.size(); ++i) {
    InPlaceWrite& write = writes[i];
    const bool written_twice =
        std::any_of(writes.begin(), writes.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](const InPlaceWrite& w) { return w.output == write.output; });
    if (written_twice) {
      write.output = copyOf(fusion, write.output);
      write.through_copy = true;
      fusion->addOutput(write.output);
      continue;
    }
    if (overlap) {
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
}

std::unordered_set<const Expr*> finalCopies(const std::vector<InPlaceWrite>& writes) {
  std::unordered_set<const Expr*> copies;
  for (const InPlaceWrite& write : writes) {
    if (write.through_copy) {
      copies.insert(write.output->definition());
    }
  }
  return copies;
}

bool segmentsRespectWrites(Fusion* fusion, const SegmentedFusion& segmented,
                           std::vector<InPlaceWrite>& writes) {
  bool respected = true;
  const std::vector<Segment>& segments = segmented.segments;
  for (InPlaceWrite& write : writes) {
    if (write.through_copy) {
      continue;
    }
    size_t writer = segments.size();
    for (size_t s = 0; s < segments.size(); ++s) {
      if (std::find(segments[s].outputs.begin(), segments[s].outputs.end(), write.output) !=
          segments[s].outputs.end()) {
        writer = s;
      }
    }
    NVF_ERROR(writer < segments.size(), "no segment computes ", write.output->toString());
    bool fits = true;
    for (size_t s = 0; s < segments.size(); ++s) {
      const bool reads = std::find(segments[s].inputs.begin(), segments[s].inputs.end(),
                                   write.input) != segments[s].inputs.end();
      fits = fits && !(reads && s > writer);
      // One nest of loops may write what the other has not read.
      fits = fits && !(reads && s == writer && hasIndependentReductions(segments[s]));
      if (reads && s == writer && !isNormalization(segments[s])) {
        // Loops over more than the output's own domain would visit its elements more than once.
        for (const Val* out : segments[s].outputs) {
          fits = fits && sameShape(out->as<TensorView>(), write.output);
        }
      }
      // The output is also read by another segment, from the input's storage: nobody may write that
      // meanwhile.
    }
    if (!fits) {
      writeThroughCopy(fusion, write);
      respected = false;
    }
  }
  return respected;
}

} // namespace nvfuser
