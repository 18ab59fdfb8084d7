// SPDX-License-Identifier: BSD-3-Clause
// Lookup of launch plans, and reports about them.
#include <executor/fusion_executor_cache.h>

#include <base/error.h>
#include <base/hash.h>
#include <base/options.h>
#include <base/string_utils.h>
#include <definition/translate.h>
#include <executor/internal_failure.h>
#include <executor/memory_places.h>
#include <executor/plan_store.h>
#include <executor/planner.h>
#include <ir/describe.h>
#include <library/library.h>
#include <scheduler/tuned_params.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <mutex>
#include <unordered_map>

namespace nvfuser {
namespace {

bool sameKey(const PlanKey& a, const PlanKey& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(uint64_t)) == 0;
}

uint64_t hashKey(const PlanKey& key) {
  uint64_t hash = key.size();
  for (uint64_t word : key) {
    hash = hashCombine(hash, word);
  }
  return hash;
}

// Whether one of the plan's kernels is among these.
bool usesAny(const LaunchPlan& plan, const KernelSet& kernels) {
  return std::any_of(plan.steps.begin(), plan.steps.end(), [&](const LaunchPlan::Step& step) {
    return kernels.count(step.launch.module) != 0;
  });
}

} // namespace

using PlanPtr = std::shared_ptr<const LaunchPlan>;

