// SPDX-License-Identifier: BSD-3-Clause
// Launch plans as bytes: written, read with every length checked, and keyed.
#include <executor/plan_store.h>

#include <base/error.h>
#include <base/hash.h>
#include <base/options.h>
#include <cuda/nvrtc.h>
#include <definition/equality.h>
#include <definition/translate.h>
#include <executor/plan_writer.h>
#include <host/compiler.h>
#include <ir/library_op.h>
#include <library/library.h>
#include <runtime/devices.h>
#include <runtime/fusion_evaluator.h>
#include <scheduler/tuned_params.h>
#include <target/disk_cache.h>

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <type_traits>
#include <unordered_map>

namespace nvfuser {
namespace {

// Increase with every change of the layout that the build would not tell apart.
constexpr const char* kFormat = "nvfuser plan 2";
constexpr uint32_t kNoShape = UINT32_MAX;

class Writer {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::has_unique_object_representations_v<T> || std::is_floating_point_v<T> ||
                  std::is_same_v<T, std::complex<double>>);
    static_assert(!std::is_pointer_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  template <class Range>
  void putAll(const Range& values) {
    put(static_cast<uint64_t>(values.size()));
    for (const auto& value : values) {
      put(value);
    }
  }
  void putText(std::string_view text) {
    put(static_cast<uint64_t>(text.size()));
    bytes_.append(text);
  }
  std::string take() {
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

template <class Range, class Put>
void putEach(Writer& out, const Range& values, const Put& put) {
  out.put(static_cast<uint64_t>(values.size()));
  for (const auto& value : values) {
    put(out, value);
  }
}

// The bytes are not those of a plan.
struct Malformed {};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
    T value;
    std::memcpy(static_cast<void*>(&value), skip(sizeof(T)), sizeof(T));
    return value;
  }
  // As many elements of at least so many bytes as there are.
  size_t count(size_t element_bytes) {
    const auto n = get<uint64_t>();
    require(n <= bytes_.size() / element_bytes);
    return n;
  }
  template <class T>
  void getAll(std::vector<T>& values) {
    values.resize(count(sizeof(T)));
    for (T& value : values) {
      value = get<T>();
    }
  }
  std::string getText() {
    const size_t n = count(1);
    return {skip(n), n};
  }
  bool atEnd() const {
    return bytes_.empty();
  }
  static void require(bool condition) {
    if (!condition) {
      throw Malformed();
    }
  }

 private:
  const char* skip(size_t n) {
    require(n <= bytes_.size());
    const char* at = bytes_.data();
    bytes_.remove_prefix(n);
    return at;
  }

  std::string_view bytes_;
};

template <class Range, class Get>
void getEach(Reader& in, Range& values, const Get& get) {
  for (size_t n = in.count(1); n > 0; --n) {
    values.push_back(get(in));
  }
}

// ---- parts ----

// Field by field: bytes between the fields of a struct would differ from process to process.
void putDevice(Writer& out, Device device) {
  out.put(device.type);
  out.put(device.index);
}

Device getDevice(Reader& in) {
  const auto type = in.get<DeviceType>();
  return {type, in.get<int>()};
}

void putPatch(Writer& out, const PreparedLaunch::Patch& patch) {
  out.put(patch.kind);
  out.put(patch.dtype);
  out.put(patch.offset);
  out.put(patch.index);
}

PreparedLaunch::Patch getPatch(Reader& in) {
  PreparedLaunch::Patch patch = {};
  patch.kind = in.get<PreparedLaunch::Patch::Kind>();
  patch.dtype = in.get<DataType>();
  patch.offset = in.get<uint32_t>();
  patch.index = in.get<uint32_t>();
  return patch;
}

void putWorkspaceUse(Writer& out, const PreparedLaunch::WorkspaceUse& use) {
  out.put(use.offset);
  out.put(use.is_semaphores);
  out.put(use.first);
}

PreparedLaunch::WorkspaceUse getWorkspaceUse(Reader& in) {
  PreparedLaunch::WorkspaceUse use = {};
  use.offset = in.get<uint32_t>();
  use.is_semaphores = in.get<bool>();
  use.first = in.get<uint64_t>();
  return use;
}

void putShape(Writer& out, const OutputShape& shape) {
  out.put(shape.dtype);
  out.putAll(shape.sizes);
  out.putAll(shape.strides);
  out.put(shape.storage_elements);
  out.put(shape.alias_input);
  out.put(shape.in_place);
  out.put(shape.same_as);
  out.put(shape.hidden);
}

OutputShape getShape(Reader& in) {
  OutputShape shape;
  shape.dtype = in.get<DataType>();
  in.getAll(shape.sizes);
  in.getAll(shape.strides);
  Reader::require(shape.sizes.size() == shape.strides.size());
  shape.storage_elements = in.get<int64_t>();
  shape.alias_input = in.get<int>();
  shape.in_place = in.get<bool>();
  shape.same_as = in.get<int>();
  shape.hidden = in.get<bool>();
  return shape;
}

void putScalar(Writer& out, const ScalarValue& scalar) {
  out.put(static_cast<uint8_t>(scalar.index()));
  std::visit(
      [&](const auto& value) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
          out.put(value);
        }
      },
      scalar);
}

