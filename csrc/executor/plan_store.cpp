// SPDX-License-Identifier: BSD-3-Clause
// Launch plans as bytes: written, read with every length checked, and keyed.
#include <executor/plan_store.h>

#include <base/error.h>
#include <base/hash.h>
#include <base/options.h>
#include <cuda/nvrtc.h>
#include <definition/equality.h>
#include <definition/translate.h>
#include <executor/memory_places.h>
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
constexpr const char* kFormat = "nvfuser plan 8";
constexpr uint32_t kNoShape = UINT32_MAX;
constexpr int64_t kMostElements = int64_t{1} << 48; // of a tensor: more than any memory holds

// The fields of a struct are named once, in an order: `fields` of it writes and reads them.
// (Field by field: bytes between the fields would differ from process to process.)
template <class Archive, class T>
concept HasFields = requires(Archive& archive, T& value) { fields(archive, value); };
template <class T>
concept IsRange = requires(T& value) {
  value.begin();
  value.size();
};
template <class T, class U>
concept Is = std::is_same_v<std::remove_const_t<T>, U>;

class Writer {
 public:
  static constexpr bool kReads = false;

  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }
  template <class Range, class Each>
  void each(const Range& values, const Each& put_one) {
    put(static_cast<uint64_t>(values.size()));
    std::for_each(values.begin(), values.end(), put_one);
  }
  static void require(bool /*condition*/) {}
  std::string take() {
    return std::move(bytes_);
  }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (HasFields<Writer, const T>) {
      fields(*this, value);
    } else if constexpr (IsRange<const T>) {
      each(value, [&](const auto& one) { put(one); });
    } else {
      static_assert(std::has_unique_object_representations_v<T> || std::is_floating_point_v<T> ||
                    std::is_same_v<T, std::complex<double>>);
      static_assert(!std::is_pointer_v<T>);
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }

  std::string bytes_;
};

// The bytes are not those of a plan.
struct Malformed : std::exception {};

