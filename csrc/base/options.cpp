// Parsing and holding the environment options.
#include <base/options.h>

#include <base/error.h>
#include <base/hash.h>
#include <base/string_utils.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace nvfuser {

namespace {

// The key words, in the order of the enumerations.
constexpr std::array<std::string_view, size_t(EnableOption::EndOfOptions)> kEnableNames = {
    "fuse_matmul",
    "fuse_multiple_matmuls",
    "cutlass_scheduler",
    "tma_pointwise",
    "tma_inner_persistent",
    "tma_reduction",
    "ws_normalization",
    "host_ir_lowering",
    "host_ir_jit",
    "insert_resharding_after",
    "id_model_extra_validation",
    "io_to_lower_precision",
    "memory_promotion",
    "reuse_zeroed_memory",
    "static_fusion_count",
    "kernel_db",
    "kernel_debug",
    "kernel_lineinfo",
    "kernel_profile",
    "fast_math",
    "warn_register_spill",
    "wait_debugger",
    "p2p_protocol",
    "p2p_transport",
    "multicast_protocol"};

constexpr std::array<std::string_view, size_t(DisableOption::EndOfOptions)> kDisableNames = {
    "matmul_expr_eval",
    "greedy_scheduler",
    "resize_scheduler",
    "parallel_compile",
    "kernel_reuse",
    "infer_contiguity",
    "multidevice",
    "magic_zero",
    "index_hoist",
    "contig_indexing",
    "expr_simplify",
    "predicate_elimination",
    "var_name_remapping",
    "reuse_mismatched_type_registers",
    "fma",
    "approx_transcendentals",
    "compile_to_sass",
    "nvrtc_caching",
    "welford_vectorization",
    "grouped_grid_welford_outer_opt",
    "nvtx",
    "fallback",
    "python_inline_definitions",
    "tuned_params",
    "launch_graph",
    "programmatic_dependent_launch",
    "dynamic_extents"};

constexpr std::array<std::string_view, size_t(DumpOption::EndOfOptions)> kDumpNames = {
    "python_definition",
    "fusion_ir_original",
    "fusion_ir_concretized",
    "fusion_ir_preseg",
    "fusion_ir_presched",
    "fusion_ir",
    "fusion_ir_math",
    "fusion_ir_graph",
    "pre_segmenter_logging",
    "segmented_fusion",
    "segmenter_logging",
    "draw_segmented_fusion",
    "scheduler_params",
    "scheduler_verbose",
    "transform_propagator",
    "inlining",
    "ca_map",
    "parallel_dimensions",
    "lower",
    "kernel_ir",
    "lower_verbose",
    "expr_simplify",
    "expr_sort",
    "expr_sort_verbose",
    "indexing_verbose",
    "predicate_elimination",
    "sync_map",
    "buffer_reuse_verbose",
    "bank_conflict",
    "index_type",
    "cuda_kernel",
    "cuda_full",
    "cuda_to_file",
    "ptx",
    "cubin",
    "sass",
    "sass_to_file",
    "ptxas_verbose",
    "compile_params",
    "cutlass_compile",
    "launch_param",
    "fusion_args",
    "kernel_args",
    "dynamic_shared_memory",
    "occupancy",
    "perf_debug_verbose",
    "global_zeroed_memory",
    "ftrace",
    "host_ir",
    "host_ir_lowering",
    "host_ir_jit",
    "communication"};

constexpr std::array<std::string_view, size_t(ProfilerOption::EndOfOptions)> kProfilerNames = {
    "enable", "enable.nocupti", "print", "print.nocupti", "print.verbose"};

template <class Option>
struct OptionTraits;

template <>
struct OptionTraits<EnableOption> {
  static constexpr const auto& kNames = kEnableNames;
  static constexpr const char* kKind = "enable_option";
};
template <>
struct OptionTraits<DisableOption> {
  static constexpr const auto& kNames = kDisableNames;
  static constexpr const char* kKind = "disable_option";
};
template <>
struct OptionTraits<DumpOption> {
  static constexpr const auto& kNames = kDumpNames;
  static constexpr const char* kKind = "dump_option";
};
template <>
struct OptionTraits<ProfilerOption> {
  static constexpr const auto& kNames = kProfilerNames;
  static constexpr const char* kKind = "profiler_option";
};

template <class Option>
constexpr bool allNamed() {
  for (std::string_view name : OptionTraits<Option>::kNames) {
    if (name.empty()) {
      return false;
    }
  }
  return true;
}
static_assert(allNamed<EnableOption>() && allNamed<DisableOption>());
static_assert(allNamed<DumpOption>() && allNamed<ProfilerOption>());

template <class Option>
Option findOption(std::string_view keyword) {
  const auto& names = OptionTraits<Option>::kNames;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == keyword) {
      return static_cast<Option>(i);
    }
  }
  std::string valid;
  for (std::string_view name : names) {
    valid += valid.empty() ? "" : ", ";
    valid += name;
  }
  NVF_CHECK_FAIL("Unrecognized ", OptionTraits<Option>::kKind, ": ", keyword,
                 ". Valid ones: ", valid);
}

OptionsSnapshot optionsFromEnvironment() {
  auto options = std::make_shared<Options>();
  options->enable.parse(environmentString("NVFUSER_ENABLE"));
  options->disable.parse(environmentString("NVFUSER_DISABLE"));
  options->dump.parse(environmentString("NVFUSER_DUMP"));
  options->profiler.parse(environmentString("NVFUSER_PROF"));
  options->host_schedules = toHostSchedules(environmentString("NVFUSER_MACHINE", "hopper"));
  return options;
}

