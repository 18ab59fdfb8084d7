// SPDX-License-Identifier: BSD-3-Clause
// One call of the planner: values get numbers and shapes, segments get kernels, kernels get
// launches.
#include <executor/plan_call.h>

#include <base/error.h>
#include <base/options.h>
#include <executor/kernel_orders.h>
#include <executor/memory_places.h>
#include <executor/overwrites.h>
#include <executor/read_bytes.h>
#include <library/library.h>
#include <runtime/bind_inputs.h>
#include <runtime/devices.h>
#include <runtime/extent_checks.h>
#include <runtime/fusion_evaluator.h>
#include <runtime/machines.h>
#include <scheduler/tuned_params.h>

#include <algorithm>
#include <atomic>
#include <iostream>

namespace nvfuser {
namespace {

// Any aligned address that is not null: for tensors that are allocated later.
void* const kUnallocated = reinterpret_cast<void*>(uintptr_t(256));

std::atomic<int> failures_to_inject = 0;

// Rows that are as long do not fit either.
LeftOutFor tooLarge(const Segment& segment, std::string why) {
  const bool keeps_rows = segment.scheduler == SchedulerType::InnerPersistent ||
                          segment.scheduler == SchedulerType::OuterPersistent;
  return {std::move(why), keeps_rows ? longestRow(*segment.fusion) : 0};
}

} // namespace

void Planner::failToLower(int count) {
  failures_to_inject = count;
}

std::shared_ptr<LaunchPlan> Planner::plan(std::span<const ArgView> args, Device device,
                                          MayMake may_make, std::optional<bool> wants_any_extent) {
  checkInputs(definition_, args, device);
  checkEnvironment(device);
  LeftOut left_out;
  std::unique_lock lock(mutex_);
  while (true) {
    if (may_make == MayMake::Nothing && num_concrete_ == 0) {
      return nullptr;
    }
    Call call(*this, args, device);
    call.plan->wants_any_extent = wants_any_extent.value_or(wantsAnyExtent());
    const Roles roles = call.assignRoles();
    if (std::any_of(roles.role.begin(), roles.role.end(),
                    [](Role role) { return role == Role::View || role == Role::Empty; })) {
      checksOfWhole(args).run(args);
    }
    Chosen chosen = concrete(roles, args, device, left_out, may_make, call.plan->wants_any_extent);
    ConcreteFusion* found = chosen.concrete;
    if (found == nullptr) {
      return nullptr;
    }
    call.wanted = std::move(chosen.wanted);
    call.bind(*found);
    switch (call.makeSteps(*found, may_make == MayMake::Kernels, lock)) {
      case Call::Choice::NotCompiled:
        return nullptr;
      case Call::Choice::Simplified:
        continue; // the segments are others now
      case Call::Choice::TooLarge:
        for (auto& [type, reason] : call.too_large) {
          leaveOut(left_out, type, std::move(reason));
        }
        continue;
      case Call::Choice::Done:
        break;
    }
    call.addResults(roles, trimmed(roles), *found);
    for (LaunchPlan::Step& step : call.plan->steps) {
      step.overwrites = overwrites(*call.plan, step);
    }
    assignMemory(*call.plan);
    call.countBytes();
    return call.plan;
  }
}

Planner::Call::Choice Planner::Call::makeSteps(ConcreteFusion& concrete, bool may_compile,
                                               std::unique_lock<std::mutex>& lock) {
  Choice choice = chooseKernels(concrete, may_compile);
  for (const auto& kernel : kernels) {
    kernel->last_used = KernelLimits::instance().now();
  }
  if (choice == Choice::Done) {
    choice = compileKernels(concrete, lock);
  }
  return choice == Choice::Done ? addSteps(concrete) : choice;
}

// A schedule that can't be lowered is our mistake, not the user's: a simpler one is made instead.
Planner::Call::Choice Planner::Call::chooseKernels(ConcreteFusion& concrete, bool may_compile) {
  orders = kernelOrders(concrete, deviceInfo(device));
  for (size_t s = 0; s < concrete.segments.size(); ++s) {
    SegmentState& state = *concrete.segments[s];
    try {
      const Choice choice = chooseKernel(concrete, state, s, may_compile);
      if (choice != Choice::Done) {
        return choice;
      }
    } catch (const std::runtime_error& e) {
      if (state.tuned && !state.untuned) {
        state.untuned = true;
        return Choice::Simplified;
      }
      if (!may_compile) {
        return Choice::NotCompiled;
      }
      if (!simplifyAfter(e, concrete, state)) {
        throw;
      }
      return Choice::Simplified;
    }
  }
  return Choice::Done;
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
  checkRanges(definition(), planner.ranges_, sizes);
  for (const TensorView* tv : planner.resized_) {
    logicalSizes(tv, sizes); // fails for negative ones
  }
  const size_t count = definition().outputs().size();
  shape_without_kernel.resize(count);
  view_offset.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const Role role = assignRole(i, sizes);
    roles.role.push_back(role);
    const auto written =
        role == Role::InPlace ? reinterpret_cast<uintptr_t>(args[planner.alias_input_[i]].data) : 0;
    roles.misaligned.push_back(written % kWidestAccess != 0);
  }
  return roles;
}