ScalarValue getScalar(Reader& in) {
  switch (in.get<uint8_t>()) {
    case 0:
      return {};
    case 1:
      return in.get<bool>();
    case 2:
      return in.get<int64_t>();
    case 3:
      return in.get<double>();
    case 4:
      return in.get<std::complex<double>>();
    default:
      throw Malformed();
  }
}

void putTensorMap(Writer& out, const PreparedLaunch::TensorMapUse& use) {
  out.put(use.offset);
  out.put(use.index);
  out.put(use.request.element_bytes);
  out.putAll(use.request.sizes);
  out.putAll(use.request.stride_bytes);
  out.putAll(use.request.box);
  out.put(use.request.swizzle);
}

PreparedLaunch::TensorMapUse getTensorMap(Reader& in) {
  PreparedLaunch::TensorMapUse use;
  use.offset = in.get<uint32_t>();
  use.index = in.get<uint32_t>();
  use.request.element_bytes = in.get<int>();
  in.getAll(use.request.sizes);
  in.getAll(use.request.stride_bytes);
  in.getAll(use.request.box);
  use.request.swizzle = in.get<TensorMapSwizzle>();
  return use;
}

void putConfig(Writer& out, const LaunchConfig& config) {
  out.put(config.grid);
  out.put(config.block);
  out.put(config.cluster);
  out.put(config.dynamic_shared_bytes);
  out.put(config.programmatic_dependent_launch);
  out.put(config.cooperative);
  out.put(config.tensor_bytes);
}

LaunchConfig getConfig(Reader& in) {
  LaunchConfig config;
  config.grid = in.get<Dim3>();
  config.block = in.get<Dim3>();
  config.cluster = in.get<Dim3>();
  config.dynamic_shared_bytes = in.get<uint32_t>();
  config.programmatic_dependent_launch = in.get<bool>();
  config.cooperative = in.get<bool>();
  config.tensor_bytes = in.get<int64_t>();
  return config;
}

// The kernel by its key; the module is not loaded here.
void putLaunch(Writer& out, const PreparedLaunch& launch) {
  out.putAll(launch.bytes);
  out.putAll(launch.offsets);
  putEach(out, launch.patches, putPatch);
  putEach(out, launch.workspace_uses, putWorkspaceUse);
  putEach(out, launch.tensor_maps, putTensorMap);
  out.put(launch.workspace_bytes);
  out.put(launch.semaphore_count);
  putEach(out, launch.outputs, putShape);
  putConfig(out, launch.config);
  out.put(launch.empty);
  out.put(launch.repeated != nullptr);
  putDevice(out, launch.device);
}

struct StoredLaunch {
  PreparedLaunch launch;
  bool is_repeated = false;
};

