// From a definition and argument metadata to a launch plan.
#include <executor/plan_call.h>

#include <base/error.h>
#include <base/options.h>
#include <base/string_utils.h>
#include <definition/rebuild.h>
#include <definition/translate.h>
#include <executor/allocation_order.h>
#include <ir/visitor.h>
#include <library/library.h>
#include <runtime/bind_inputs.h>
#include <runtime/devices.h>
#include <runtime/fusion_evaluator.h>
#include <runtime/in_place_hazard.h>
#include <scheduler/online_softmax.h>
#include <scheduler/outer_partials.h>
#include <scheduler/reduction.h>
#include <scheduler/reduction_params.h>
#include <scheduler/row_walk.h>
#include <segment/library_segment.h>
#include <segment/lookups.h>
#include <segment/widening.h>

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

// Outputs that need no kernel leave nothing of the ops behind them in the trimmed definition, and
// of sizes of 1 it does not keep how they were declared.
void Planner::checkWholeDefinition(std::span<const ArgView> args) {
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
  checks->run(args);
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
  t.needs_concretization = auto_schedule_ && needsConcretization(*t.fusion);
  t.may_make_nothing = auto_schedule_ && mayMakeNothing(*t.fusion);
  return t;
}

namespace {

// The extents of the inputs give how the walk over the rows is shared.
WalkedRows walkedRows(const ConcreteFusion& concrete, std::span<const ArgView> args) {
  ScalarEvaluator evaluator;
  bindInputs(concrete.fusion.inputs(), args, evaluator);
  auto product = [&](const std::vector<Val*>& extents) {
    int64_t out = 1;
    for (const Val* extent : extents) {
      const auto value = evaluator.evaluate(extent);
      NVF_ERROR(value.has_value(), "no value for ", extent->toString());
      out *= std::get<int64_t>(*value);
    }
    return out;
  };
  const RowsAndColumns& both = *concrete.rows_and_columns;
  return {product(both.rows), product(both.columns), both.sums, both.row_bytes, both.reduced_once};
}

int64_t walkersOfAny(const WalkedRows& walked, Device device) {
  const DeviceInfo& info = deviceInfo(device);
  return walkersOf(chooseAnyRowWalk(walked, info), walked, info);
}

// A kernel that was made for rows of this length alone.
bool hasKernelForRowsOf(int64_t length, const ConcreteFusion& concrete) {
  const auto is_for_length = [&](const auto& variant) {
    const auto* params = dynamic_cast<const ReductionParams*>(variant->params.get());
    return params != nullptr && !params->reduced_extents.empty() &&
           std::accumulate(params->reduced_extents.begin(), params->reduced_extents.end(),
                           int64_t{1}, std::multiplies<>()) == length;
  };
  return std::any_of(concrete.segments.begin(), concrete.segments.end(), [&](const auto& state) {
    return std::any_of(state->variants.begin(), state->variants.end(), is_for_length);
  });
}

// Where columns are summed by kernels of their own, one of them may as well finish the rows.
LeftOut leftOut(const ConcreteFusion& concrete) {
  LeftOut out = concrete.left_out;
  if (concrete.rows_and_columns.has_value() && concrete.partial_sums == 0) {
    out.try_emplace(SchedulerType::InnerPersistent,
                    "the rows are too long for the sums of their columns to be kept beside them");
  }
  return out;
}

bool sameSchedulers(const LeftOut& a, const LeftOut& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first; });
}

bool isEmpty(const ArgView& arg) {
  return arg.is_tensor && std::find(arg.sizes, arg.sizes + arg.rank, 0) != arg.sizes + arg.rank;
}

} // namespace

int64_t anyWalkers(const ConcreteFusion& concrete, std::span<const ArgView> args, Device device) {
  return walkersOfAny(walkedRows(concrete, args), device);
}

Concretization Planner::decide(const Trimmed& trimmed, std::span<const ArgView> args) {
  const bool may_be_empty = trimmed.may_make_nothing ||
                            (auto_schedule_ && std::any_of(args.begin(), args.end(), isEmpty));
  Concretization decisions;
  if (!trimmed.needs_concretization && !may_be_empty) {
    return decisions;
  }
  ScalarEvaluator evaluator;
  bindInputs(trimmed.fusion->inputs(), args, evaluator);
  std::vector<bool> makes_nothing;
  if (may_be_empty) {
    makes_nothing = exprsWithoutElement(*trimmed.fusion, evaluator);
  }
  if (trimmed.needs_concretization || !makes_nothing.empty()) {
    decisions = concretizationInfo(*trimmed.fusion, evaluator);
    decisions.makes_nothing = std::move(makes_nothing);
  }
  if (!decisions.input_size_is_one.empty() || !decisions.makes_nothing.empty()) {
    checkWholeDefinition(args); // what became a broadcast would fit any size, and zeros are no op
  }
  return decisions;
}