void Planner::Call::bind(const ConcreteFusion& concrete) {
  const std::span<Val* const> inputs(concrete.fusion.inputs());
  bindInputs(inputs.first(args.size()), args, evaluator);
  checkExtents(concrete.fusion, concrete.constraints, evaluator);
  if (concrete.row_groups != nullptr) {
    evaluator.bind(concrete.row_groups, wanted.num_row_groups);
  }
  for (size_t i = 0; i < args.size(); ++i) {
    value_of[inputs[i]] = static_cast<uint32_t>(i);
  }
  for (const InputView& view : concrete.views.inputs) {
    addView(view);
  }
  for (const InPlaceWrite& write : concrete.writes) {
    value_of[write.output] = value_of.at(write.input);
  }
  for (const OutputPart& part : concrete.parts) {
    addPart(part);
  }
  for (const auto& state : concrete.segments) {
    addOutputs(state->segment);
  }
  for (const Expr* e : concrete.fusion.exprs()) {
    if (const auto* view = tryAs<MemoryViewOp>(e)) {
      addView({view->out(), view->in(), view->starts()});
    }
  }
  std::stable_sort(plan->views.begin(), plan->views.end(),
                   [](const auto& a, const auto& b) { return a.source < b.source; });
}

// A tensor seen with other dimensions, or a part of it.
void Planner::Call::addView(const InputView& input_view) {
  uint32_t source = value_of.at(input_view.source);
  ArgView view = viewOf(source);
  const TensorLayout layout{Shape(view.sizeSpan()), Shape(view.strideSpan())};
  const Shape sizes = logicalSizes(input_view.view, evaluator);
  const bool is_part = !input_view.starts.empty();
  const auto strides = is_part ? std::optional(layout.strides) : reshapeStrides(layout, sizes);
  NVF_ERROR(strides.has_value(), "not a view: ", input_view.view->toString());
  int64_t offset = 0;
  for (size_t d = 0; d < input_view.starts.size(); ++d) {
    offset += evaluator.evaluateInt(input_view.starts[d]) * layout.strides[d];
  }
  offset *= dataTypeSizeBytes(view.dtype);
  OutputShape& shape = plan->shapes.emplace_back();
  shape.dtype = view.dtype;
  shape.sizes.assign(sizes.begin(), sizes.end());
  shape.strides.assign(strides->begin(), strides->end());
  shape.storage_elements = view.storage_elements;
  view.rank = static_cast<int32_t>(sizes.size());
  view.sizes = shape.sizes.data();
  view.strides = shape.strides.data();
  view.data = static_cast<std::byte*>(view.data) + offset;
  value_of[input_view.view] = addLocal(view);
  if (const LaunchPlan::View* whole = plan->viewedBy(source)) {
    source = whole->source;
    offset += whole->offset;
  }
  plan->views.push_back({value_of.at(input_view.view), source, offset});
}