StoredLaunch getLaunch(Reader& in) {
  StoredLaunch stored;
  PreparedLaunch& launch = stored.launch;
  in.getAll(launch.bytes);
  in.getAll(launch.offsets);
  getEach(in, launch.patches, getPatch);
  getEach(in, launch.workspace_uses, getWorkspaceUse);
  getEach(in, launch.tensor_maps, getTensorMap);
  launch.workspace_bytes = in.get<uint64_t>();
  launch.semaphore_count = in.get<uint64_t>();
  getEach(in, launch.outputs, getShape);
  launch.config = getConfig(in);
  launch.empty = in.get<bool>();
  stored.is_repeated = in.get<bool>();
  launch.device = getDevice(in);
  return stored;
}

// What is at an offset must lie within the arguments, and values must exist.
// What is evaluated has no packed arguments.
void checkLaunch(const PreparedLaunch& launch, size_t values, bool is_kernel) {
  const auto within = [&](uint32_t offset) { return !is_kernel || offset < launch.bytes.size(); };
  Reader::require(std::all_of(launch.offsets.begin(), launch.offsets.end(), within));
  for (const PreparedLaunch::Patch& patch : launch.patches) {
    const bool is_value = patch.kind != PreparedLaunch::Patch::Kind::RngSeed &&
                          patch.kind != PreparedLaunch::Patch::Kind::RngOffset;
    Reader::require(within(patch.offset) && (!is_value || patch.index < values));
  }
  for (const PreparedLaunch::WorkspaceUse& use : launch.workspace_uses) {
    Reader::require(within(use.offset));
  }
  for (const PreparedLaunch::TensorMapUse& use : launch.tensor_maps) {
    Reader::require(within(use.offset) && use.index < values);
  }
}

// ---- the plan ----

uint32_t shapeNumber(const LaunchPlan& plan, const OutputShape* shape) {
  for (size_t i = 0; i < plan.shapes.size(); ++i) {
    if (&plan.shapes[i] == shape) {
      return static_cast<uint32_t>(i);
    }
  }
  return kNoShape;
}

uint32_t shapeNumber(const LaunchPlan& plan, const ArgView& view) {
  for (size_t i = 0; i < plan.shapes.size(); ++i) {
    const OutputShape& shape = plan.shapes[i];
    if (shape.sizes.data() == view.sizes && shape.strides.data() == view.strides) {
      return static_cast<uint32_t>(i);
    }
  }
  return kNoShape;
}

const OutputShape* shapeAt(const LaunchPlan& plan, uint32_t number) {
  Reader::require(number == kNoShape || number < plan.shapes.size());
  return number == kNoShape ? nullptr : &plan.shapes[number];
}

void putLocal(Writer& out, const LaunchPlan& plan, const ArgView& view) {
  out.put(view.is_tensor);
  out.put(view.dtype);
  out.put(view.rank);
  putDevice(out, view.device);
  out.put(reinterpret_cast<uintptr_t>(view.data));
  out.put(view.rank > 0 ? shapeNumber(plan, view) : kNoShape);
  out.put(view.storage_elements);
  putScalar(out, view.scalar);
}

ArgView getLocal(Reader& in, const LaunchPlan& plan) {
  ArgView view;
  view.is_tensor = in.get<bool>();
  view.dtype = in.get<DataType>();
  view.rank = in.get<int32_t>();
  view.device = getDevice(in);
  view.data = reinterpret_cast<void*>(in.get<uintptr_t>());
  const OutputShape* shape = shapeAt(plan, in.get<uint32_t>());
  view.storage_elements = in.get<int64_t>();
  view.scalar = getScalar(in);
  Reader::require(view.rank == 0 ||
                  (shape != nullptr && shape->sizes.size() == static_cast<size_t>(view.rank)));
  if (view.rank > 0) {
    view.sizes = shape->sizes.data();
    view.strides = shape->strides.data();
  }
  return view;
}