ConcreteFusion* Planner::concrete(const Roles& roles, std::span<const ArgView> args, Device device,
                                  LeftOut left_out, MayMake may_make, bool wants_any_extent) {
  if (may_make == MayMake::Nothing && trimmed_.count(roles) == 0) {
    return nullptr;
  }
  Trimmed& trimmed = this->trimmed(roles);
  const Concretization decisions = decide(trimmed, args);
  auto& known = trimmed.concrete[decisions];
  std::optional<int64_t> partial_sums; // if others than are best for these rows
  if (!known.empty()) {
    int64_t sums = 0;
    const auto find = [&]() -> ConcreteFusion* {
      const auto it = std::find_if(known.begin(), known.end(), [&](const auto& each) {
        return each->partial_sums == sums && sameSchedulers(each->left_out, left_out);
      });
      return it == known.end() ? nullptr : it->get();
    };
    ConcreteFusion* found = nullptr;
    if (known.front()->rows_and_columns.has_value()) {
      const WalkedRows walked = walkedRows(*known.front(), args);
      sums = chooseRowWalk(walked, deviceInfo(device)).walkers;
      found = find();
      if (wants_any_extent && (found == nullptr || !hasKernelForRowsOf(walked.columns, *found))) {
        const int64_t any = walkersOfAny(walked, device);
        sums = any > 0 ? ConcreteFusion::kAnyPartialSums : any;
        partial_sums = sums;
      }
    }
    found = find();
    while (found != nullptr && (found->columns_refused || !found->left_out_next.empty())) {
      if (found->columns_refused) {
        sums = 0;
        partial_sums = sums;
      } else {
        left_out.insert(found->left_out_next.begin(), found->left_out_next.end());
      }
      found = find();
    }
    if (found != nullptr) {
      return found;
    }
  }
  if (may_make == MayMake::Nothing) {
    return nullptr;
  }
  known.push_back(
      makeConcrete(roles, trimmed, decisions, args, device, partial_sums, std::move(left_out)));
  return known.back().get();
}

std::unique_ptr<ConcreteFusion> Planner::makeConcrete(const Roles& roles, const Trimmed& trimmed,
                                                      const Concretization& decisions,
                                                      std::span<const ArgView> args, Device device,
                                                      std::optional<int64_t> partial_sums,
                                                      LeftOut left_out) {
  auto result = std::make_unique<ConcreteFusion>();
  result->left_out = std::move(left_out);
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
  dumpFusion(DumpOption::FusionIrConcretized, "Concretized Fusion:", fusion);

  for (size_t k = 0; k < trimmed.kept.size(); ++k) {
    result->outputs.push_back(mapping.at(trimmed.fusion->outputs()[k])->as<TensorView>());
  }
  result->constraints = extentConstraints(fusion);
  checkReadersOfSwizzledScales(fusion);
  if (!auto_schedule_) {
    cut(*result);
    return result;
  }
  std::unordered_map<const Val*, TensorView*> last_writer; // by input
  for (size_t k = 0; k < trimmed.kept.size(); ++k) {
    if (Val* input = trimmed.fusion->outputAliases()[k].input) {
      // Of several updates of one input the last one holds.
      auto* target = mapping.at(input)->as<TensorView>();
      std::erase_if(result->writes, [&](const InPlaceWrite& w) { return w.input == target; });
      InPlaceWrite& write = result->writes.emplace_back(InPlaceWrite{result->outputs[k], target});
      write.misaligned = roles.misaligned[trimmed.kept[k]];
    }
  }
  std::vector<TensorView*> allocated;
  std::copy_if(result->outputs.begin(), result->outputs.end(), std::back_inserter(allocated),
               [&](TensorView* out) {
                 return std::none_of(result->writes.begin(), result->writes.end(),
                                     [&](const InPlaceWrite& w) { return w.output == out; });
               });
  inferAllocationOrder(&fusion, allocated);
  materializeExpandedWrites(&fusion, result->writes, result->outputs);
  resolveInPlaceWrites(&fusion, result->writes, roles.overlap);
  for (const InPlaceWrite& write : result->writes) {
    takeLayoutOfInput(write);
  }
  if (hasReductions(&fusion)) {
    result->rows_and_columns = findRowsAndColumns(&fusion);
    if (result->rows_and_columns.has_value()) {
      const WalkedRows walked = walkedRows(*result, args);
      result->partial_sums = partial_sums.has_value()
                                 ? *partial_sums
                                 : chooseRowWalk(walked, deviceInfo(device)).walkers;
    }
  }
  separateViewsForLibraryOps(&fusion);
  lookUpInInputs(&fusion);
  if (hasReductions(&fusion)) {
    const bool cuts_rows = !leftOut(*result).empty();
    mergeSoftmaxStatistics(&fusion, cuts_rows);
    if (cuts_rows && result->writes.empty()) {
      repeatAfterReductions(&fusion);
    }
    separateWideningCasts(&fusion);
  }
  dumpFusion(DumpOption::FusionIrPreseg, "Fusion IR before segmentation:", fusion);
  cut(*result);
  return result;
}