// A part of a result, with the strides of the whole.
void Planner::Call::addPart(const OutputPart& output_part) {
  if (value_of.count(output_part.whole) == 0) {
    value_of[output_part.whole] = addOutput(output_part.whole);
  }
  const uint32_t whole = value_of.at(output_part.whole);
  ArgView view = viewOf(whole);
  const Shape sizes = logicalSizes(output_part.part, evaluator);
  const int64_t offset = evaluator.evaluateInt(output_part.start) * view.strides[output_part.dim] *
                         dataTypeSizeBytes(view.dtype);
  OutputShape& shape = plan->shapes.emplace_back();
  shape.dtype = view.dtype;
  shape.sizes.assign(sizes.begin(), sizes.end());
  shape.strides.assign(view.strides, view.strides + view.rank);
  if (sizes.size() < shape.strides.size()) {
    shape.strides.erase(shape.strides.begin() + static_cast<std::ptrdiff_t>(output_part.dim));
  }
  shape.storage_elements =
      TensorLayout{sizes, Shape(std::span<const int64_t>(shape.strides))}.storageElements();
  view.data = static_cast<std::byte*>(view.data) + offset;
  view.rank = static_cast<int32_t>(sizes.size());
  view.sizes = shape.sizes.data();
  view.strides = shape.strides.data();
  view.storage_elements = output_part.part->writtenElements().value_or(shape.storage_elements);
  value_of[output_part.part] = addLocal(view);
  plan->parts.push_back({value_of.at(output_part.part), whole, offset});
}

const ArgView* Planner::Call::destinationOf(uint32_t value) const {
  return value < args.size() || plan->partOf(value) != nullptr ? &viewOf(value) : nullptr;
}

// Gives every tensor that a segment makes a number and a shape.
void Planner::Call::addOutputs(const Segment& segment) {
  for (const Val* v : segment.outputs) {
    if (value_of.count(v) != 0) {
      continue;
    }
    if (const auto* scatter = tryAs<ScatterOp>(v->definition());
        scatter != nullptr && scatter->isInPlace()) {
      value_of[v] = value_of.at(scatter->self());
      continue;
    }
    value_of[v] = addOutput(v->as<TensorView>());
  }
}