void putStep(Writer& out, const LaunchPlan::Step& step) {
  putLaunch(out, step.launch);
  const auto& module = step.launch.module;
  out.putText(module == nullptr ? std::string_view() : module->key());
  out.putText(module == nullptr ? std::string_view() : module->symbol());
  out.putText(step.definition);
  out.putText(step.executor->kernelName());
  out.put(step.executor->schedulerType());
  out.put(step.executor->groupId());
  out.put(step.executor->indexType());
  out.putAll(step.inputs);
  out.putAll(step.outputs);
  out.put(step.input_bytes);
  out.put(step.output_bytes);
}

// A kernel that is not in the cache any more.
struct KernelGone {};

// Steps that are evaluated, by their texts: layers of a network repeat them.
using Evaluations = std::map<std::string, std::shared_ptr<const Evaluation>>;

std::shared_ptr<const Evaluation> evaluationFor(const std::string& text, Evaluations& known) {
  Reader::require(!text.empty() && fusionEvaluator() != nullptr);
  std::shared_ptr<const Evaluation>& evaluation = known[text];
  if (evaluation == nullptr) {
    const std::shared_ptr<Fusion> fusion = fusionEvaluator()->define(text);
    Reader::require(fusion != nullptr);
    evaluation = librarySegmentOp(*fusion) != nullptr ? prepareLibrarySegment(*fusion)
                                                      : evaluationOf(fusion);
  }
  return evaluation;
}

LaunchPlan::Step getStep(Reader& in, size_t values, Evaluations& evaluations) {
  LaunchPlan::Step step;
  StoredLaunch stored = getLaunch(in);
  const std::string key = in.getText();
  checkLaunch(stored.launch, values, !key.empty());
  step.launch = std::move(stored.launch);
  const std::string symbol = in.getText();
  step.definition = in.getText();
  KernelExecutor::Identity identity;
  identity.name = in.getText();
  identity.scheduler_type = in.get<SchedulerType>();
  identity.group_id = in.get<int64_t>();
  identity.index_type = in.get<DataType>();
  in.getAll(step.inputs);
  in.getAll(step.outputs);
  for (const auto* numbers : {&step.inputs, &step.outputs}) {
    Reader::require(std::all_of(numbers->begin(), numbers->end(),
                                [&](uint32_t number) { return number < values; }));
  }
  step.input_bytes = in.get<int64_t>();
  step.output_bytes = in.get<int64_t>();
  if (key.empty()) {
    Reader::require(step.launch.patches.size() == step.inputs.size() + step.outputs.size() &&
                    step.launch.outputs.size() == step.outputs.size());
    step.launch.evaluated = evaluationFor(step.definition, evaluations);
  } else {
    step.launch.module = findCompiled(key, symbol, step.launch.device);
    if (step.launch.module == nullptr) {
      throw KernelGone();
    }
    if (stored.is_repeated) {
      step.launch.repeated = step.launch.module->repeat(step.launch.config);
    }
  }
  step.executor =
      std::make_shared<KernelExecutor>(identity, step.launch.device, step.launch.module);
  return step;
}

void putResult(Writer& out, const LaunchPlan& plan, const LaunchPlan::Result& result) {
  out.put(result.kind);
  out.put(result.position);
  out.put(result.source);
  out.put(result.offset);
  out.put(shapeNumber(plan, result.shape));
}

LaunchPlan::Result getResult(Reader& in, const LaunchPlan& plan, size_t values) {
  using Kind = LaunchPlan::Result::Kind;
  LaunchPlan::Result result{.kind = in.get<Kind>(), .position = 0, .source = 0};
  result.position = in.get<uint32_t>();
  result.source = in.get<uint32_t>();
  result.offset = in.get<int64_t>();
  result.shape = shapeAt(plan, in.get<uint32_t>());
  const bool is_new = result.kind == Kind::New;
  Reader::require(result.source < (is_new ? values : std::max(plan.num_args, values)));
  Reader::require(result.shape != nullptr || (!is_new && result.kind != Kind::View));
  return result;
}

