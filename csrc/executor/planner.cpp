// SPDX-License-Identifier: BSD-3-Clause
// From a definition and argument metadata to a launch plan.
#include <executor/plan_call.h>

#include <base/error.h>
#include <base/options.h>
#include <base/string_utils.h>
#include <definition/rebuild.h>
#include <definition/translate.h>
#include <ir/visitor.h>
#include <library/library.h>
#include <preseg_passes/canonical_form.h>
#include <preseg_passes/preseg_passes.h>
#include <runtime/bind_inputs.h>
#include <runtime/fusion_evaluator.h>
#include <runtime/in_place_hazard.h>
#include <runtime/machines.h>
#include <segment/library_segment.h>
#include <segment/memory_order.h>
#include <segment/viewed_segments.h>

#include <algorithm>
#include <iostream>
#include <numeric>
#include <sstream>

namespace nvfuser {
namespace {

// After more refused kernels than this nothing is joined any more.
constexpr size_t kMaxRefusals = 8;

std::vector<std::string> idTexts(const TensorDomain::Ids& ids) {
  std::vector<std::string> texts;
  for (const IterDomain* id : ids) {
    texts.push_back(id->toString());
  }
  return texts;
}

// Adds the fusion inputs that a scalar is computed from.
class LeafFinder {
 public:
  void visit(const Val* root) {
    std::vector<const Val*> stack{root};
    while (!stack.empty()) {
      const Val* v = stack.back();
      stack.pop_back();
      if (v == nullptr || !seen_.insert(v).second) {
        continue;
      }
      if (v->isFusionInput()) {
        leaves.insert(v);
      }
      if (v->isScalar() && v->definition() != nullptr) {
        const std::vector<Val*>& in = v->definition()->inputs();
        stack.insert(stack.end(), in.begin(), in.end());
      }
    }
  }
  void visitDomain(const IterDomain* id) {
    visit(id->extent());
    visit(id->expandedExtent());
    const Expr* e = id->definition();
    if (e != nullptr && seen_exprs_.insert(e).second) {
      for (const Val* v : e->fieldVals()) {
        visit(v);
      }
    }
  }
  std::unordered_set<const Val*> leaves;