uint32_t Planner::Call::addOutput(const TensorView* tv) {
  plan->shapes.push_back(denseOutput(tv, evaluator));
  const OutputShape& shape = plan->shapes.back();
  ArgView view;
  view.is_tensor = true;
  view.dtype = shape.dtype;
  view.device = device;
  view.rank = static_cast<int32_t>(shape.sizes.size());
  view.data = kUnallocated;
  view.sizes = shape.sizes.data();
  view.strides = shape.strides.data();
  view.storage_elements = shape.storage_elements;
  return addLocal(view);
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

// Those that were given, or else those that tuning found, or else those of the heuristics.
ChosenParams Planner::Call::chooseParams(SegmentState& state, size_t position,
                                         std::span<const ArgView> inputs,
                                         SchedulerRuntimeInfo& info) {
  Fusion* fusion = state.segment.fusion.get();
  FusionGuard guard(fusion);
  ChosenParams of_heuristics =
      nvfuser::chooseParams(fusion, state.segment.scheduler, info, &state.heuristics);
  if (of_heuristics.params == nullptr) {
    return of_heuristics;
  }
  std::unique_ptr<HeuristicParams> params = std::move(of_heuristics.params);
  if (state.plain) {
    params->makePlain();
  }
  chosen[&state] = params->clone();
  auto given = planner.given_params_.find(position);
  if (given != planner.given_params_.end()) {
    return given->second->clone();
  }
  TunedParams& store = TunedParams::instance();
  state.tuned = false;
  if (!store.any() || state.plain || state.untuned || !planner.given_params_.empty()) {
    return params;
  }
  if (state.tuning_name.empty()) {
    state.tuning_name = TunedParams::nameOf(*fusion);
  }
  const int size_class = TunedParams::sizeClass(argumentBytes(inputs));
  const std::string key = TunedParams::key(state.tuning_name, *params, size_class, device);
  if (std::unique_ptr<HeuristicParams> tuned = store.find(key, *params)) {
    state.tuned = true;
    return tuned;
  }
  return params;
}

bool Planner::Call::isEvaluated(const SegmentState& state) const {
  return state.evaluated || state.segment.scheduler == SchedulerType::ExprEval ||
         mustEvaluate(device);
}

// The fusion itself is run, or the library; nothing is compiled.
std::shared_ptr<KernelVariant> Planner::Call::evaluation(const ConcreteFusion& concrete,
                                                         SegmentState& state,
                                                         size_t position) const {
  const uint64_t options = optionsHash();
  for (const auto& variant : state.variants) {
    if (variant->executor->isEvaluated() && variant->device == device &&
        variant->options == options) {
      return variant;
    }
  }
  auto variant = std::make_shared<KernelVariant>();
  variant->device = device;
  variant->options = options;
  variant->scheduled = std::make_unique<Fusion>(*state.segment.fusion);
  variant->executor = std::make_shared<KernelExecutor>(planner.fusion_id_, concrete.id,
                                                       static_cast<int64_t>(state.variants.size()),
                                                       static_cast<int64_t>(position));
  const Fusion& fusion = *state.segment.fusion;
  variant->executor->evaluate(
      &fusion, device, SchedulerType::ExprEval,
      librarySegmentOp(fusion) != nullptr ? prepareLibrarySegment(fusion) : nullptr);
  state.variants.push_back(variant);
  return variant;
}

namespace {

// Whether it is worth asking the heuristics for a kernel that is best for these extents alone.
bool mayHaveKernelFor(const SegmentState& state, SchedulerRuntimeInfo& info) {
  const SchedulerEntry* scheduler = schedulerEntry(state.segment.scheduler);
  return std::any_of(state.variants.begin(), state.variants.end(), [&](const auto& variant) {
    return variant->params != nullptr &&
           scheduler->maySuit(*variant->params, info, state.heuristics);
  });
}

// There is a kernel for the same extents that only others, such as the number of rows, keep from
// being used.
bool isMadeForExtents(const SegmentState& state, const HeuristicParams* params) {
  const std::vector<int64_t> wanted =
      params == nullptr ? std::vector<int64_t>() : params->ownExtents();
  return !wanted.empty() &&
         std::any_of(state.variants.begin(), state.variants.end(), [&](const auto& variant) {
           return variant->params != nullptr && variant->params->ownExtents() == wanted;
         });
}

} // namespace

Planner::Call::Choice Planner::Call::chooseKernel(const ConcreteFusion& concrete,
                                                  SegmentState& state, size_t position,
                                                  bool may_compile) {
  if (isEvaluated(state)) {
    kernels.push_back(evaluation(concrete, state, position));
    return Choice::Done;
  }
  Fusion* fusion = state.segment.fusion.get();
  const std::vector<ArgView> inputs = viewsOf(inputsOf(state.segment));
  const KernelOrder& order = orders[position];
  std::unique_ptr<HeuristicParams> params;
  DataType index_type =
      runsThreadsInLoops(device) ? DataType::Int : chooseIndexType(fusion, inputs);
  SchedulerRuntimeInfo info(fusion, inputs, machineModel(device));
  info.setWishes(ScheduleWishes::ofOptions());
  info.setWanted(&wanted);
  for (size_t i = 0; i < state.segment.outputs.size(); ++i) {
    const uint32_t value = value_of.at(state.segment.outputs[i]);
    if (plan->partOf(value) != nullptr) {
      info.setOutputLayout(fusion->outputs()[i]->as<TensorView>(), viewOf(value));
    }
  }
  const bool takes_any = plan->wants_any_extent && !state.own_extents_only;
  // The best kernel for these extents if there is one, or for another number of such rows, else one
  // that takes any.
  for (const bool wants_any_extent : {false, true}) {
    if (!wants_any_extent && takes_any && !mayHaveKernelFor(state, info)) {
      continue;
    }
    if (wants_any_extent && (!takes_any || isMadeForExtents(state, params.get()))) {
      break;
    }
    if (planner.auto_schedule_) {
      info.setWantsAnyExtent(wants_any_extent);
      ChosenParams found = chooseParams(state, position, inputs, info);
      if (found.params == nullptr) {
        too_large.emplace(state.segment.scheduler, tooLarge(state.segment, found.why_not));
        return Choice::TooLarge;
      }
      params = std::move(found.params);
    }
    if (params != nullptr && params->cparams.index_type.has_value()) {
      index_type = *params->cparams.index_type;
    }
    if (auto known = findKernel(state, params.get(), index_type, order, may_compile)) {
      kernels.push_back(std::move(known));
      return Choice::Done;
    }
  }
  if (!may_compile) {
    return Choice::NotCompiled;
  }
  scheduleKernel(concrete, state, position, std::move(params), index_type, order);
  return Choice::Done;
}

std::shared_ptr<KernelVariant> Planner::Call::findKernel(const SegmentState& state,
                                                         const HeuristicParams* params,
                                                         DataType index_type,
                                                         const KernelOrder& order,
                                                         bool may_compile) const {
  if (isOptionDisabled(DisableOption::KernelReuse)) {
    return nullptr;
  }
  const uint64_t options = optionsHash();
  const auto it =
      std::find_if(state.variants.begin(), state.variants.end(), [&](const auto& variant) {
        const bool same_params =
            params == nullptr ? variant->params == nullptr : params->sameAs(*variant->params);
        return !variant->executor->isEvaluated() && same_params &&
               variant->index_type == index_type && variant->device == device &&
               variant->options == options && variant->order == order &&
               (may_compile || variant->executor->isCompiled());
      });
  return it == state.variants.end() ? nullptr : *it;
}

void Planner::Call::scheduleKernel(const ConcreteFusion& concrete, SegmentState& state,
                                   size_t position, std::unique_ptr<HeuristicParams> params,
                                   DataType index_type, const KernelOrder& order) {
  auto variant = std::make_shared<KernelVariant>();
  variant->index_type = index_type;
  variant->device = device;
  variant->options = optionsHash();
  variant->order = order;
  const SchedulerType scheduler = state.segment.scheduler;
  variant->scheduled = std::make_unique<Fusion>(*state.segment.fusion);
  Fusion& scheduled = *variant->scheduled;
  dumpFusion(DumpOption::FusionIrPresched, "Fusion IR before scheduling:", scheduled);
  if (params != nullptr) {
    FusionGuard guard(&scheduled);
    scheduleWith(&scheduled, scheduler, *params);
    if (isDumpEnabled(DumpOption::SchedulerParams)) {
      std::cout << params->toString() << "\n";
    }
  }
  variant->executor = std::make_shared<KernelExecutor>(planner.fusion_id_, concrete.id,
                                                       static_cast<int64_t>(state.variants.size()),
                                                       static_cast<int64_t>(position));
  NVF_ERROR(failures_to_inject.load() <= 0 || failures_to_inject-- <= 0,
            "a test asked for this failure");
  variant->executor->lower(&scheduled, device, index_type, LaunchParams(),
                           params == nullptr ? CompileParams() : params->cparams, scheduler, order);
  variant->params = std::move(params);
  kernels.push_back(variant);
  uncompiled.push_back({&state, std::move(variant), {}});
}

bool Planner::Call::simplify(const std::string& why, ConcreteFusion& concrete,
                             SegmentState& state) {
  if (planner.auto_schedule_ && plan->wants_any_extent && !state.own_extents_only) {
    state.own_extents_only = true;
    state.segment.note += (state.segment.note.empty() ? "" : "; ") +
                          ("a kernel for each extent, as none takes all: " + why);
    ++concrete.revision;
    return true;
  }
  return planner.auto_schedule_ && planner.simplify(concrete, state, why);
}

bool Planner::Call::simplifyAfter(const std::runtime_error& error, ConcreteFusion& concrete,
                                  SegmentState& state) {
  if (!simplify(error.what(), concrete, state)) {
    return false;
  }
  if (dynamic_cast<const InternalError*>(&error) != nullptr) {
    planner.internal_errors_.emplace_back(error.what());
  }
  return true;
}

Planner::Call::Choice Planner::Call::addSteps(ConcreteFusion& concrete) {
  for (size_t s = 0; s < concrete.segments.size(); ++s) {
    SegmentState& state = *concrete.segments[s];
    const bool is_ours = planner.auto_schedule_ && planner.given_params_.empty();
    try {
      LaunchRefusal refusal = addStep(state, kernels[s]);
      switch (refusal.kind) {
        case LaunchRefusal::Kind::None:
          break;
        case LaunchRefusal::Kind::DoesNotFit:
          NVF_CHECK(is_ours, refusal.why);
          too_large.emplace(state.segment.scheduler, tooLarge(state.segment, refusal.why));
          return Choice::TooLarge;
        case LaunchRefusal::Kind::UnmetAssumption:
          NVF_CHECK(simplify(refusal.why, concrete, state), refusal.why);
          return Choice::Simplified;
      }
    } catch (const InternalError& e) {
      if (!simplifyAfter(e, concrete, state)) {
        throw;
      }
      return Choice::Simplified;
    }
  }
  return Choice::Done;
}

namespace {

// Of inputs that a scatter writes to: nothing of them is read.
int64_t updatedBytes(const Segment& segment, const std::vector<ArgView>& inputs) {
  int64_t bytes = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Val* in = segment.fusion->inputs()[i];
    if (in->isTensor() && in->uses().empty()) {
      bytes += argumentBytes(std::span(&inputs[i], 1));
    }
  }
  return bytes;
}

} // namespace