std::shared_ptr<LaunchPlan> readPlan(std::string_view bytes) {
  Reader in(bytes);
  Reader::require(in.getText() == kFormat);
  auto plan = std::make_shared<LaunchPlan>();
  for (size_t n = in.count(sizeof(uint64_t)); n > 0; --n) {
    plan->key.push_back(in.get<uint64_t>());
  }
  plan->device = getDevice(in);
  plan->num_args = in.get<uint64_t>();
  plan->workspace_bytes = in.get<uint64_t>();
  plan->wants_any_extent = in.get<bool>();
  plan->rng_numbers = in.get<uint64_t>();
  plan->input_bytes = in.get<int64_t>();
  plan->output_bytes = in.get<int64_t>();
  getEach(in, plan->shapes, getShape);
  for (size_t n = in.count(sizeof(bool)); n > 0; --n) {
    plan->locals.push_back(getLocal(in, *plan));
  }
  const size_t values = plan->num_args + plan->locals.size();
  for (size_t n = in.count(sizeof(uint32_t)); n > 0; --n) {
    plan->results.push_back(getResult(in, *plan, values));
  }
  for (size_t n = in.count(sizeof(uint32_t)); n > 0; --n) {
    LaunchPlan::View& view = plan->views.emplace_back();
    view.value = in.get<uint32_t>();
    view.source = in.get<uint32_t>();
    view.offset = in.get<int64_t>();
    Reader::require(view.value < values && view.source < view.value);
  }
  for (size_t n = in.count(sizeof(uint32_t)); n > 0; --n) {
    LaunchPlan::Workspace& workspace = plan->workspaces.emplace_back();
    workspace.value = in.get<uint32_t>();
    workspace.offset = in.get<uint64_t>();
    Reader::require(workspace.value < values && workspace.offset <= plan->workspace_bytes);
  }
  Evaluations evaluations;
  for (size_t n = in.count(sizeof(uint32_t)); n > 0; --n) {
    plan->steps.push_back(getStep(in, values, evaluations));
  }
  Reader::require(in.atEnd());
  return plan;
}

// ---- keys ----

// This build of the library stands for all its heuristics and texts: size and time of the file that
// it was loaded from.
std::string readBuildId() {
  Dl_info info = {};
  struct stat status = {};
  if (dladdr(reinterpret_cast<void*>(&planToBytes), &info) == 0 || info.dli_fname == nullptr ||
      stat(info.dli_fname, &status) != 0) {
    return {};
  }
  return std::to_string(status.st_size) + ":" + std::to_string(status.st_mtim.tv_sec) + "." +
         std::to_string(status.st_mtim.tv_nsec);
}

const std::string& buildId() {
  static const auto* id = new std::string(readBuildId());
  return *id;
}

// The build, the device and its compiler.
std::string readMachineDigest(Device device) {
  const DeviceInfo& info = deviceInfo(device);
  Sha256 hash;
  hash.updateField(kFormat).updateField(buildId());
  hash.updateField(info.name);
  for (const int64_t number :
       {int64_t{info.arch}, int64_t{info.sm_count}, int64_t{info.max_threads_per_block},
        int64_t{info.max_threads_per_sm}, int64_t{info.max_blocks_per_sm}, info.registers_per_block,
        info.registers_per_sm, static_cast<int64_t>(info.shared_per_block_optin),
        static_cast<int64_t>(info.shared_per_sm), static_cast<int64_t>(info.l2_bytes),
        static_cast<int64_t>(info.global_bytes), int64_t{info.max_cluster_size},
        int64_t{info.cooperative_launch}, int64_t{info.memory_clock_khz},
        int64_t{info.memory_bus_bits}}) {
    hash.updateField(std::to_string(number));
  }
  if (device.isCuda()) {
    hash.updateField(nvrtcIdentity());
  } else {
    hash.updateField(hostCompilerId()).updateField(hostCpuId());
  }
  return hash.hex();
}

