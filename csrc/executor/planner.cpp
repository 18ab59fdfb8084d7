// From a definition and argument metadata to a launch plan.
#include <executor/planner.h>

#include <base/error.h>
#include <base/options.h>
#include <base/string_utils.h>
#include <executor/extent_checks.h>
#include <ir/visitor.h>
#include <runtime/tensor_layout.h>

#include <algorithm>
#include <iostream>
#include <sstream>

namespace nvfuser {
namespace {

void dumpFusion(DumpOption option, const char* title, const Fusion& fusion) {
  if (isDumpEnabled(option)) {
    std::cout << title << "\n" << fusion.printMath() << "\n";
  }
}

// Any aligned address that is not null: for tensors that are allocated later.
void* const kUnallocated = reinterpret_cast<void*>(uintptr_t(256));

std::vector<std::string> idTexts(const TensorDomain::Ids& ids) {
  std::vector<std::string> texts;
  for (const IterDomain* id : ids) {
    texts.push_back(id->toString());
  }
  return texts;
}

constexpr size_t kWorkspaceAlignment = 256;
constexpr uintptr_t kVectorBytes = 32;

// Adds the fusion inputs that a scalar is computed from.
class LeafFinder {
 public:
  void visit(const Val* v) {
    if (v == nullptr || !seen_.insert(v).second) {
      return;
    }
    if (v->isFusionInput()) {
      leaves.insert(v);
    }
    if (v->isScalar() && v->definition() != nullptr) {
      for (const Val* in : v->definition()->inputs()) {
        visit(in);
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

Planner::Planner(const Fusion* definition, int64_t fusion_id, bool auto_schedule)
    : definition_(definition), fusion_id_(fusion_id), auto_schedule_(auto_schedule) {
  dumpFusion(DumpOption::FusionIrOriginal, "Original Fusion IR:", *definition);
  dumpFusion(DumpOption::FusionIrMath, "Fusion IR (math):", *definition);
  findScalarsThatMatter();
  findAliases();
  findResized();
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

namespace {

// First and last byte of a tensor; empty ones have none.
std::pair<uintptr_t, uintptr_t> memoryOf(const ArgView& arg) {
  int64_t last = 0;
  for (int32_t d = 0; d < arg.rank; ++d) {
    if (arg.sizes[d] == 0) {
      return {1, 0};
    }
    last += (arg.sizes[d] - 1) * arg.strides[d];
  }
  const auto first = reinterpret_cast<uintptr_t>(arg.data);
  return {first, first + static_cast<uintptr_t>((last + 1) * dataTypeSizeBits(arg.dtype) / 8) - 1};
}

} // namespace

bool Planner::overlaps(std::span<const ArgView> args) const {
  for (size_t updated : updated_) {
    if (updated >= args.size() || !args[updated].is_tensor) {
      continue;
    }
    const auto [first, last] = memoryOf(args[updated]);
    for (size_t i = 0; i < args.size(); ++i) {
      if (i == updated || !args[i].is_tensor || args[i].device != args[updated].device) {
        continue;
      }
      const auto [begin, end] = memoryOf(args[i]);
      if (first <= last && begin <= end && begin <= last && first <= end) {
        return true;
      }
    }
  }
  return false;
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

void Planner::findResized() {
  for (const TensorView* tv : definition_->allTvs()) {
    for (const IterDomain* id : tv->getLogicalDomain()) {
      if (id->definition() != nullptr && id->definition()->kind() == ExprKind::Resize &&
          !id->extent()->isConst()) {
        resized_.push_back(tv);
        break;
      }
    }
  }
}

// --- the definition for given roles of its outputs ---

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
  return t;
}

ConcreteFusion& Planner::concrete(const Roles& roles, Trimmed& trimmed,
                                  std::span<const ArgView> args) {
  Concretization decisions;
  if (trimmed.needs_concretization) {
    ScalarEvaluator evaluator;
    bindInputs(trimmed.fusion->inputs(), args, evaluator);
    decisions = concretizationInfo(*trimmed.fusion, evaluator);
  }
  std::unique_ptr<ConcreteFusion>& slot = trimmed.concrete[decisions];
  if (slot == nullptr) {
    slot = makeConcrete(roles, trimmed, decisions);
  }
  return *slot;
}

std::unique_ptr<ConcreteFusion> Planner::makeConcrete(const Roles& roles, const Trimmed& trimmed,
                                                      const Concretization& decisions) {
  auto result = std::make_unique<ConcreteFusion>();
  result->id = num_concrete_++;
  Fusion& fusion = result->fusion;
  std::unordered_map<const Val*, Val*> mapping;
  if (trimmed.needs_concretization) {
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
  if (!auto_schedule_) {
    cut(*result);
    return result;
  }
  result->constraints = extentConstraints(fusion);
  std::unordered_map<const Val*, TensorView*> last_writer; // by input
  for (size_t k = 0; k < trimmed.kept.size(); ++k) {
    if (Val* input = trimmed.fusion->outputAliases()[k].input) {
      // Of several updates of one input the last one holds.
      auto* target = mapping.at(input)->as<TensorView>();
      std::erase_if(result->writes, [&](const InPlaceWrite& w) { return w.input == target; });
      result->writes.push_back({result->outputs[k], target});
    }
  }
  resolveInPlaceWrites(&fusion, result->writes, roles.overlap);
  for (const InPlaceWrite& write : result->writes) {
    adoptLayout(write.output, write.input);
  }
  for (size_t k = 0; k < trimmed.kept.size(); ++k) {
    if (!roles.misaligned[trimmed.kept[k]]) {
      continue;
    }
    for (const InPlaceWrite& write : result->writes) {
      if (write.input == mapping.at(trimmed.fusion->outputAliases()[k].input)) {
        // A tensor that promises nothing is not written in vectors.
        const TensorDomain::Ids ids = write.output->getMaybeAllocationDomain();
        write.output->setAllocationDomain(ids, TensorDomain::contiguityFilledWith(ids, false));
      }
    }
  }
  cut(*result);
  return result;
}

void Planner::cut(ConcreteFusion& concrete) {
  Fusion& fusion = concrete.fusion;
  if (fusion.outputs().empty()) {
    return;
  }
  if (!auto_schedule_) {
    SegmentState state;
    state.segment.fusion = std::make_unique<Fusion>(fusion);
    state.segment.inputs = fusion.inputs();
    state.segment.outputs = fusion.outputs();
    state.segment.exprs = fusion.exprs();
    concrete.segments.push_back(std::move(state));
    return;
  }
  dumpFusion(DumpOption::FusionIrPreseg, "Fusion IR before segmentation:", fusion);
  const SegmentJudge judge = [](Fusion* segment) {
    SegmentVerdict verdict;
    verdict.scheduler = chooseScheduler(segment);
    if (!verdict.accepted()) {
      verdict.reason = canSchedule(segment, SchedulerType::PointWise).reason;
      verdict.conflicting = conflictingTensors(segment);
    }
    return verdict;
  };
  SegmentedFusion segmented = segmentFusion(&fusion, judge, finalCopies(concrete.writes));
  while (!segmentsRespectWrites(&fusion, segmented, concrete.writes)) {
    for (const InPlaceWrite& write : concrete.writes) {
      if (write.through_copy) {
        adoptLayout(write.output, write.input);
      }
    }
    segmented = segmentFusion(&fusion, judge, finalCopies(concrete.writes));
  }
  for (Segment& segment : segmented.segments) {
    SegmentState state;
    state.segment = std::move(segment);
    concrete.segments.push_back(std::move(state));
  }
}

// --- one call ---

struct Planner::Call {
  Planner& planner;
  std::span<const ArgView> args;
  Device device;
  std::shared_ptr<LaunchPlan> plan = std::make_shared<LaunchPlan>();
  std::vector<const OutputShape*> shape_without_kernel; // per output of the definition: View, Empty
  std::vector<int64_t> view_offset;                     // per output of the definition
  ScalarEvaluator evaluator;                            // over the concrete fusion
  std::unordered_map<const Val*, uint32_t> value_of;    // values of the concrete fusion
  std::vector<KernelVariant*> kernels;                  // per segment
  std::vector<std::pair<SegmentState*, std::unique_ptr<KernelVariant>>> uncompiled;

  Call(Planner& planner, std::span<const ArgView> args, Device device)
      : planner(planner), args(args), device(device) {
    plan->device = device;
    plan->num_args = args.size();
    plan->fusion_id = planner.fusion_id_;
  }
  const Fusion& definition() const {
    return *planner.definition_;
  }
  const ArgView& viewOf(uint32_t value) const {
    return value < args.size() ? args[value] : plan->locals[value - args.size()];
  }
  uint32_t addLocal(const ArgView& view) {
    plan->locals.push_back(view);
    return static_cast<uint32_t>(args.size() + plan->locals.size() - 1);
  }

  Roles assignRoles();
  Role assignRole(size_t output, ScalarEvaluator& sizes);
  void bind(const ConcreteFusion& concrete);
  void addOutputs(const Segment& segment);
  std::vector<uint32_t> inputsOf(const Segment& segment);
  std::vector<ArgView> viewsOf(const std::vector<uint32_t>& values) const;
  bool chooseKernel(const ConcreteFusion& concrete, SegmentState& state, size_t position,
                    bool may_compile);
  void scheduleKernel(const ConcreteFusion& concrete, SegmentState& state, size_t position,
                      std::unique_ptr<HeuristicParams> params, DataType index_type);
  void compileKernels();
  void addStep(const SegmentState& state, const KernelVariant& kernel);
  const OutputShape* shapeOf(uint32_t value) const;
  void addResults(const Roles& roles, const Trimmed& trimmed, const ConcreteFusion& concrete);
  void placeWorkspaces();
  void countBytes();
};

std::shared_ptr<LaunchPlan> Planner::plan(std::span<const ArgView> args, Device device,
                                          bool may_compile) {
  checkInputs(definition_, args, device);
  Call call(*this, args, device);
  const Roles roles = call.assignRoles();
  Trimmed& trimmed = this->trimmed(roles);
  ConcreteFusion& concrete = this->concrete(roles, trimmed, args);

  call.bind(concrete);
  for (size_t s = 0; s < concrete.segments.size(); ++s) {
    if (!call.chooseKernel(concrete, concrete.segments[s], s, may_compile)) {
      return nullptr;
    }
  }
  call.compileKernels();
  for (size_t s = 0; s < concrete.segments.size(); ++s) {
    call.addStep(concrete.segments[s], *call.kernels[s]);
  }
  call.addResults(roles, trimmed, concrete);
  call.placeWorkspaces();
  call.countBytes();
  return call.plan;
}

Planner::Role Planner::Call::assignRole(size_t output, ScalarEvaluator& sizes) {
  const auto* tv = definition().outputs()[output]->as<TensorView>();
  const bool in_place = planner.alias_input_[output] >= 0 && !tv->isFusionInput();
  if (tv->isFusionInput()) {
    return Role::Input;
  }
  if (!planner.auto_schedule_) {
    return in_place ? Role::InPlace : Role::Computed;
  }
  auto keepShape = [&](const TensorLayout& layout) {
    OutputShape& shape = plan->shapes.emplace_back();
    shape.dtype = tv->dtype();
    shape.sizes.assign(layout.sizes.begin(), layout.sizes.end());
    shape.strides.assign(layout.strides.begin(), layout.strides.end());
    shape.storage_elements = layout.storageElements();
    shape_without_kernel[output] = &shape;
  };
  if (const auto& chain = planner.views_[output]; chain.has_value()) {
    if (auto view = layoutOfView(*chain, tv, args[chain->input], sizes)) {
      keepShape(view->layout);
      view_offset[output] = view->offset;
      return Role::View;
    }
  }
  const Shape shape = logicalSizes(tv, sizes);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    plan->shapes.push_back(denseOutput(tv, sizes));
    shape_without_kernel[output] = &plan->shapes.back();
    return Role::Empty;
  }
  return in_place ? Role::InPlace : Role::Computed;
}

Planner::Roles Planner::Call::assignRoles() {
  Roles roles;
  ScalarEvaluator sizes;
  bindInputs(definition().inputs(), args, sizes);
  roles.overlap = planner.overlaps(args);
  for (const TensorView* tv : planner.resized_) {
    logicalSizes(tv, sizes); // fails for negative ones
  }
  const size_t count = definition().outputs().size();
  shape_without_kernel.resize(count);
  view_offset.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const Role role = assignRole(i, sizes);
    roles.role.push_back(role);
    roles.misaligned.push_back(
        role == Role::InPlace &&
        reinterpret_cast<uintptr_t>(args[planner.alias_input_[i]].data) % kVectorBytes != 0);
  }
  return roles;
}

void Planner::Call::bind(const ConcreteFusion& concrete) {
  bindInputs(concrete.fusion.inputs(), args, evaluator);
  checkExtents(concrete.fusion, concrete.constraints, evaluator);
  for (size_t i = 0; i < concrete.fusion.inputs().size(); ++i) {
    value_of[concrete.fusion.inputs()[i]] = static_cast<uint32_t>(i);
  }
  for (const InPlaceWrite& write : concrete.writes) {
    value_of[write.output] = value_of.at(write.input);
  }
  for (const SegmentState& state : concrete.segments) {
    addOutputs(state.segment);
  }
}

// Gives every tensor that a segment makes a number and a shape.
void Planner::Call::addOutputs(const Segment& segment) {
  for (const Val* v : segment.outputs) {
    if (value_of.count(v) != 0) {
      continue;
    }
    plan->shapes.push_back(denseOutput(v->as<TensorView>(), evaluator));
    const OutputShape& shape = plan->shapes.back();
    ArgView view;
    view.is_tensor = true;
    view.dtype = shape.dtype;
    view.device = device;
    view.rank = static_cast<int32_t>(shape.sizes.size());
    view.data = kUnallocated;
    view.sizes = shape.sizes.data();
    view.strides = shape.strides.data();
    value_of[v] = addLocal(view);
  }
}

std::vector<uint32_t> Planner::Call::inputsOf(const Segment& segment) {
  std::vector<uint32_t> values;
  for (const Val* v : segment.inputs) {
    auto it = value_of.find(v);
    if (it == value_of.end()) {
      // An extent.
      auto known = evaluator.evaluate(v);
      NVF_ERROR(known.has_value(), "no value for ", v->toString());
      it = value_of.emplace(v, addLocal(ArgView::of(*known))).first;
    }
    values.push_back(it->second);
  }
  return values;
}

std::vector<ArgView> Planner::Call::viewsOf(const std::vector<uint32_t>& values) const {
  std::vector<ArgView> views;
  views.reserve(values.size());
  for (uint32_t value : values) {
    views.push_back(viewOf(value));
  }
  return views;
}

bool Planner::Call::chooseKernel(const ConcreteFusion& concrete, SegmentState& state,
                                 size_t position, bool may_compile) {
  Fusion* fusion = state.segment.fusion.get();
  const std::vector<ArgView> inputs = viewsOf(inputsOf(state.segment));
  std::unique_ptr<HeuristicParams> params;
  if (planner.auto_schedule_) {
    SchedulerRuntimeInfo info(fusion, inputs, deviceInfo(device));
    FusionGuard guard(fusion);
    params = computeHeuristics(fusion, state.segment.scheduler, info, &state.heuristics);
  }
  DataType index_type = chooseIndexType(fusion, inputs);
  if (params != nullptr && params->cparams.index_type.has_value()) {
    index_type = *params->cparams.index_type;
  }
  const bool reuse = !isOptionDisabled(DisableOption::KernelReuse);
  const uint64_t options = optionsHash();
  for (const auto& variant : state.variants) {
    const bool same_params =
        params == nullptr ? variant->params == nullptr : params->sameAs(*variant->params);
    if (reuse && same_params && variant->index_type == index_type && variant->device == device &&
        variant->options == options) {
      kernels.push_back(variant.get());
      return true;
    }
  }
  if (may_compile) {
    scheduleKernel(concrete, state, position, std::move(params), index_type);
  }
  return may_compile;
}

void Planner::Call::scheduleKernel(const ConcreteFusion& concrete, SegmentState& state,
                                   size_t position, std::unique_ptr<HeuristicParams> params,
                                   DataType index_type) {
  auto variant = std::make_unique<KernelVariant>();
  variant->index_type = index_type;
  variant->device = device;
  variant->options = optionsHash();
  const SchedulerType scheduler = state.segment.scheduler;
  Fusion scheduled(*state.segment.fusion);
  dumpFusion(DumpOption::FusionIrPresched, "Fusion IR before scheduling:", scheduled);
  if (params != nullptr) {
    FusionGuard guard(&scheduled);
    scheduleWith(&scheduled, scheduler, *params);
    if (isDumpEnabled(DumpOption::SchedulerParams)) {
      std::cout << params->toString() << "\n";
    }
  }
  variant->scheduled_ir = scheduledIrText(scheduled);
  variant->tensor_transforms = transformsText(scheduled);
  variant->executor = std::make_shared<KernelExecutor>(planner.fusion_id_, concrete.id,
                                                       static_cast<int64_t>(state.variants.size()),
                                                       static_cast<int64_t>(position));
  variant->executor->lower(&scheduled, device, index_type, LaunchParams(),
                           params == nullptr ? CompileParams() : params->cparams, scheduler);
  variant->params = std::move(params);
  kernels.push_back(variant.get());
  uncompiled.emplace_back(&state, std::move(variant));
}

void Planner::Call::compileKernels() {
  if (uncompiled.empty()) {
    return;
  }
  std::vector<CompileRequest> requests;
  for (const auto& [state, variant] : uncompiled) {
    requests.push_back(variant->executor->compileRequest());
  }
  std::vector<std::shared_ptr<CompiledModule>> modules = compileAll(requests);
  for (size_t i = 0; i < uncompiled.size(); ++i) {
    auto& [state, variant] = uncompiled[i];
    variant->executor->setModule(std::move(modules[i]));
    state->variants.push_back(std::move(variant));
    ++planner.num_kernels_;
  }
  uncompiled.clear();
}

void Planner::Call::addStep(const SegmentState& state, const KernelVariant& kernel) {
  const Segment& segment = state.segment;
  LaunchPlan::Step step;
  step.inputs = inputsOf(segment);
  const std::vector<ArgView> inputs = viewsOf(step.inputs);
  std::vector<const ArgView*> in_place;
  std::vector<uint32_t> values = step.inputs;
  for (const Val* out : segment.outputs) {
    const uint32_t value = value_of.at(out);
    values.push_back(value);
    in_place.push_back(value < args.size() ? &args[value] : nullptr);
  }
  step.launch = kernel.executor->prepare(inputs, {}, in_place);
  for (PreparedLaunch::Patch& patch : step.launch.patches) {
    patch.index = values[patch.index];
  }
  step.outputs.assign(values.begin() + static_cast<std::ptrdiff_t>(inputs.size()), values.end());
  step.executor = kernel.executor;
  step.segment = &segment;
  step.variant = &kernel;
  plan->steps.push_back(std::move(step));
}

void Planner::Call::addResults(const Roles& roles, const Trimmed& trimmed,
                               const ConcreteFusion& concrete) {
  std::unordered_map<size_t, const TensorView*> computed;
  for (size_t k = 0; k < trimmed.kept.size(); ++k) {
    computed[trimmed.kept[k]] = concrete.outputs[k];
  }
  std::unordered_map<const Val*, uint32_t> given; // position of each tensor of the definition
  uint32_t position = 0;
  using Kind = LaunchPlan::Result::Kind;
  for (size_t i = 0; i < roles.role.size(); ++i) {
    const OutputAlias& alias = definition().outputAliases()[i];
    if (alias.input != nullptr && alias.hidden) {
      continue;
    }
    const Val* v = definition().outputs()[i];
    LaunchPlan::Result result{.kind = Kind::New, .position = position, .source = 0};
    if (planner.alias_input_[i] >= 0) {
      result.kind = Kind::Input;
      result.source = static_cast<uint32_t>(planner.alias_input_[i]);
    } else if (auto it = given.find(v); it != given.end()) {
      result.kind = Kind::Same;
      result.source = it->second;
    } else if (roles.role[i] == Role::View) {
      result.kind = Kind::View;
      result.source = static_cast<uint32_t>(planner.views_[i]->input);
      result.offset = view_offset[i];
      result.shape = shape_without_kernel[i];
    } else if (roles.role[i] == Role::Empty) {
      result.source = addLocal(ArgView());
      result.shape = shape_without_kernel[i];
    } else {
      result.source = value_of.at(computed.at(i));
      result.shape = shapeOf(result.source);
    }
    given.emplace(v, position);
    plan->results.push_back(result);
    ++position;
  }
}

const OutputShape* Planner::Call::shapeOf(uint32_t value) const {
  const ArgView& view = viewOf(value);
  for (const OutputShape& shape : plan->shapes) {
    if (shape.sizes.data() == view.sizes && shape.strides.data() == view.strides &&
        shape.dtype == view.dtype) {
      return &shape;
    }
  }
  NVF_THROW("a result has no shape");
}

// Intermediate tensors share one block of memory; two that are never needed at the same time may
// lie in the same place.
void Planner::Call::placeWorkspaces() {
  std::unordered_set<uint32_t> results;
  for (const LaunchPlan::Result& result : plan->results) {
    if (result.kind == LaunchPlan::Result::Kind::New) {
      results.insert(result.source);
    }
  }
  struct Block {
    size_t begin, end;
    size_t last_use;
  };
  std::unordered_map<uint32_t, size_t> last_use;
  for (size_t s = 0; s < plan->steps.size(); ++s) {
    for (uint32_t value : plan->steps[s].inputs) {
      last_use[value] = s;
    }
  }
  std::vector<Block> live; // by address
  for (size_t s = 0; s < plan->steps.size(); ++s) {
    std::erase_if(live, [&](const Block& block) { return block.last_use < s; });
    const LaunchPlan::Step& step = plan->steps[s];
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const uint32_t value = step.outputs[i];
      if (value < args.size() || results.count(value) != 0) {
        continue;
      }
      const OutputShape& shape = step.launch.outputs[i];
      const size_t bytes =
          static_cast<size_t>(shape.storage_elements * dataTypeSizeBytes(shape.dtype));
      const size_t size = std::max(bytes + kWorkspaceAlignment - 1, kWorkspaceAlignment) /
                          kWorkspaceAlignment * kWorkspaceAlignment;
      size_t begin = 0;
      auto at = live.begin();
      while (at != live.end() && at->begin < begin + size) {
        begin = at->end;
        ++at;
      }
      auto used = last_use.find(value);
      live.insert(at, {begin, begin + size, used == last_use.end() ? s : used->second});
      plan->workspaces.push_back({value, begin});
      plan->workspace_bytes = std::max(plan->workspace_bytes, begin + size);
    }
  }
}

void Planner::Call::countBytes() {
  plan->input_bytes = argumentBytes(args);
  for (const LaunchPlan::Result& result : plan->results) {
    if (result.kind == LaunchPlan::Result::Kind::New) {
      plan->output_bytes +=
          result.shape->storage_elements * dataTypeSizeBits(result.shape->dtype) / 8;
    }
  }
  plan->rng_numbers = 4 * static_cast<uint64_t>(definition().numStatefulRng());
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
