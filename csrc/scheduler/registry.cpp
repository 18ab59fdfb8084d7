// SPDX-License-Identifier: BSD-3-Clause
// The list of schedulers.
#include <scheduler/registry.h>

#include <base/error.h>
#include <scheduler/cache_policy.h>
#include <scheduler/expr_eval.h>
#include <scheduler/greedy.h>
#include <scheduler/no_op.h>
#include <scheduler/pointwise.h>
#include <scheduler/reduction.h>
#include <scheduler/transpose.h>
#include <transform/tensor_graph.h>

#include <algorithm>
#include <utility>

namespace nvfuser {

const std::vector<const SchedulerEntry*>& schedulerEntries() {
  static const NoOpScheduler no_op;
  static const ReductionScheduler reduction(SchedulerType::Reduction);
  static const TransposeScheduler transpose;
  static const PointwiseScheduler pointwise;
  static const GreedyScheduler greedy;
  static const ReductionScheduler inner_persistent(SchedulerType::InnerPersistent);
  static const ReductionScheduler outer_persistent(SchedulerType::OuterPersistent);
  static const ReductionScheduler inner_outer(SchedulerType::InnerOuterPersistent);
  static const std::vector<const SchedulerEntry*> all{
      &no_op,  &reduction,        &transpose,        &pointwise,
      &greedy, &inner_persistent, &outer_persistent, &inner_outer};
  return all;
}

const SchedulerEntry* schedulerEntry(SchedulerType type) {
  static const ExprEvalScheduler last_resort;
  if (type == SchedulerType::ExprEval) {
    return &last_resort;
  }
  for (const SchedulerEntry* e : schedulerEntries()) {
    if (e->type() == type) {
      return e;
    }
  }
  return nullptr;
}

std::string whyNot(const SchedulerEntry& entry, Fusion* fusion) {
  if (entry.type() != SchedulerType::ExprEval) {
    for (const Expr* e : fusion->exprs()) {
      if (e->kind() == ExprKind::LibraryOp) {
        return "a library evaluates " + e->opName();
      }
      if (isOfMemory(e)) {
        return "what says where a tensor lies takes no kernel";
      }
    }
  }
  return entry.whyNot(fusion);
}

CanSchedule canSchedule(Fusion* fusion, SchedulerType type) {
  const SchedulerEntry* entry = schedulerEntry(type);
  const std::string why = entry != nullptr ? whyNot(*entry, fusion) : "no scheduler of this type";
  if (why.empty()) {
    return {true, ""};
  }
  return {false,
          "Scheduler _" + std::string(schedulerName(type)) + "_ ***rejected*** because : " + why};
}

bool isLeftOut(const Fusion* fusion, SchedulerType type, const LeftOut& left_out) {
  const auto it = left_out.find(type);
  return it != left_out.end() &&
         (it->second.from_elements == 0 || longestRow(*fusion) >= it->second.from_elements);
}

double longestRow(const Fusion& fusion) {
  double longest = 0;
  for (const Expr* e : fusion.exprs()) {
    longest = std::max(longest, reducedElements(e));
  }
  return longest;
}

SchedulerType chooseScheduler(Fusion* fusion, const LeftOut& left_out) {
  for (const SchedulerEntry* e : schedulerEntries()) {
    if (!isLeftOut(fusion, e->type(), left_out) && whyNot(*e, fusion).empty()) {
      return e->type();
    }
  }
  return SchedulerType::None;
}

std::vector<SchedulerType> compatibleSchedulers(Fusion* fusion) {
  std::vector<SchedulerType> out;
  for (const SchedulerEntry* e : schedulerEntries()) {
    if (whyNot(*e, fusion).empty()) {
      out.push_back(e->type());
    }
  }
  if (out.empty() && canSchedule(fusion, SchedulerType::ExprEval)) {
    out.push_back(SchedulerType::ExprEval);
  }
  return out;
}

namespace {

const SchedulerEntry& requiredEntry(SchedulerType type) {
  const SchedulerEntry* entry = schedulerEntry(type);
  NVF_CHECK(entry != nullptr, "There is no ", schedulerName(type), " scheduler");
  return *entry;
}

} // namespace

Wanted wantedRewrites(WholeDefinition& definition, LeftOut left_out) {
  Wanted wanted;
  wanted.left_out = std::move(left_out);
  const auto& entries = schedulerEntries();
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    (*entry)->wantRewrites(definition, wanted);
  }
  return wanted;
}

ChosenParams chooseParams(Fusion* fusion, SchedulerType type, SchedulerRuntimeInfo& info,
                          HeuristicCache* cache) {
  const SchedulerEntry& entry = requiredEntry(type);
  if (cache == nullptr || cache->data == nullptr) {
    const CanSchedule can = canSchedule(fusion, type);
    NVF_CHECK(can.ok, "Could not schedule the fusion: ", can.reason);
  }
  ChosenParams chosen = entry.computeHeuristics(fusion, info, cache);
  if (chosen.params != nullptr) {
    chosen.params->evict_inputs_last = gainsFromEvictingInputsLast(fusion, type, info);
    chosen.params->stream_outputs = gainsFromStreamingOutputs(fusion, info);
  }
  return chosen;
}

std::unique_ptr<HeuristicParams> computeHeuristics(Fusion* fusion, SchedulerType type,
                                                   SchedulerRuntimeInfo& info,
                                                   HeuristicCache* cache) {
  ChosenParams chosen = chooseParams(fusion, type, info, cache);
  NVF_CHECK(chosen.params != nullptr, "Could not schedule the fusion: ", chosen.why_not);
  return std::move(chosen.params);
}

void scheduleWith(Fusion* fusion, SchedulerType type, const HeuristicParams& params) {
  requiredEntry(type).schedule(fusion, params);
  if (params.evict_inputs_last) {
    evictInputsLast(fusion);
  }
  fusion->setStreamsOutputs(params.stream_outputs);
}

std::string whyNoScheduler(Fusion* fusion) {
  // One of the other schedulers of reductions takes all that the analysis of reductions takes,
  // unless columns are reduced as well as rows.
  const SchedulerType nearest = fusion->hasExpr(isReduction) ? SchedulerType::InnerOuterPersistent
                                : hasScanOps(fusion)         ? SchedulerType::Greedy
                                                             : SchedulerType::PointWise;
  return canSchedule(fusion, nearest).reason;
}

ConflictingTensors conflictingTensors(Fusion* fusion, const LeftOut& left_out) {
  if (chooseScheduler(fusion, left_out) != SchedulerType::None) {
    return {};
  }
  if (std::vector<TensorView*> updated = scatterConflicts(fusion); !updated.empty()) {
    return {std::move(updated), {}};
  }
  if (fusion->hasExpr(isReduction)) {
    return reductionConflicts(fusion);
  }
  if (hasScanOps(fusion)) {
    return {greedyConflicts(fusion), {}};
  }
  std::string why;
  const auto analysis = PointwiseAnalysis::run(fusion, &why);
  ConflictingTensors out;
  for (TensorView* tv : TensorGraph(fusion).tensors()) {
    const bool listed = std::find(analysis->conflicts.begin(), analysis->conflicts.end(), tv) !=
                        analysis->conflicts.end();
    // A cut at a tensor that is an output already and read by nobody separates nothing.
    if (listed && tv->definition() != nullptr && !tv->isFusionInput() &&
        !(tv->isFusionOutput() && tv->uses().empty())) {
      out.made.push_back(tv);
    }
  }
  return out;
}

} // namespace nvfuser