struct FusionExecutorCache::Impl : KernelKeeper {
  Impl() {
    KernelLimits::instance().add(this);
  }
  ~Impl() override {
    KernelLimits::instance().remove(this);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::shared_ptr<Fusion> fusion;
  int64_t fusion_id;
  bool auto_schedule;

  std::once_flag prepared;
  std::unique_ptr<Planner> planner; // made once, at first use
  std::atomic<const Planner*> planner_made = nullptr;

  // Guards what follows; held for lookups only, and never while asking for the planner's.
  std::mutex plans_mutex;
  std::unordered_map<uint64_t, std::vector<PlanPtr>> plans;
  PlanPtr recent;
  bool recent_given_up = false;
  size_t num_plans = 0;
  int64_t num_planned = 0;
  std::atomic<size_t> num_rebound = 0; // plans for known kernels that went to the disk
  // Plans that a thread is making: others that need the same wait for it.
  std::vector<std::pair<PlanKey, std::shared_future<PlanPtr>>> in_progress;
  int64_t settings = 0; // counts setParams(): plans made with earlier ones are not kept
  bool has_params = false;
  std::string digest; // of the definition, once it was asked for
  std::unordered_map<const Segment*, std::string> evaluated_texts; // once they were asked for
  bool failure_reported = false;

  void listKernels(KernelUses& uses) override;
  void dropKernels(const KernelSet& kernels, Discarded& discarded) override;
  template <class Condition>
  void dropPlansLocked(const Condition& condition, Discarded& discarded);
  void makeRoomLocked(Discarded& discarded);

  void prepare();
  Device deviceFor(std::span<const ArgView> args, std::optional<Device> device) const;
  PlanKey keyOf(std::span<const ArgView> args, Device device) const;
  PlanPtr find(const PlanKey& key);
  PlanPtr findLocked(const PlanKey& key);
  void addLocked(const PlanPtr& plan, Discarded& discarded);
  PlanPtr planFor(std::span<const ArgView> args, std::optional<Device> device, bool may_compile);
  PlanPtr makePlan(const PlanKey& key, std::span<const ArgView> args, Device device,
                   bool may_compile);
  std::string storedKey(const PlanKey& key, Device device);
  std::shared_ptr<LaunchPlan> restorePlan(const std::string& stored_key, const PlanKey& key,
                                          std::span<const ArgView> args);
  void describeEvaluated(LaunchPlan& plan);
  void storeNewPlan(const std::string& stored_key, LaunchPlan& plan);
  void storeReboundPlan(LaunchPlan& plan);
  PlanPtr withIr(PlanPtr plan);
  void reportFailures(std::span<const ArgView> args);
  PlanPtr makeOrJoin(const PlanKey& key, std::span<const ArgView> args, Device device);
};

PlanPtr FusionExecutorCache::Impl::find(const PlanKey& key) {
  const std::lock_guard lock(plans_mutex);
  return findLocked(key);
}

PlanPtr FusionExecutorCache::Impl::findLocked(const PlanKey& key) {
  const uint64_t now = KernelLimits::instance().now();
  if (recent != nullptr && sameKey(recent->key, key)) {
    recent->last_used.store(now, std::memory_order_relaxed);
    return recent;
  }
  auto it = plans.find(hashKey(key));
  if (it != plans.end()) {
    for (const auto& plan : it->second) {
      if (sameKey(plan->key, key)) {
        plan->last_used.store(now, std::memory_order_relaxed);
        recent = plan;
        return plan;
      }
    }
  }
  return nullptr;
}

void FusionExecutorCache::Impl::addLocked(const PlanPtr& plan, Discarded& discarded) {
  makeRoomLocked(discarded);
  plan->last_used = KernelLimits::instance().advance();
  plans[hashKey(plan->key)].push_back(plan);
  recent = plan;
  ++num_plans;
}

template <class Condition>
void FusionExecutorCache::Impl::dropPlansLocked(const Condition& condition, Discarded& discarded) {
  for (auto it = plans.begin(); it != plans.end();) {
    std::erase_if(it->second, [&](const PlanPtr& plan) {
      if (!condition(*plan)) {
        return false;
      }
      discarded.push_back(plan);
      if (recent == plan) {
        recent = nullptr;
        recent_given_up = true;
      }
      --num_plans;
      return true;
    });
    it = it->second.empty() ? plans.erase(it) : std::next(it);
  }
}

// Of too many plans an eighth, those used longest ago, is dropped at once.
void FusionExecutorCache::Impl::makeRoomLocked(Discarded& discarded) {
  const size_t limit = KernelLimits::instance().limits().plans;
  if (num_plans < limit) {
    return;
  }
  std::vector<uint64_t> times;
  for (const auto& [hash, same_hash] : plans) {
    for (const PlanPtr& plan : same_hash) {
      times.push_back(plan->last_used);
    }
  }
  const size_t kept = limit - limit / 8 - 1;
  const auto oldest_kept = times.end() - static_cast<std::ptrdiff_t>(kept);
  std::nth_element(times.begin(), oldest_kept, times.end());
  const uint64_t since = kept == 0 ? UINT64_MAX : *oldest_kept;
  dropPlansLocked([&](const LaunchPlan& plan) { return plan.last_used < since; }, discarded);
}

void FusionExecutorCache::Impl::listKernels(KernelUses& uses) {
  if (const Planner* made = planner_made.load(); made != nullptr) {
    planner->listKernels(uses);
  }
  const std::lock_guard lock(plans_mutex);
  for (const auto& [hash, same_hash] : plans) {
    for (const PlanPtr& plan : same_hash) {
      for (const LaunchPlan::Step& step : plan->steps) {
        if (step.launch.module != nullptr) {
          uint64_t& time = uses[step.launch.module];
          time = std::max<uint64_t>(time, plan->last_used);
        }
      }
    }
  }
}

void FusionExecutorCache::Impl::dropKernels(const KernelSet& kernels, Discarded& discarded) {
  if (const Planner* made = planner_made.load(); made != nullptr) {
    planner->dropKernels(kernels, discarded);
  }
  const std::lock_guard lock(plans_mutex);
  dropPlansLocked([&](const LaunchPlan& plan) { return usesAny(plan, kernels); }, discarded);
}

void FusionExecutorCache::Impl::prepare() {
  if (planner_made.load(std::memory_order_acquire) != nullptr) [[likely]] {
    return;
  }
  std::call_once(prepared, [&] {
    planner = std::make_unique<Planner>(fusion.get(), fusion_id, auto_schedule);
    planner_made = planner.get();
  });
}

Device FusionExecutorCache::Impl::deviceFor(std::span<const ArgView> args,
                                            std::optional<Device> device) const {
  const Device fallback = device.has_value() ? *device : defaultDevice();
  const Device target = chooseDevice(fusion.get(), args, fallback);
  NVF_CHECK(!device.has_value() || *device == target, "The inputs are on ", target,
            ", but the fusion was asked to run on ", fallback, ".");
  return target;
}

PlanKey FusionExecutorCache::Impl::keyOf(std::span<const ArgView> args, Device device) const {
  const std::vector<bool>& scalar_matters = planner->scalarMatters();
  NVF_CHECK(args.size() == scalar_matters.size(), "Expected ", scalar_matters.size(),
            scalar_matters.size() == 1 ? " input" : " inputs", ", but got ", args.size(), ".");
  PlanKey key;
  makePlanKey(args, scalar_matters, device, optionsHash(), key);
  if (planner->overlaps(args)) {
    key.push_back(1);
  }
  return key;
}

PlanPtr FusionExecutorCache::Impl::planFor(std::span<const ArgView> args,
                                           std::optional<Device> device, bool may_compile) {
  const Device target = deviceFor(args, device);
  prepare();
  const PlanKey key = keyOf(args, target);
  if (PlanPtr plan = find(key)) {
    return plan;
  }
  PlanPtr plan = may_compile ? makeOrJoin(key, args, target) : makePlan(key, args, target, false);
  KernelLimits::instance().enforce();
  reportFailures(args);
  return plan;
}

// A mistake of ours is reported once for each definition, without any lock: whoever is told may do
// anything.
void FusionExecutorCache::Impl::reportFailures(std::span<const ArgView> args) {
  const std::vector<std::string> errors = planner->takeInternalErrors();
  if (errors.empty()) {
    return;
  }
  {
    const std::lock_guard lock(plans_mutex);
    if (std::exchange(failure_reported, true)) {
      return;
    }
  }
  reportInternalFailure({fusion, args, errors.front()});
}

// Empty if plans are not kept on disk.
std::string FusionExecutorCache::Impl::storedKey(const PlanKey& key, Device device) {
  if (!auto_schedule) {
    return {};
  }
  {
    const std::lock_guard lock(plans_mutex);
    if (has_params) {
      return {};
    }
    if (digest.empty()) {
      digest = definitionDigest(*fusion);
    }
  }
  return storedPlanKey(digest, key, device);
}

std::shared_ptr<LaunchPlan> FusionExecutorCache::Impl::restorePlan(const std::string& stored_key,
                                                                   const PlanKey& key,
                                                                   std::span<const ArgView> args) {
  if (stored_key.empty()) {
    return nullptr;
  }
  std::shared_ptr<LaunchPlan> plan = loadPlan(stored_key, key, args, fusion_id);
  if (plan != nullptr) {
    planner->addKernelsOf(*plan);
  }
  return plan;
}

// Sets the texts of steps that are evaluated.
void FusionExecutorCache::Impl::describeEvaluated(LaunchPlan& plan) {
  for (LaunchPlan::Step& step : plan.steps) {
    if (step.launch.evaluated == nullptr) {
      continue;
    }
    {
      const std::lock_guard lock(plans_mutex);
      if (auto it = evaluated_texts.find(step.segment); it != evaluated_texts.end()) {
        step.definition = it->second;
        continue;
      }
    }
    std::unique_lock planner_lock(planner->mutex());
    const Fusion segment(*step.segment->fusion);
    planner_lock.unlock();
    step.definition = evaluatedText(segment);
    const std::lock_guard lock(plans_mutex);
    evaluated_texts.emplace(step.segment, step.definition);
  }
}

// The plan, or one with the same key that can be reported on.
PlanPtr FusionExecutorCache::Impl::withIr(PlanPtr plan) {
  if (plan->arguments == nullptr) {
    return plan;
  }
  const OptionsGuard of_its_call(plan->options);
  std::shared_ptr<LaunchPlan> made = planner->plan(
      plan->arguments->views(), plan->device, Planner::MayMake::Kernels, plan->wants_any_extent);
  made->key = plan->key;
  Discarded discarded{plan}; // destroyed after the lock is given up
  const std::lock_guard lock(plans_mutex);
  dropPlansLocked([&](const LaunchPlan& other) { return &other == plan.get(); }, discarded);
  ++num_planned;
  addLocked(made, discarded);
  return made;
}

// A mistake is to be reported in every process.
void FusionExecutorCache::Impl::storeNewPlan(const std::string& stored_key, LaunchPlan& plan) {
  if (!stored_key.empty() && planner->numFallbacks() == 0) {
    describeEvaluated(plan);
    storePlan(stored_key, plan, Storing::Now);
  }
}

// A plan for known kernels.
void FusionExecutorCache::Impl::storeReboundPlan(LaunchPlan& plan) {
  constexpr size_t kMostRebound = 256;
  if (num_rebound >= kMostRebound || planner->numFallbacks() != 0) {
    return;
  }
  if (const std::string stored_key = storedKey(plan.key, plan.device); !stored_key.empty()) {
    ++num_rebound;
    describeEvaluated(plan);
    storePlan(stored_key, plan, Storing::Soon);
  }
}

// A plan that is made anew when the settings change meanwhile.
PlanPtr FusionExecutorCache::Impl::makePlan(const PlanKey& key, std::span<const ArgView> args,
                                            Device device, bool may_compile) {
  using MayMake = Planner::MayMake;
  while (true) {
    int64_t settings_before = 0;
    {
      const std::lock_guard lock(plans_mutex);
      settings_before = settings;
    }
    std::shared_ptr<LaunchPlan> plan =
        planner->plan(args, device, may_compile ? MayMake::Nothing : MayMake::Segments);
    if (plan != nullptr) {
      plan->key = key;
      if (may_compile) {
        storeReboundPlan(*plan);
      }
    } else if (!may_compile) {
      return nullptr;
    } else {
      const std::string stored_key = storedKey(key, device);
      plan = restorePlan(stored_key, key, args);
      if (plan == nullptr) {
        plan = planner->plan(args, device, MayMake::Kernels);
        plan->key = key;
        storeNewPlan(stored_key, *plan);
      }
    }
    Discarded discarded; // destroyed after the lock is given up
    const std::lock_guard lock(plans_mutex);
    if (settings != settings_before) {
      continue;
    }
    if (PlanPtr other = findLocked(key)) {
      return other;
    }
    num_planned += plan->arguments == nullptr ? 1 : 0;
    addLocked(plan, discarded);
    return plan;
  }
}

PlanPtr FusionExecutorCache::Impl::makeOrJoin(const PlanKey& key, std::span<const ArgView> args,
                                              Device device) {
  std::promise<PlanPtr> promise;
  {
    std::unique_lock lock(plans_mutex);
    if (PlanPtr plan = findLocked(key)) {
      return plan;
    }
    for (const auto& [other_key, other] : in_progress) {
      if (sameKey(other_key, key)) {
        const std::shared_future<PlanPtr> plan = other;
        lock.unlock();
        return plan.get();
      }
    }
    in_progress.emplace_back(key, promise.get_future().share());
  }
  const auto leave = [&] {
    const std::lock_guard lock(plans_mutex);
    std::erase_if(in_progress, [&](const auto& each) { return sameKey(each.first, key); });
  };
  try {
    PlanPtr plan = makePlan(key, args, device, /*may_compile=*/true);
    leave();
    promise.set_value(plan);
    return plan;
  } catch (...) {
    leave();
    promise.set_exception(std::current_exception());
    throw;
  }
}

FusionExecutorCache::FusionExecutorCache(std::shared_ptr<Fusion> fusion, int64_t fusion_id,
                                         bool auto_schedule)
    : impl_(std::make_unique<Impl>()) {
  NVF_CHECK(fusion != nullptr, "A fusion is needed.");
  impl_->fusion = std::move(fusion);
  impl_->fusion_id = fusion_id;
  impl_->auto_schedule = auto_schedule;
}

FusionExecutorCache::~FusionExecutorCache() = default;

Fusion* FusionExecutorCache::fusion() const {
  return impl_->fusion.get();
}

const std::shared_ptr<Fusion>& FusionExecutorCache::sharedFusion() const {
  return impl_->fusion;
}

Device FusionExecutorCache::deviceFor(std::span<const ArgView> args,
                                      std::optional<Device> device) const {
  return impl_->deviceFor(args, device);
}

void FusionExecutorCache::run(std::span<const ArgView> args, OutputAllocator& allocator,
                              void* stream, RngState* rng, std::optional<Device> device) {
  planFor(args, device)->run(args, allocator, stream, rng);
}

std::shared_ptr<const LaunchPlan> FusionExecutorCache::findPlan(std::span<const ArgView> args,
                                                                std::optional<Device> device) {
  const Device target = impl_->deviceFor(args, device);
  impl_->prepare();
  return impl_->find(impl_->keyOf(args, target));
}

std::shared_ptr<const LaunchPlan> FusionExecutorCache::planFor(std::span<const ArgView> args,
                                                               std::optional<Device> device) {
  return impl_->planFor(args, device, /*may_compile=*/true);
}

KernelArgs FusionExecutorCache::runFusionWithInputs(const KernelArgs& inputs,
                                                    std::optional<Device> device) {
  TensorAllocator allocator(inputs);
  run(inputs.views(), allocator, nullptr, nullptr, device);
  return allocator.take();
}

bool FusionExecutorCache::isCompiled(std::span<const ArgView> args, std::optional<Device> device) {
  return impl_->planFor(args, device, /*may_compile=*/false) != nullptr;
}

bool FusionExecutorCache::isCompiled(const KernelArgs& inputs, std::optional<Device> device) {
  return isCompiled(inputs.views(), device);
}

namespace {

std::string nameOf(const Val* v) {
  return v->isTensor() ? "T" + std::to_string(v->name()) : v->toInlineString();
}

std::vector<std::string> tensorNames(const std::vector<Val*>& vals) {
  std::vector<std::string> names;
  for (const Val* v : vals) {
    if (v->isTensor()) {
      names.push_back(nameOf(v));
    }
  }
  return names;
}

OperationReport report(const Expr* e) {
  OperationReport r;
  r.kind = pythonOpName(e);
  r.results = tensorNames(e->outputs());
  r.source = e->output(0)->as<TensorView>()->sourceLocation();
  std::vector<std::string> operands;
  for (const Val* in : e->inputs()) {
    operands.push_back(nameOf(in));
  }
  r.text = join(r.results) + " = " + r.kind + "(" + join(operands) + ")";
  return r;
}

SegmentReport report(const LaunchPlan::Step& step, int64_t id, Device device) {
  SegmentReport r;
  r.segment_id = id;
  r.scheduler = step.executor->schedulerType();
  if (step.variant->params != nullptr) {
    r.scheduler_params = step.variant->params->toString();
  }
  r.math = step.segment->fusion->printMath();
  r.scheduled_ir = scheduledIrText(*step.variant->scheduled);
  r.kernel_name = step.executor->kernelName();
  r.kernel_text = step.executor->kernelText();
  r.full_text = step.executor->fullText();
  r.launch = launchText(step.launch);
  if (step.launch.evaluated != nullptr) {
    const LibraryOp* op = librarySegmentOp(*step.segment->fusion);
    r.launch = op == nullptr ? "evaluated operation by operation" : libraryNote(*op);
  }
  r.note = step.segment->note;
  Fusion* fusion = step.segment->fusion.get();
  FusionGuard guard(fusion);
  const bool of_library = librarySegmentOp(*fusion) != nullptr; // nothing else could take it
  for (const SchedulerEntry* entry :
       of_library ? std::vector<const SchedulerEntry*>() : schedulerEntries()) {
    if (std::string why = whyNot(*entry, fusion); !why.empty()) {
      r.rejections.emplace_back(entry->type(), std::move(why));
    }
  }
  for (const Expr* e : step.segment->exprs) {
    r.operations.push_back(report(e));
  }
  r.inputs = tensorNames(step.segment->inputs);
  r.outputs = tensorNames(step.segment->outputs);
  r.input_bytes = step.read_bytes;
  r.output_bytes = step.output_bytes;
  r.compile_ms = step.executor->compileMilliseconds();
  if (step.executor->module() != nullptr) {
    const KernelResources& resources = step.executor->module()->resources();
    r.registers = resources.registers;
    r.spill_bytes = resources.spill_store_bytes + resources.spill_load_bytes;
  }
  if (step.variant->params != nullptr) {
    r.params = step.variant->params->clone();
  }
  if (step.chosen != nullptr) {
    r.chosen = step.chosen->clone();
    r.tuning_key = TunedParams::key(TunedParams::nameOf(*step.segment->fusion), *step.chosen,
                                    TunedParams::sizeClass(step.input_bytes), device);
  }
  return r;
}

std::vector<SegmentReport> reports(const LaunchPlan& plan) {
  std::vector<SegmentReport> all;
  for (const LaunchPlan::Result& result : plan.results) {
    const std::string output = "output " + std::to_string(result.position);
    SegmentReport r;
    r.segment_id = -1;
    r.scheduler = SchedulerType::NoOp;
    if (result.kind == LaunchPlan::Result::Kind::View) {
      r.note =
          output + " is a view of input " + std::to_string(result.source) + ": nothing is launched";
      all.push_back(std::move(r));
    } else if (result.kind == LaunchPlan::Result::Kind::Input) {
      r.note = output + " is input " + std::to_string(result.source) + " itself";
      all.push_back(std::move(r));
    }
  }
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    all.push_back(report(plan.steps[i], static_cast<int64_t>(i), plan.device));
  }
  return all;
}

std::string codeOf(const LaunchPlan& plan, bool intrinsic_code) {
  std::string text;
  for (const LaunchPlan::Step& step : plan.steps) {
    text += intrinsic_code ? step.executor->fullText() : step.executor->kernelText();
    text += '\n';
  }
  return text;
}

std::string scheduledIrOf(const LaunchPlan& plan, bool tensor_transforms) {
  std::string text;
  for (const LaunchPlan::Step& step : plan.steps) {
    text += scheduledIrText(*step.variant->scheduled);
    if (tensor_transforms) {
      text += transformsText(*step.variant->scheduled);
    }
  }
  return text;
}

} // namespace