 private:
  std::unordered_set<const Val*> seen_;
  std::unordered_set<const Expr*> seen_exprs_;
};

} // namespace

void dumpFusion(DumpOption option, const char* title, const Fusion& fusion) {
  if (isDumpEnabled(option)) {
    std::cout << title << "\n" << fusion.printMath() << "\n";
  }
}

Planner::Planner(const Fusion* definition, int64_t fusion_id, bool auto_schedule)
    : definition_(definition), fusion_id_(fusion_id), auto_schedule_(auto_schedule) {
  if (isDumpEnabled(DumpOption::PythonDefinition)) {
    Fusion copy(*definition);
    std::cout << translateFusion(&copy) << "\n";
  }
  dumpFusion(DumpOption::FusionIrOriginal, "Original Fusion IR:", *definition);
  dumpFusion(DumpOption::FusionIrMath, "Fusion IR (math):", *definition);
  findScalarsThatMatter();
  findAliases();
  resized_ = tensorsOfComputedSize(*definition_);
  ranges_ = promisedRanges(*definition_);
  std::unordered_set<const Val*> overwritten;
  for (const OutputAlias& alias : definition->outputAliases()) {
    overwritten.insert(alias.input);
  }
  for (Val* v : definition->outputs()) {
    const bool in_place = alias_input_[views_.size()] >= 0;
    auto chain =
        auto_schedule && !in_place ? findViewChain(definition, v->as<TensorView>()) : std::nullopt;
    if (chain.has_value() && overwritten.count(definition->inputs()[chain->input]) != 0) {
      chain.reset();
    }
    views_.push_back(std::move(chain));
  }
}

void Planner::findAliases() {
  const std::vector<Val*>& inputs = definition_->inputs();
  auto positionOf = [&](const Val* v) {
    return static_cast<int>(std::find(inputs.begin(), inputs.end(), v) - inputs.begin());
  };
  std::unordered_map<const Val*, int> alias_of;
  for (size_t i = 0; i < definition_->outputs().size(); ++i) {
    const Val* out = definition_->outputs()[i];
    if (const Val* input = definition_->outputAliases()[i].input) {
      alias_of.emplace(out, positionOf(input));
      updated_.push_back(static_cast<size_t>(positionOf(input)));
    } else if (out->isFusionInput()) {
      alias_of.emplace(out, positionOf(out));
    }
  }
  for (const Val* out : definition_->outputs()) {
    auto it = alias_of.find(out);
    alias_input_.push_back(it == alias_of.end() ? -1 : it->second);
  }
}

bool Planner::overlaps(std::span<const ArgView> args) const {
  return nvfuser::overlaps(args, updated_);
}

// Outputs that need no kernel leave nothing of the ops that read them in the trimmed definition,
// and of sizes of 1 it does not keep how they were declared.
const ExtentChecks& Planner::checksOfWhole(std::span<const ArgView> args) {
  ScalarEvaluator evaluator;
  bindInputs(definition_->inputs(), args, evaluator);
  const Concretization decisions =
      concretizationInfo(*definition_, evaluator, SizesOfOne::AsDeclared);
  std::unique_ptr<ExtentChecks>& checks = whole_checks_[decisions];
  if (checks == nullptr) {
    Fusion whole;
    if (!decisions.leavesAsIs()) {
      concretize(*definition_, decisions, &whole);
    }
    checks = std::make_unique<ExtentChecks>(decisions.leavesAsIs() ? *definition_ : whole,
                                            /*is_definition=*/false);
  }
  return *checks;
}

// What became a broadcast would fit any size, two constants are not compared when the fusion runs,
// and zeros are no op.
void Planner::checkWhole(const Trimmed& trimmed, const Concretization& decisions,
                         Concretized& concretized, std::span<const ArgView> args) {
  const auto& sizes = decisions.input_sizes;
  const auto has = [&](auto holds) { return std::any_of(sizes.begin(), sizes.end(), holds); };
  if (decisions.elements.empty() && !has([](const InputSize& s) { return s.size != s.kOpen; })) {
    return;
  }
  if (trimmed.kept.size() < definition_->outputs().size() ||
      has([](const InputSize& s) { return s.size == 1; })) {
    checksOfWhole(args).run(args);
    return;
  }
  // The decisions say all about the definition as it was given.
  if (concretized.checks == nullptr) {
    concretized.checks = &checksOfWhole(args);
  }
  concretized.checks->run(args);
}

void Planner::findScalarsThatMatter() {
  LeafFinder finder;
  for (const TensorView* tv : definition_->allTvs()) {
    for (const IterDomain* id : tv->domain()->allIds()) {
      finder.visitDomain(id);
    }
  }
  for (const Expr* e : definition_->exprs()) {
    for (const Val* v : e->fieldVals()) {
      finder.visit(v);
    }
    if (e->kind() == ExprKind::IotaOp) {
      finder.visit(e->input(0));
    }
  }
  for (const Val* v : definition_->inputs()) {
    scalar_matters_.push_back(!v->isTensor() && finder.leaves.count(v) != 0);
  }
}

// --- the definition for given roles of its outputs ---

bool Planner::wantsAnyExtent() const {
  constexpr size_t kKernelsOfOneExtent = 2;
  return auto_schedule_ && given_params_.empty() && kernel_keys_.size() >= kKernelsOfOneExtent &&
         !isOptionDisabled(DisableOption::DynamicExtents);
}

Planner::Trimmed& Planner::trimmed(const Roles& roles) {
  auto [it, inserted] = trimmed_.try_emplace(roles);
  Trimmed& t = it->second;
  if (!inserted) {
    return t;
  }
  t.fusion = std::make_unique<Fusion>();
  Fusion::copy(definition_, t.fusion.get());
  std::vector<Val*> removed;
  for (size_t i = 0; i < roles.role.size(); ++i) {
    if (roles.role[i] == Role::Computed || roles.role[i] == Role::InPlace) {
      t.kept.push_back(i);
    } else {
      removed.push_back(t.fusion->outputs()[i]);
    }
  }
  for (Val* v : removed) {
    t.fusion->removeOutput(v);
    if (!v->isFusionInput()) {
      v->as<TensorView>()->setMemoryType(MemoryType::Local);
    }
  }
  if (auto_schedule_) {
    const bool are_given = std::any_of(scalar_matters_.begin(), scalar_matters_.end(),
                                       [](bool matters) { return matters; });
    t.seen.emplace(*t.fusion, are_given);
    if (!t.seen->matter() && !needsConcretization(*t.fusion)) {
      t.seen.reset();
    }
  }
  t.may_make_nothing = auto_schedule_ && mayMakeNothing(*t.fusion);
  return t;
}

namespace {

// One that was made for extents with this product alone.
bool hasKernelFor(int64_t extent, const ConcreteFusion& concrete) {
  const auto is_for_extent = [&](const auto& variant) {
    if (variant->params == nullptr) {
      return false;
    }
    const std::vector<int64_t> own = variant->params->ownExtents();
    return !own.empty() &&
           std::accumulate(own.begin(), own.end(), int64_t{1}, std::multiplies<>()) == extent;
  };
  return std::any_of(concrete.segments.begin(), concrete.segments.end(), [&](const auto& state) {
    return std::any_of(state->variants.begin(), state->variants.end(), is_for_extent);
  });
}

bool isEmpty(const ArgView& arg) {
  return arg.is_tensor && std::find(arg.sizes, arg.sizes + arg.rank, 0) != arg.sizes + arg.rank;
}

} // namespace

Concretization Planner::decide(Trimmed& trimmed, std::span<const ArgView> args) const {
  const bool may_be_empty = trimmed.may_make_nothing ||
                            (auto_schedule_ && std::any_of(args.begin(), args.end(), isEmpty));
  Concretization decisions;
  if (!trimmed.seen.has_value() && !may_be_empty) {
    return decisions;
  }
  ScalarEvaluator evaluator;
  bindInputs(trimmed.fusion->inputs(), args, evaluator);
  std::vector<Elements> elements;
  if (may_be_empty) {
    elements = elementsOf(*trimmed.fusion, evaluator);
  }
  if (trimmed.seen.has_value() || !elements.empty()) {
    decisions = concretizationInfo(*trimmed.fusion, evaluator, SizesOfOne::MayBeBroadcasts,
                                   trimmed.seen.has_value() ? &*trimmed.seen : nullptr);
    decisions.elements = std::move(elements);
  }
  return decisions;
}

Planner::Chosen Planner::concrete(const Roles& roles, std::span<const ArgView> args, Device device,
                                  LeftOut left_out, MayMake may_make, bool wants_any_extent) {
  if (may_make == MayMake::Nothing && trimmed_.count(roles) == 0) {
    return {};
  }
  Trimmed& trimmed = this->trimmed(roles);
  Concretization decisions = decide(trimmed, args);
  const MachineModel& machine = machineModel(device);
  decisions.has_gpu_library =
      auto_schedule_ && !machine.threads_in_loops && definition_->hasExpr(ExprKind::LibraryOp);
  Concretized& concretized = trimmed.concrete[decisions];
  checkWhole(trimmed, decisions, concretized, args);
  auto& rewritten = concretized.rewritten;
  std::unique_ptr<ConcreteFusion> fresh; // not rewritten yet
  while (true) {
    if (rewritten.empty() && may_make == MayMake::Nothing) {
      return {};
    }
    if (rewritten.empty()) {
      concretized.found.clear();
      fresh = makeConcrete(roles, trimmed, decisions, machine);
    }
    WholeDefinition definition(rewritten.empty() ? &fresh->fusion : &rewritten.front()->fusion,
                               args, machine, concretized.found);
    definition.setMakesKernels(!mustEvaluate(device));
    definition.setWishes(ScheduleWishes::ofOptions());
    Chosen chosen = chooseRewritten(concretized, definition, left_out, wants_any_extent);
    if (chosen.concrete == nullptr && may_make == MayMake::Nothing) {
      return {};
    }
    if (chosen.concrete == nullptr) {
      fresh =
          fresh == nullptr ? makeConcrete(roles, trimmed, decisions, machine) : std::move(fresh);
      fresh->wanted = chosen.wanted;
      rewriteAndCut(*fresh);
      rewritten.push_back(std::move(fresh));
      chosen.concrete = rewritten.back().get();
    }
    const LeftOut& next = chosen.concrete->left_out_next;
    if (next.empty()) {
      return chosen;
    }
    for (const auto& [type, reason] : next) {
      leaveOut(left_out, type, reason);
    }
  }
}

Planner::Chosen Planner::chooseRewritten(const Concretized& concretized,
                                         WholeDefinition& definition, const LeftOut& left_out,
                                         bool wants_any_extent) const {
  const auto& made = concretized.rewritten;
  if (!auto_schedule_) {
    return {made.empty() ? nullptr : made.front().get(), {}};
  }
  const auto is_known = [&made](int64_t own_extent) {
    return std::any_of(made.begin(), made.end(),
                       [=](const auto& each) { return hasKernelFor(own_extent, *each); });
  };
  const auto ask = [&](const WholeDefinition::TakesAny& takes_any) {
    definition.setTakesAnyExtent(takes_any);
    Chosen out{nullptr, wantedRewrites(definition, left_out)};
    for (const auto& each : made) {
      if (each->wanted.rewritesLike(out.wanted)) {
        out.concrete = each.get();
        break;
      }
    }
    return out;
  };
  // A kernel that is there for just these extents is better than one that takes any.
  Chosen chosen =
      ask([=](int64_t own_extent) { return wants_any_extent && !is_known(own_extent); });
  const int64_t own_extent = chosen.wanted.own_extent;
  // It may be of another form than the one for these sizes.
  if (wants_any_extent && own_extent != 0 && is_known(own_extent) &&
      (chosen.concrete == nullptr || !hasKernelFor(own_extent, *chosen.concrete))) {
    chosen = ask([](int64_t /*own_extent*/) { return true; });
  }
  return chosen;
}

std::unique_ptr<ConcreteFusion> Planner::makeConcrete(const Roles& roles, const Trimmed& trimmed,
                                                      const Concretization& decisions,
                                                      const MachineModel& machine) {
  auto result = std::make_unique<ConcreteFusion>();
  result->id = num_concrete_++;
  result->overlap = roles.overlap;
  Fusion& fusion = result->fusion;
  std::unordered_map<const Val*, Val*> mapping;
  if (!decisions.leavesAsIs()) {
    concretize(*trimmed.fusion, decisions, &fusion, &mapping);
  } else {
    IrCloner cloner = Fusion::copy(trimmed.fusion.get(), &fusion);
    for (const Val* v : trimmed.fusion->vals()) {
      mapping[v] = cloner.lookup(v);
    }
  }
  fusion.setHasElements(auto_schedule_);
  dumpFusion(DumpOption::FusionIrConcretized, "Concretized Fusion:", fusion);

  for (size_t k = 0; k < trimmed.kept.size(); ++k) {
    result->outputs.push_back(mapping.at(trimmed.fusion->outputs()[k])->as<TensorView>());
  }
  result->constraints = extentConstraints(fusion);
  checkReadersOfSwizzledScales(fusion);
  for (size_t k = 0; auto_schedule_ && k < trimmed.kept.size(); ++k) {
    if (Val* input = trimmed.fusion->outputAliases()[k].input) {
      // Of several updates of one input the last one holds.
      auto* target = mapping.at(input)->as<TensorView>();
      std::erase_if(result->writes, [&](const InPlaceWrite& w) { return w.input == target; });
      InPlaceWrite& write = result->writes.emplace_back(InPlaceWrite{result->outputs[k], target});
      write.misaligned = roles.misaligned[trimmed.kept[k]];
    }
  }
  if (auto_schedule_) {
    // Schedulers say what they want of the form that they will see.
    makeCanonical(&fusion);
    PresegFusion definition{&fusion, std::move(result->outputs), result->writes, result->overlap};
    settleLayouts(definition, decisions.has_gpu_library ? &machine : nullptr);
    result->outputs = std::move(definition.outputs);
    result->views = std::move(definition.views);
    result->boundaries = std::move(definition.boundaries);
    result->returned = std::move(definition.returned);
  }
  return result;
}

void Planner::rewriteAndCut(ConcreteFusion& concrete) {
  if (auto_schedule_) {
    PresegFusion definition{&concrete.fusion, std::move(concrete.outputs),
                            std::move(concrete.writes), concrete.overlap};
    definition.views = std::move(concrete.views);
    definition.boundaries = std::move(concrete.boundaries);
    runPresegPasses(definition, concrete.wanted.rewrites);
    concrete.outputs = std::move(definition.outputs);
    concrete.writes = std::move(definition.writes);
    concrete.row_groups = definition.row_groups;
    concrete.parts = std::move(definition.parts);
    concrete.views = std::move(definition.views);
    dumpFusion(DumpOption::FusionIrPreseg, "Fusion IR before segmentation:", concrete.fusion);
  }
  cut(concrete);
}

namespace {

SegmentVerdict judged(const ConcreteFusion& concrete, Fusion* segment) {
  const LeftOut& left_out = concrete.wanted.left_out;
  SegmentVerdict verdict;
  if (segment->hasExpr(isOfMemory) && segment->exprs().size() == 1) {
    verdict.scheduler = SchedulerType::NoOp;
    return verdict;
  }
  if (const LibraryOp* op = librarySegmentOp(*segment)) {
    verdict.scheduler = SchedulerType::ExprEval;
    verdict.reason = libraryNote(*op);
    return verdict;
  }
  if (!concrete.refused.empty() && segment->exprs().size() > 1) {
    auto it = concrete.refused.find(segment->printMath());
    if (it != concrete.refused.end()) {
      verdict.reason = it->second;
      return verdict;
    }
    if (concrete.refused.size() > kMaxRefusals) {
      verdict.reason = "too many kernels were refused: one is made for each operation";
      return verdict;
    }
  }
  verdict.scheduler = chooseScheduler(segment, left_out);
  if (!verdict.accepted()) {
    verdict.reason = whyNoScheduler(segment);
    for (const auto& [scheduler, reason] : left_out) {
      if (isLeftOut(segment, scheduler, left_out) && canSchedule(segment, scheduler)) {
        verdict.reason = reason.why;
      }
    }
    verdict.conflicting = conflictingTensors(segment, left_out);
    if (segment->exprs().size() == 1 && fusionEvaluator() != nullptr) {
      verdict.scheduler = SchedulerType::ExprEval;
    }
  }
  return verdict;
}

// A segment that there was before keeps what is known of it.
void takeSegments(ConcreteFusion& concrete, std::vector<Segment> segments) {
  for (auto& state : concrete.segments) {
    concrete.retired.push_back(std::move(state));
  }
  concrete.segments.clear();
  for (Segment& segment : segments) {
    auto same = std::find_if(concrete.retired.begin(), concrete.retired.end(), [&](auto& old) {
      return old->segment.exprs == segment.exprs && old->segment.outputs == segment.outputs;
    });
    if (same != concrete.retired.end()) {
      concrete.segments.push_back(std::move(*same));
      concrete.retired.erase(same);
      continue;
    }
    auto state = std::make_unique<SegmentState>();
    state->segment = std::move(segment);
    concrete.segments.push_back(std::move(state));
  }
}

} // namespace

void Planner::cut(ConcreteFusion& concrete) {
  Fusion& fusion = concrete.fusion;
  if (fusion.outputs().empty()) {
    return;
  }
  if (!auto_schedule_) {
    auto state = std::make_unique<SegmentState>();
    state->segment.fusion = std::make_unique<Fusion>(fusion);
    state->segment.inputs = fusion.inputs();
    state->segment.outputs = fusion.outputs();
    state->segment.exprs = fusion.exprs();
    concrete.segments.push_back(std::move(state));
    return;
  }
  const SegmentJudge judge = [&](Fusion* segment) { return judged(concrete, segment); };
  SegmentedFusion segmented = segmentFusion(&fusion, judge, finalCopies(concrete.writes));
  while (!segmentsRespectWrites(&fusion, segmented, concrete.writes)) {
    for (const InPlaceWrite& write : concrete.writes) {
      if (write.through_copy) {
        takeLayoutOfInput(write);
      }
    }
    segmented = segmentFusion(&fusion, judge, finalCopies(concrete.writes));
  }
  if (const SchedulerType type = concrete.wanted.rewritten_for; type != SchedulerType::None) {
    if (std::string why = schedulerEntry(type)->whyUseless(segmented); !why.empty()) {
      leaveOut(concrete.left_out_next, type, {std::move(why)});
      return;
    }
  }
  // A launch makes addresses of them.
  std::erase_if(segmented.segments,
                [](const Segment& segment) { return isOfMemory(segment.exprs.front()); });
  std::unordered_set<const Val*> with_gaps;
  for (const OutputPart& part : concrete.parts) {
    with_gaps.insert({part.part, part.whole});
  }
  viewInsteadOfCopies(&fusion, segmented, with_gaps);
  if (concrete.writes.empty()) {
    orderForMemory(segmented.segments);
  }
  takeSegments(concrete, std::move(segmented.segments));
}

bool Planner::simplify(ConcreteFusion& concrete, SegmentState& state, const std::string& why) {
  if (!given_params_.empty()) {
    return false;
  }
  ++concrete.revision;
  if (isDumpEnabled(DumpOption::SegmenterLogging)) {
    std::cout << "[segmenter] no kernel could be made by " << schedulerName(state.segment.scheduler)
              << (state.plain ? "" : " with the parameters of the heuristics") << ": " << why
              << "\n"
              << state.segment.fusion->printMath();
  }
  const auto add_note = [&](const std::string& note) {
    state.segment.note += (state.segment.note.empty() ? "" : "; ") + note + why;
  };
  const Alternative other = schedulerEntry(state.segment.scheduler)->alternative();
  if (other.kind == Alternative::Kind::OtherScheduler &&
      canSchedule(state.segment.fusion.get(), other.scheduler)) {
    add_note(std::string(schedulerName(other.scheduler)) + " instead of " +
             std::string(schedulerName(state.segment.scheduler)) + ", as: ");
    state.segment.scheduler = other.scheduler;
    state.heuristics = {};
  } else if (other.kind == Alternative::Kind::PlainParams && !state.plain) {
    state.plain = true;
    add_note("without vectors and unrolling, as with them: ");
  } else if (other.kind == Alternative::Kind::LeaveOut) {
    leaveOut(concrete.left_out_next, other.scheduler,
             {"no kernel could be made that reads it once: " + why});
  } else if (state.segment.fusion->hasExpr(ExprKind::ScatterStoreOp)) {
    // The library has no operation for these.
    leaveOut(concrete.left_out_next, SchedulerType::Greedy,
             {"no kernel could be made that updates: " + why});
  } else if (concrete.wanted.rewritten_for != SchedulerType::None) {
    leaveOut(concrete.left_out_next, concrete.wanted.rewritten_for,
             {"no kernel could be made of what was rewritten for it: " + why});
  } else if (state.segment.exprs.size() > 1) {
    concrete.refused[state.segment.fusion->printMath()] = "no kernel could be made of both: " + why;
    cut(concrete);
  } else if (!state.evaluated && fusionEvaluator() != nullptr) {
    state.evaluated = true;
    add_note("evaluated operation by operation, as no kernel could be made: ");
  } else {
    return false;
  }
  ++num_fallbacks_;
  return true;
}

void Planner::forEachSegment(const std::function<void(SegmentState&)>& visit) {
  for (auto& [roles, trimmed] : trimmed_) {
    for (auto& [decisions, concretes] : trimmed.concrete) {
      for (const auto& concrete : concretes.rewritten) {
        for (const auto* states : {&concrete->segments, &concrete->retired}) {
          for (const auto& state : *states) {
            visit(*state);
          }
        }
      }
    }
  }
}

void Planner::listKernels(KernelUses& uses) {
  const std::lock_guard lock(mutex_);
  forEachSegment([&](const SegmentState& state) {
    for (const auto& variant : state.variants) {
      if (const auto& module = variant->executor->module(); module != nullptr) {
        uint64_t& time = uses[module];
        time = std::max(time, variant->last_used);
      }
    }
  });
}

void Planner::addKernelsOf(const LaunchPlan& plan) {
  const std::lock_guard lock(mutex_);
  for (const LaunchPlan::Step& step : plan.steps) {
    if (step.launch.module != nullptr) {
      kernel_keys_.insert(step.launch.module->key());
    }
  }
}

void Planner::dropKernels(const KernelSet& kernels, Discarded& discarded) {
  const std::lock_guard lock(mutex_);
  forEachSegment([&](SegmentState& state) {
    std::erase_if(state.variants, [&](const auto& variant) {
      const bool drop = kernels.count(variant->executor->module()) != 0;
      if (drop) {
        discarded.push_back(variant);
      }
      return drop;
    });
  });
}

std::string transformsText(const Fusion& fusion) {
  std::ostringstream out;
  out << "%tensor_transforms {\n";
  auto list = [&](const char* name, const TensorDomain::Ids& ids) {
    out << "  " << name << " : (" << join(idTexts(ids)) << ")\n";
  };
  for (const TensorView* tv : fusion.allTvs()) {
    out << tv->toString() << "\n";
    if (tv->hasRoot()) {
      list("root domain", tv->getRootDomain());
    }
    list("logical domain", tv->getLogicalDomain());
    if (tv->domain()->hasAllocation()) {
      list("allocation domain", tv->getAllocationDomain());
    }
    for (const Expr* e : tv->domain()->exprsToLoop()) {
      out << "    " << trim(e->toString()) << "\n";
    }
    list("loop domain", tv->getLoopDomain());
  }
  out << "} // %tensor_transforms\n";
  return out.str();
}

std::string scheduledIrText(const Fusion& fusion) {
  return replaceAll(fusion.printMath(), "%kernel_math", "%kernel");
}

} // namespace nvfuser