// They stay what they are while the process runs, each at its place.
const std::string& machineDigest(Device device) {
  static std::mutex mutex;
  static auto* digests = new std::map<const DeviceInfo*, std::string>();
  const std::lock_guard lock(mutex);
  std::string& digest = (*digests)[&deviceInfo(device)];
  if (digest.empty()) {
    digest = readMachineDigest(device);
  }
  return digest;
}

bool planningIsWatched() {
  static const bool is_always = environmentInt("NVFUSER_STORE_PLANS", 1) == 0;
  return is_always || currentOptions().dump.any() ||
         isOptionEnabled(EnableOption::WarnRegisterSpill) ||
         isOptionEnabled(EnableOption::StaticFusionCount);
}

} // namespace

std::string definitionDigest(const Fusion& definition) {
  const std::vector<uint64_t> words = definitionWords(definition);
  return Sha256().update(words.data(), words.size() * sizeof(uint64_t)).hex();
}

std::string storedPlanKey(const std::string& definition_digest, const PlanKey& key, Device device) {
  if (buildId().empty() || KernelDiskCache::instance().directory().empty() ||
      isOptionDisabled(DisableOption::NvrtcCaching) || planningIsWatched() ||
      TunedParams::instance().any() || !environmentString("NVFUSER_EXTERNAL_SRC").empty()) {
    return {};
  }
  Sha256 hash;
  hash.updateField(machineDigest(device)).updateField(definition_digest);
  hash.updateField({reinterpret_cast<const char*>(key.data()), key.size() * sizeof(uint64_t)});
  hash.updateField(environmentString("NVFUSER_HOST_ADVERSARIAL"));
  hash.updateField(fusionEvaluator() == nullptr ? "" : "evaluator");
  if (device.isHost()) {
    uint64_t flags = 0;
    for (const std::string& flag : hostCompilerFlags()) {
      flags = hashString(flag, flags);
    }
    hash.update(&flags, sizeof(flags));
  }
  return hash.hex();
}

namespace {

// Where the values stand in a list; -1: left out or not there.
std::vector<std::ptrdiff_t> positionsIn(const std::vector<Val*>& list,
                                        const std::vector<Val*>& values) {
  std::vector<std::ptrdiff_t> positions;
  for (const Val* v : values) {
    const auto it = std::find(list.begin(), list.end(), v);
    positions.push_back(v == nullptr || it == list.end() ? -1 : it - list.begin());
  }
  return positions;
}

// Constants are equal; what is neither a constant nor an input has no text here.
bool sameConstants(const Fusion& fusion, const std::vector<Val*>& a, const std::vector<Val*>& b) {
  const std::vector<std::ptrdiff_t> positions = positionsIn(fusion.inputs(), a);
  for (size_t i = 0; i < a.size(); ++i) {
    if (positions[i] < 0 && a[i] != nullptr &&
        !(a[i]->isConst() && b[i] != nullptr && b[i]->isConst() &&
          a[i]->value() == b[i]->value())) {
      return false;
    }
  }
  return true;
}

bool sameKinds(const std::vector<Val*>& a, const std::vector<Val*>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Val* x, const Val* y) {
    const auto rank = [](const Val* v) {
      return v->isTensor() ? v->as<TensorView>()->getLogicalDomain().size() : 0;
    };
    return x->isTensor() == y->isTensor() && x->dtype() == y->dtype() && rank(x) == rank(y);
  });
}

// A library takes tensors of any sizes: which of them agree, the text does not say and need not.
bool sameLibrarySegment(const Fusion& a, const Fusion& b) {
  const LibraryOp* x = librarySegmentOp(a);
  const LibraryOp* y = librarySegmentOp(b);
  return x != nullptr && y != nullptr && x->op() == y->op() && x->attributes() == y->attributes() &&
         positionsIn(a.inputs(), x->operands()) == positionsIn(b.inputs(), y->operands()) &&
         sameConstants(a, x->operands(), y->operands()) &&
         positionsIn(a.outputs(), x->outputs()) == positionsIn(b.outputs(), y->outputs()) &&
         sameKinds(a.inputs(), b.inputs()) && sameKinds(a.outputs(), b.outputs());
}

} // namespace