std::string FusionExecutorCache::getCode(const KernelArgs& inputs, bool intrinsic_code,
                                         std::optional<Device> device) {
  return codeOf(*impl_->withIr(planFor(inputs.views(), device)), intrinsic_code);
}

std::string FusionExecutorCache::getScheduledIr(const KernelArgs& inputs, bool tensor_transforms,
                                                std::optional<Device> device) {
  const PlanPtr plan = impl_->withIr(planFor(inputs.views(), device));
  const std::lock_guard lock(impl_->planner->mutex());
  return scheduledIrOf(*plan, tensor_transforms);
}

std::vector<SegmentReport> FusionExecutorCache::segmentReports(const KernelArgs& inputs,
                                                               std::optional<Device> device) {
  const PlanPtr plan = impl_->withIr(planFor(inputs.views(), device));
  const std::lock_guard lock(impl_->planner->mutex());
  return reports(*plan);
}

std::shared_ptr<const LaunchPlan> FusionExecutorCache::mostRecentPlan() const {
  PlanPtr plan;
  {
    const std::lock_guard lock(impl_->plans_mutex);
    NVF_CHECK(
        !impl_->recent_given_up || impl_->recent != nullptr,
        "What the fusion was run with last is not kept any more (NVFUSER_MAX_KERNELS): run it "
        "again.");
    NVF_CHECK(impl_->recent != nullptr, "The fusion was not run yet.");
    plan = impl_->recent;
  }
  return impl_->withIr(plan);
}

