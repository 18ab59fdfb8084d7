// SPDX-License-Identifier: BSD-3-Clause
// See in_place.h.
#include <executor/in_place.h>

#include <base/error.h>
#include <preseg_passes/scatter_in_place.h>
#include <runtime/in_place_hazard.h>
#include <scheduler/reduction_analysis.h>

#include <algorithm>
#include <unordered_map>

namespace nvfuser {

namespace {

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

// A kernel reads an input again after each reduction that others of its values wait for: what is
// written before one is not what is read after it.
bool isWrittenAfterLastRead(const Segment& segment, const InPlaceWrite& write) {
  std::unordered_map<const Val*, int> passes;           // reductions before it
  std::unordered_set<const Val*> elements{write.input}; // and what is computed of them one by one
  int last_read = 0;
  for (const Expr* e : segment.exprs) {
    int pass = 0;
    bool reads = false;
    for (const Val* in : e->inputs()) {
      pass = std::max(pass, passes[in]);
      reads = reads || elements.count(in) != 0;
    }
    last_read = reads ? std::max(last_read, pass) : last_read;
    for (const Val* out : e->outputs()) {
      passes[out] = isReduction(e) ? pass + 1 : pass;
      if (reads && !isReduction(e)) {
        elements.insert(out);
      }
    }
  }
  return passes[write.output] >= last_read;
}

bool isReadByDefinitionOnly(const Segment& segment, const InPlaceWrite& write) {
  return std::none_of(segment.exprs.begin(), segment.exprs.end(), [&](const Expr* e) {
    const auto& in = e->inputs();
    return e != write.output->definition() &&
           std::find(in.begin(), in.end(), write.input) != in.end();
  });
}

} // namespace

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
      if (reads && s == writer && isScatteredInto(write)) {
        // The elements that are written may be any: nothing else may read the input meanwhile.
        fits = fits && isReadByDefinitionOnly(segments[s], write);
        continue;
      }
      const bool updates = reads && s == writer;
      // One nest of loops may write what the other has not read.
      fits = fits && !(updates && (hasIndependentReductions(segments[s]) ||
                                   !isWrittenAfterLastRead(segments[s], write)));
      if (updates && !isNormalization(segments[s])) {
        // Loops over more than the output's own domain would visit its elements more than once.
        for (const Val* out : segments[s].outputs) {
          fits = fits && sameShape(out->as<TensorView>(), write.output);
        }
      }
      // The output is also read by another segment, from the input's storage: nobody may write that
      // meanwhile.
    }
    if (!fits) {
      if (isScatteredInto(write)) {
        scatterIntoCopy(fusion, write);
      }
      writeThroughCopy(fusion, write);
      respected = false;
    }
  }
  return respected;
}

} // namespace nvfuser