std::string evaluatedText(const Fusion& fusion) {
  try {
    Fusion copy(fusion);
    std::string text = translateFusion(&copy);
    const std::shared_ptr<Fusion> made =
        fusionEvaluator() == nullptr ? nullptr : fusionEvaluator()->define(text);
    const bool is_same =
        made != nullptr && (made->sameDefinition(fusion) || sameLibrarySegment(*made, fusion));
    return is_same ? text : std::string();
  } catch (const std::exception&) { // something that the text cannot say
    return {};
  }
}

std::string planToBytes(const LaunchPlan& plan) {
  Writer out;
  out.putText(kFormat);
  out.putAll(plan.key);
  putDevice(out, plan.device);
  out.put(static_cast<uint64_t>(plan.num_args));
  out.put(static_cast<uint64_t>(plan.workspace_bytes));
  out.put(plan.wants_any_extent);
  out.put(plan.rng_numbers);
  out.put(plan.input_bytes);
  out.put(plan.output_bytes);
  putEach(out, plan.shapes, putShape);
  out.put(static_cast<uint64_t>(plan.locals.size()));
  for (const ArgView& view : plan.locals) {
    putLocal(out, plan, view);
  }
  out.put(static_cast<uint64_t>(plan.results.size()));
  for (const LaunchPlan::Result& result : plan.results) {
    putResult(out, plan, result);
  }
  out.put(static_cast<uint64_t>(plan.views.size()));
  for (const LaunchPlan::View& view : plan.views) {
    out.put(view.value);
    out.put(view.source);
    out.put(view.offset);
  }
  out.put(static_cast<uint64_t>(plan.workspaces.size()));
  for (const LaunchPlan::Workspace& workspace : plan.workspaces) {
    out.put(workspace.value);
    out.put(static_cast<uint64_t>(workspace.offset));
  }
  putEach(out, plan.steps, putStep);
  return out.take();
}

std::shared_ptr<LaunchPlan> planFromBytes(std::string_view bytes) {
  try {
    return readPlan(bytes);
  } catch (const Malformed&) {
    return nullptr;
  } catch (const KernelGone&) {
    return nullptr;
  } catch (const std::exception&) { // a kernel cannot be loaded, a text is not understood
    return nullptr;
  }
}

std::shared_ptr<LaunchPlan> loadPlan(const std::string& stored_key, const PlanKey& key,
                                     std::span<const ArgView> args, int64_t fusion_id) {
  std::optional<std::string> bytes = findUnwrittenPlan(stored_key);
  if (!bytes.has_value()) {
    std::optional<CompiledBinary> entry = KernelDiskCache::instance().load(stored_key);
    if (!entry.has_value()) {
      return nullptr;
    }
    bytes = std::move(entry->bytes);
  }
  std::shared_ptr<LaunchPlan> plan = planFromBytes(*bytes);
  if (plan == nullptr || plan->num_args != args.size() ||
      !std::equal(key.begin(), key.end(), plan->key.begin(), plan->key.end())) {
    return nullptr;
  }
  plan->fusion_id = fusion_id;
  plan->arguments = std::make_shared<PlanArguments>(args);
  return plan;
}

void storePlan(const std::string& stored_key, const LaunchPlan& plan, Storing when) {
  for (const LaunchPlan::Step& step : plan.steps) {
    const auto& module = step.launch.module;
    if (module == nullptr ? step.definition.empty() : module->key().empty()) {
      return;
    }
  }
  if (when == Storing::Soon) {
    writePlanLater(stored_key, planToBytes(plan));
    return;
  }
  CompiledBinary entry;
  entry.bytes = planToBytes(plan);
  KernelDiskCache::instance().store(stored_key, entry);
}

} // namespace nvfuser