class Reader {
 public:
  static constexpr bool kReads = true;

  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  template <class Range, class Each>
  void each(Range& values, const Each& get_one) {
    uint64_t count = 0;
    get(count);
    require(count <= bytes_.size()); // each has a byte at least
    values.clear();
    for (; count > 0; --count) {
      values.push_back({});
      get_one(values.back());
    }
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
  template <class T>
  void get(T& value) {
    if constexpr (HasFields<Reader, T>) {
      fields(*this, value);
    } else if constexpr (IsRange<T>) {
      each(value, [&](auto& one) { get(one); });
    } else {
      static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
      require(sizeof(T) <= bytes_.size());
      std::memcpy(static_cast<void*>(&value), bytes_.data(), sizeof(T));
      bytes_.remove_prefix(sizeof(T));
    }
  }

  std::string_view bytes_;
};

// ---- parts ----

template <class Archive, Is<Device> T>
void fields(Archive& archive, T& device) {
  archive(device.type, device.index);
}

template <class Archive, Is<PreparedLaunch::Patch> T>
void fields(Archive& archive, T& patch) {
  archive(patch.kind, patch.dtype, patch.offset, patch.index);
}

template <class Archive, Is<PreparedLaunch::WorkspaceUse> T>
void fields(Archive& archive, T& use) {
  archive(use.offset, use.is_semaphores, use.first);
}

template <class Archive, Is<OutputShape> T>
void fields(Archive& archive, T& shape) {
  archive(shape.dtype, shape.sizes, shape.strides, shape.storage_elements, shape.alias_input,
          shape.in_place, shape.same_as, shape.hidden);
  archive.require(shape.sizes.size() == shape.strides.size() && shape.storage_elements >= 0 &&
                  shape.storage_elements <= kMostElements);
}

// Zero of the type with this number among those of a scalar.
ScalarValue scalarOfKind(uint8_t kind) {
  switch (kind) {
    case 0:
      return {};
    case 1:
      return false;
    case 2:
      return int64_t{0};
    case 3:
      return 0.0;
    case 4:
      return std::complex<double>();
    default:
      throw Malformed();
  }
}

template <class Archive, Is<ScalarValue> T>
void fields(Archive& archive, T& scalar) {
  auto kind = static_cast<uint8_t>(scalar.index());
  archive(kind);
  if constexpr (Archive::kReads) {
    scalar = scalarOfKind(kind);
  }
  std::visit(
      [&](auto& value) {
        if constexpr (!Is<decltype(value), std::monostate&> &&
                      !Is<decltype(value), const std::monostate&>) {
          archive(value);
        }
      },
      scalar);
}

template <class Archive, Is<PreparedLaunch::TensorMapUse> T>
void fields(Archive& archive, T& use) {
  auto& request = use.request;
  archive(use.offset, use.index, request.element_bytes, request.sizes, request.stride_bytes,
          request.box, request.swizzle);
}

template <class Archive, Is<LaunchConfig> T>
void fields(Archive& archive, T& config) {
  archive(config.grid, config.block, config.cluster, config.dynamic_shared_bytes,
          config.programmatic_dependent_launch, config.cooperative, config.shared_percent,
          config.tensor_bytes);
}

// Without the kernel: that is found by its key.
template <class Archive, Is<PreparedLaunch> T>
void fields(Archive& archive, T& launch) {
  archive(launch.bytes, launch.offsets, launch.patches, launch.workspace_uses, launch.tensor_maps,
          launch.workspace_bytes, launch.semaphore_count, launch.outputs, launch.config,
          launch.empty, launch.device);
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

template <class Archive, Is<LaunchPlan> Plan, Is<ArgView> View>
void localFields(Archive& archive, Plan& plan, View& view) {
  auto address = reinterpret_cast<uintptr_t>(view.data);
  uint32_t number = kNoShape;
  if constexpr (!Archive::kReads) {
    number = view.rank > 0 ? shapeNumber(plan, view) : kNoShape;
  }
  archive(view.is_tensor, view.dtype, view.rank, view.device, address, number,
          view.storage_elements, view.scalar);
  if constexpr (Archive::kReads) {
    view.data = reinterpret_cast<void*>(address);
    const OutputShape* shape = shapeAt(plan, number);
    archive.require(view.rank == 0 ||
                    (shape != nullptr && shape->sizes.size() == static_cast<size_t>(view.rank)));
    if (view.rank > 0) {
      view.sizes = shape->sizes.data();
      view.strides = shape->strides.data();
    }
  }
}

template <class Archive, Is<LaunchPlan> Plan, Is<LaunchPlan::Result> Result>
void resultFields(Archive& archive, Plan& plan, Result& result) {
  using Kind = LaunchPlan::Result::Kind;
  uint32_t number = shapeNumber(plan, result.shape);
  archive(result.kind, result.position, result.source, result.offset, number);
  if constexpr (Archive::kReads) {
    const size_t values = plan.num_args + plan.locals.size();
    result.shape = shapeAt(plan, number);
    const bool is_new = result.kind == Kind::New || result.kind == Kind::Made;
    archive.require(result.source < (is_new ? values : std::max(plan.num_args, values)));
    archive.require(result.shape != nullptr || (!is_new && result.kind != Kind::View));
  }
}

template <class Archive, Is<LaunchPlan::View> T>
void fields(Archive& archive, T& view) {
  archive(view.value, view.source, view.offset);
}

template <class Archive, Is<LaunchPlan::Overwrite> T>
void fields(Archive& archive, T& overwrite) {
  archive(overwrite.input, overwrite.output);
}

// Of a step's kernel; nothing but names for what is evaluated.
struct StoredKernel {
  std::string key;
  std::string symbol;
  bool is_repeated = false;
  KernelExecutor::Identity identity;
};

template <class Archive, Is<StoredKernel> T>
void fields(Archive& archive, T& kernel) {
  auto& identity = kernel.identity;
  archive(kernel.key, kernel.symbol, kernel.is_repeated, identity.name, identity.scheduler_type,
          identity.group_id, identity.index_type);
}

template <class Archive, Is<LaunchPlan::Step> T>
void fields(Archive& archive, T& step) {
  archive(step.launch, step.definition, step.inputs, step.outputs, step.input_bytes,
          step.output_bytes, step.makes_results, step.overwrites);
}

// All but the steps, and where their results lie: that follows from the steps.
template <class Archive, Is<LaunchPlan> T>
void fields(Archive& archive, T& plan) {
  std::string format = kFormat;
  archive(format);
  archive.require(format == kFormat);
  archive(plan.key, plan.device, plan.num_args, plan.wants_any_extent, plan.rng_numbers,
          plan.input_bytes, plan.output_bytes, plan.shapes);
  archive.each(plan.locals, [&](auto& view) { localFields(archive, plan, view); });
  archive.each(plan.results, [&](auto& result) { resultFields(archive, plan, result); });
  archive(plan.views, plan.parts);
}

StoredKernel kernelOf(const LaunchPlan::Step& step) {
  StoredKernel kernel;
  if (const auto& module = step.launch.module) {
    kernel.key = module->key();
    kernel.symbol = module->symbol();
    kernel.is_repeated = step.launch.repeated != nullptr;
  }
  const KernelExecutor& executor = *step.executor;
  kernel.identity = {executor.kernelName(), executor.schedulerType(), executor.groupId(),
                     executor.indexType()};
  return kernel;
}

// A kernel that is not in the cache any more.
struct KernelGone : std::exception {};

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

void findKernel(LaunchPlan::Step& step, const StoredKernel& kernel, Evaluations& evaluations) {
  if (kernel.key.empty()) {
    Reader::require(step.launch.patches.size() == step.inputs.size() + step.outputs.size());
    step.launch.evaluated = evaluationFor(step.definition, evaluations);
    Reader::require(!step.makes_results || step.launch.evaluated->makesResults());
  } else {
    Reader::require(!step.makes_results);
    step.launch.module = findCompiled(kernel.key, kernel.symbol, step.launch.device);
    if (step.launch.module == nullptr) {
      throw KernelGone();
    }
    if (kernel.is_repeated) {
      step.launch.repeated = step.launch.module->repeat(step.launch.config);
    }
  }
  step.executor =
      std::make_shared<KernelExecutor>(kernel.identity, step.launch.device, step.launch.module);
}

void checkStep(const LaunchPlan::Step& step, size_t values, bool is_kernel) {
  checkLaunch(step.launch, values, is_kernel);
  Reader::require(step.launch.outputs.size() == step.outputs.size());
  for (const auto* numbers : {&step.inputs, &step.outputs}) {
    Reader::require(std::all_of(numbers->begin(), numbers->end(),
                                [&](uint32_t number) { return number < values; }));
  }
}

// What steps write into results fits into these.
void checkResults(const LaunchPlan& plan) {
  using Kind = LaunchPlan::Result::Kind;
  std::unordered_map<uint32_t, size_t> bytes;
  std::unordered_map<uint32_t, size_t> at_position;
  for (const LaunchPlan::Result& result : plan.results) {
    if (result.kind == Kind::New || result.kind == Kind::Made) {
      bytes[result.source] = at_position[result.position] = bytesOf(*result.shape);
    } else if (result.kind == Kind::Same && result.shape != nullptr) {
      const auto other = at_position.find(result.source);
      const auto offset =
          static_cast<size_t>(result.offset * dataTypeSizeBits(result.shape->dtype)) / 8;
      Reader::require(other != at_position.end() && result.offset >= 0 &&
                      offset + bytesOf(*result.shape) <= other->second);
    }
  }
  for (const LaunchPlan::View& part : plan.parts) {
    const auto whole = bytes.find(part.source);
    Reader::require(whole != bytes.end() && part.offset >= 0 &&
                    static_cast<size_t>(part.offset) <= whole->second);
    bytes[part.value] = whole->second - static_cast<size_t>(part.offset);
  }
  for (const LaunchPlan::Step& step : plan.steps) {
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const auto result = bytes.find(step.outputs[i]);
      Reader::require(result == bytes.end() || bytesOf(step.launch.outputs[i]) <= result->second);
    }
  }
}

std::shared_ptr<LaunchPlan> readPlan(std::string_view bytes) {
  Reader in(bytes);
  auto plan = std::make_shared<LaunchPlan>();
  in(*plan);
  const size_t values = plan->num_args + plan->locals.size();
  uint32_t source = 0;
  for (const LaunchPlan::View& view : plan->views) {
    Reader::require(view.value < values && view.source < view.value && view.source >= source);
    source = view.source;
  }
  Evaluations evaluations;
  in.each(plan->steps, [&](LaunchPlan::Step& step) {
    StoredKernel kernel;
    in(step, kernel);
    checkStep(step, values, !kernel.key.empty());
    findKernel(step, kernel, evaluations);
  });
  Reader::require(in.atEnd());
  checkResults(*plan);
  assignMemory(*plan);
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
  out(plan);
  out.each(plan.steps, [&](const LaunchPlan::Step& step) { out(step, kernelOf(step)); });
  return out.take();
}

std::shared_ptr<LaunchPlan> planFromBytes(std::string_view bytes) {
  try {
    return readPlan(bytes);
  } catch (const std::exception&) { // malformed, a kernel is gone, a text is not understood
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
  plan->options = snapshotOptions();
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