LaunchRefusal Planner::Call::addStep(const SegmentState& state,
                                     const std::shared_ptr<KernelVariant>& kernel) {
  const Segment& segment = state.segment;
  LaunchPlan::Step step;
  step.inputs = inputsOf(segment);
  const std::vector<ArgView> inputs = viewsOf(step.inputs);
  std::vector<const ArgView*> in_place;
  std::vector<uint32_t> values = step.inputs;
  for (const Val* out : segment.outputs) {
    const uint32_t value = value_of.at(out);
    values.push_back(value);
    in_place.push_back(destinationOf(value));
  }
  LaunchRefusal refusal;
  step.launch = kernel->executor->prepare(inputs, {}, in_place, &refusal);
  if (refusal.kind != LaunchRefusal::Kind::None) {
    return refusal;
  }
  for (PreparedLaunch::Patch& patch : step.launch.patches) {
    patch.index = values[patch.index];
  }
  // Early is before the end of the kernel before it in this call, not of one that is not ours.
  const auto before = std::find_if(plan->steps.rbegin(), plan->steps.rend(),
                                   [](const LaunchPlan::Step& s) { return !s.launch.empty; });
  if (before == plan->steps.rend() || before->launch.evaluated != nullptr) {
    step.launch.config.programmatic_dependent_launch = false;
  }
  step.outputs.assign(values.begin() + static_cast<std::ptrdiff_t>(inputs.size()), values.end());
  // Nothing that the caller gave can be replaced.
  step.makes_results = step.launch.evaluated != nullptr && !step.launch.empty &&
                       step.launch.evaluated->makesResults() &&
                       std::none_of(step.outputs.begin(), step.outputs.end(), [&](uint32_t value) {
                         return destinationOf(value) != nullptr;
                       });
  step.executor = kernel->executor;
  step.segment = &segment;
  step.variant = kernel;
  if (auto it = chosen.find(&state); it != chosen.end()) {
    step.chosen = it->second;
  }
  step.input_bytes = argumentBytes(inputs) - updatedBytes(segment, inputs);
  step.read_bytes = std::min(readBytes(*segment.fusion, inputs), step.input_bytes);
  step.output_bytes = plan->bytesWritten(step);
  // A graph saves time of the host and takes more of the device: not for kernels that the device
  // takes longer for than the host. It does not go together with kernels that start early. Bytes,
  // measured (docs/measurements/calls.md).
  constexpr int64_t kHostBoundBytes = 16 << 20;
  const auto& module = step.launch.module;
  if (module != nullptr && !step.launch.empty && !kernel->order.lets_next_start &&
      step.input_bytes + step.output_bytes <= kHostBoundBytes) {
    step.launch.repeated = module->repeat(step.launch.config);
  }
  plan->steps.push_back(std::move(step));
  return {};
}