std::string FusionExecutorCache::getMostRecentCode(bool intrinsic_code) const {
  return codeOf(*mostRecentPlan(), intrinsic_code);
}

std::string FusionExecutorCache::getMostRecentScheduledIr(bool tensor_transforms) const {
  const PlanPtr plan = mostRecentPlan();
  const std::lock_guard lock(impl_->planner->mutex());
  return scheduledIrOf(*plan, tensor_transforms);
}

std::vector<SegmentReport> FusionExecutorCache::mostRecentSegmentReports() const {
  const PlanPtr plan = mostRecentPlan();
  const std::lock_guard lock(impl_->planner->mutex());
  return reports(*plan);
}

int64_t FusionExecutorCache::peakBytes(std::span<const ArgView> args,
                                       std::optional<Device> device) {
  return nvfuser::peakBytes(*planFor(args, device));
}

void FusionExecutorCache::setParams(
    std::map<size_t, std::shared_ptr<const HeuristicParams>> params) {
  impl_->prepare();
  const bool has_params = !params.empty();
  impl_->planner->setParams(std::move(params));
  Discarded discarded; // destroyed after the lock is given up
  const std::lock_guard lock(impl_->plans_mutex);
  impl_->has_params = has_params;
  impl_->dropPlansLocked([](const LaunchPlan&) { return true; }, discarded);
  impl_->recent = nullptr;
  impl_->recent_given_up = false;
  impl_->num_plans = 0;
  ++impl_->settings;
}

int64_t FusionExecutorCache::numKernels() const {
  impl_->prepare();
  return impl_->planner->numKernels();
}

int64_t FusionExecutorCache::numFallbacks() const {
  impl_->prepare();
  return impl_->planner->numFallbacks();
}

int64_t FusionExecutorCache::numPlanned() const {
  const std::lock_guard lock(impl_->plans_mutex);
  return impl_->num_planned;
}

int64_t FusionExecutorCache::numPlans() const {
  std::lock_guard lock(impl_->plans_mutex);
  return static_cast<int64_t>(impl_->num_plans);
}

} // namespace nvfuser