namespace {

// Whether reductions of columns, made in two steps, all join kernels that reduce rows. Tried on a
// copy.
bool columnsFuseWithRows(const Fusion& fusion, int64_t partial_sums, const SegmentJudge& judge) {
  Fusion trial(fusion);
  splitColumnReductions(&trial, std::max<int64_t>(partial_sums, 1));
  const SegmentedFusion segmented = segmentFusion(&trial, judge);
  return std::all_of(
      segmented.segments.begin(), segmented.segments.end(), [](const Segment& segment) {
        return segment.scheduler == SchedulerType::InnerOuterPersistent ||
               std::none_of(segment.outputs.begin(), segment.outputs.end(),
                            [](const Val* v) { return isPartialReduction(v->as<TensorView>()); });
      });
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
  const LeftOut left_out = leftOut(concrete);
  const SegmentJudge judge = [&](Fusion* segment) {
    SegmentVerdict verdict;
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
      verdict.reason = canSchedule(segment, SchedulerType::PointWise).reason;
      for (const auto& [scheduler, why] : left_out) {
        verdict.reason = canSchedule(segment, scheduler) ? why : verdict.reason;
      }
      verdict.conflicting = conflictingTensors(segment, left_out);
      if (segment->exprs().size() == 1 && fusionEvaluator() != nullptr) {
        verdict.scheduler = SchedulerType::ExprEval;
      }
    }
    return verdict;
  };
  const bool any_walkers = concrete.partial_sums == ConcreteFusion::kAnyPartialSums;
  if ((concrete.partial_sums > 0 || any_walkers) && concrete.refused.empty() &&
      columnsFuseWithRows(fusion, concrete.partial_sums, judge)) {
    if (any_walkers) {
      concrete.walkers = splitColumnReductions(&fusion);
    } else {
      splitColumnReductions(&fusion, concrete.partial_sums);
    }
    concrete.columns_split = true;
  } else if (concrete.rows_and_columns.has_value() && concrete.refused.empty() &&
             concrete.writes.empty()) {
    repeatForColumns(&fusion);
  }
  SegmentedFusion segmented = segmentFusion(&fusion, judge, finalCopies(concrete.writes));
  while (!segmentsRespectWrites(&fusion, segmented, concrete.writes)) {
    for (const InPlaceWrite& write : concrete.writes) {
      if (write.through_copy) {
        takeLayoutOfInput(write);
      }
    }
    segmented = segmentFusion(&fusion, judge, finalCopies(concrete.writes));
  }
  for (auto& state : concrete.segments) {
    concrete.retired.push_back(std::move(state));
  }
  concrete.segments.clear();
  for (Segment& segment : segmented.segments) {
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

bool Planner::simplify(ConcreteFusion& concrete, SegmentState& state, const std::string& why) {
  if (!given_params_.empty()) {
    return false;
  }
  ++concrete.revision;
  if (isDumpEnabled(DumpOption::SegmenterLogging)) {
    std::cout << "[segmenter] no kernel could be made"
              << (state.plain ? "" : " with the parameters of the heuristics") << ": " << why
              << "\n"
              << state.segment.fusion->printMath();
  }
  if (state.segment.scheduler == SchedulerType::Transpose) {
    state.segment.scheduler = SchedulerType::PointWise;
    state.heuristics = {};
    state.segment.note +=
        (state.segment.note.empty() ? "" : "; ") + ("pointwise instead of transpose, as: " + why);
  } else if (!state.plain && state.segment.scheduler == SchedulerType::PointWise) {
    state.plain = true;
    state.segment.note += (state.segment.note.empty() ? "" : "; ") +
                          ("without vectors and unrolling, as with them: " + why);
  } else if (state.segment.scheduler == SchedulerType::OuterPersistent) {
    concrete.left_out_next[SchedulerType::OuterPersistent] =
        "no kernel could be made that reads it once: " + why;
  } else if (concrete.columns_split && !concrete.columns_refused) {
    concrete.columns_refused = true; // another concrete fusion takes its place
  } else if (state.segment.exprs.size() > 1) {
    concrete.refused[state.segment.fusion->printMath()] = "no kernel could be made of both: " + why;
    cut(concrete);
  } else if (!state.evaluated && fusionEvaluator() != nullptr) {
    state.evaluated = true;
    state.segment.note += (state.segment.note.empty() ? "" : "; ") +
                          ("evaluated operation by operation, as no kernel could be made: " + why);
  } else {
    return false;
  }
  ++num_fallbacks_;
  return true;
}

void Planner::forEachSegment(const std::function<void(SegmentState&)>& visit) {
  for (auto& [roles, trimmed] : trimmed_) {
    for (auto& [decisions, concretes] : trimmed.concrete) {
      for (const auto& concrete : concretes) {
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