void Planner::Call::addResults(const Roles& roles, const Trimmed& trimmed,
                               const ConcreteFusion& concrete) {
  std::unordered_map<size_t, size_t> computed; // numbers among those that are
  for (size_t k = 0; k < trimmed.kept.size(); ++k) {
    computed[trimmed.kept[k]] = k;
  }
  std::unordered_map<const Val*, uint32_t> given; // position of each tensor of the definition
  // Of each value that is made for one: the first of those that begin where it does.
  std::unordered_map<uint32_t, size_t> made;
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
      result.source = static_cast<uint32_t>(planner.views_[i].value().input);
      result.offset = view_offset[i];
      result.shape = shape_without_kernel[i];
    } else if (roles.role[i] == Role::Empty) {
      result.source = addLocal(ArgView());
      result.shape = shape_without_kernel[i];
    } else {
      const size_t k = computed.at(i);
      result.source = value_of.at(concrete.outputs[k]);
      result.shape = shapeOf(result.source);
      if (k < concrete.returned.size() && concrete.returned[k].tensor != nullptr) {
        const int64_t storage_elements = result.shape->storage_elements;
        plan->shapes.push_back(denseOutput(concrete.returned[k].tensor, evaluator));
        result.shape = &plan->shapes.back();
        if (const Val* offset = concrete.returned[k].offset; offset != nullptr) {
          result.offset = evaluator.evaluateInt(offset);
        }
        if (result.offset == 0) { // it may stand for all that is made
          plan->shapes.back().storage_elements = storage_elements;
        }
      }
      if (result.offset == 0) {
        made.emplace(result.source, plan->results.size());
      }
    }
    given.emplace(v, position);
    plan->results.push_back(result);
    ++position;
  }
  // The same tensor in another shape, or parts of it.
  for (size_t i = 0; i < plan->results.size(); ++i) {
    LaunchPlan::Result& result = plan->results[i];
    const auto first = result.kind == Kind::New ? made.find(result.source) : made.end();
    if (first != made.end() && first->second != i) {
      result.kind = Kind::Same;
      result.source = plan->results[first->second].position;
    }
    NVF_ERROR(result.kind != Kind::New || result.offset == 0, "a part is of nothing");
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

void Planner::Call::countBytes() {
  plan->input_bytes = argumentBytes(args);
  for (const LaunchPlan::Result& result : plan->results) {
    using Kind = LaunchPlan::Result::Kind;
    if (result.kind == Kind::New || result.kind == Kind::Made) {
      plan->output_bytes +=
          result.shape->storage_elements * dataTypeSizeBits(result.shape->dtype) / 8;
    }
  }
  plan->rng_numbers = 4 * static_cast<uint64_t>(definition().numStatefulRng());
}

} // namespace nvfuser