// Throws on every use, not only the first, while a variable holds an unknown key word.
const OptionsSnapshot& environmentOptions() {
  static const OptionsSnapshot options = optionsFromEnvironment();
  return options;
}

thread_local OptionsSnapshot active_options;

} // namespace

template <class Option>
const std::vector<std::string>& OptionSet<Option>::arguments(Option option) const {
  static const std::vector<std::string> kNone;
  auto it = arguments_.find(option);
  return it == arguments_.end() ? kNone : it->second;
}

template <class Option>
void OptionSet<Option>::set(Option option, std::vector<std::string> arguments) {
  bits_.set(static_cast<size_t>(option));
  if (arguments.empty()) {
    arguments_.erase(option);
  } else {
    arguments_[option] = std::move(arguments);
  }
}

template <class Option>
void OptionSet<Option>::unset(Option option) {
  bits_.reset(static_cast<size_t>(option));
  arguments_.erase(option);
}

template <class Option>
void OptionSet<Option>::addKeyword(std::string_view keyword) {
  set(findOption<Option>(trim(keyword)));
}

template <class Option>
void OptionSet<Option>::parse(std::string_view list) {
  while (!list.empty()) {
    const size_t end = list.find_first_of(",(");
    const std::string_view keyword = trim(list.substr(0, end));
    std::vector<std::string> arguments;
    size_t next = end;
    if (end != std::string_view::npos && list[end] == '(') {
      const size_t close = list.find(')', end);
      NVF_CHECK(close != std::string_view::npos, "Missing ')' after the arguments of option ",
                keyword, " in \"", list, "\"");
      for (std::string_view argument : split(list.substr(end + 1, close - end - 1), ',')) {
        arguments.emplace_back(trim(argument));
      }
      next = list.find(',', close);
    }
    if (!keyword.empty()) {
      set(findOption<Option>(keyword), std::move(arguments));
    }
    list = next == std::string_view::npos ? std::string_view() : list.substr(next + 1);
  }
}

template <class Option>
uint64_t OptionSet<Option>::hash() const {
  uint64_t seed = std::hash<std::bitset<kCount>>{}(bits_);
  for (const auto& [option, arguments] : arguments_) {
    seed = hashCombine(seed, static_cast<uint64_t>(option));
    for (const std::string& argument : arguments) {
      seed = hashString(argument, seed);
    }
  }
  return seed;
}

HostSchedules toHostSchedules(std::string_view machine) {
  constexpr std::array<std::string_view, 3> kMachines = {"hopper", "h200", "host"};
  const auto* found = std::find(kMachines.begin(), kMachines.end(), machine);
  NVF_CHECK(found != kMachines.end(), "NVFUSER_MACHINE must be hopper, h200 or host, got \"",
            machine, "\"");
  return static_cast<HostSchedules>(found - kMachines.begin());
}

template class OptionSet<EnableOption>;
template class OptionSet<DisableOption>;
template class OptionSet<DumpOption>;
template class OptionSet<ProfilerOption>;

const Options& currentOptions() {
  const Options* active = active_options.get();
  return active != nullptr ? *active : *environmentOptions();
}

OptionsSnapshot snapshotOptions() {
  return active_options != nullptr ? active_options : environmentOptions();
}

uint64_t optionsHash() {
  const Options& options = currentOptions();
  const uint64_t sets = hashCombine(options.enable.hash(), options.disable.hash());
  return hashCombine(sets, static_cast<uint64_t>(options.host_schedules));
}

std::string_view optionName(EnableOption option) {
  return kEnableNames.at(static_cast<size_t>(option));
}
std::string_view optionName(DisableOption option) {
  return kDisableNames.at(static_cast<size_t>(option));
}
std::string_view optionName(DumpOption option) {
  return kDumpNames.at(static_cast<size_t>(option));
}
std::string_view optionName(ProfilerOption option) {
  return kProfilerNames.at(static_cast<size_t>(option));
}

OptionsGuard::OptionsGuard() : OptionsGuard({}, {}) {}

OptionsGuard::OptionsGuard(const std::vector<std::string>& enable_options,
                           const std::vector<std::string>& disable_options)
    : mutable_(std::make_shared<Options>(currentOptions())) {
  for (const std::string& keyword : enable_options) {
    mutable_->enable.addKeyword(keyword);
  }
  for (const std::string& keyword : disable_options) {
    mutable_->disable.addKeyword(keyword);
  }
  previous_ = std::move(active_options);
  active_options = mutable_;
}

OptionsGuard::OptionsGuard(const OptionsSnapshot& snapshot) : OptionsGuard() {
  *mutable_ = *snapshot;
}

OptionsGuard::~OptionsGuard() {
  active_options = std::move(previous_);
}

std::string environmentString(const char* name, const std::string& default_value) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? default_value : std::string(value);
}

int64_t environmentInt(const char* name, int64_t default_value) {
  const std::string text = environmentString(name);
  if (text.empty()) {
    return default_value;
  }
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  NVF_CHECK(end != nullptr && *end == '\0', name, " must be an integer, got \"", text, "\"");
  return value;
}

} // namespace nvfuser
