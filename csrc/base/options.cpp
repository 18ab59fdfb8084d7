// SPDX-License-Identifier: BSD-3-Clause
// Parsing and holding the environment options.
#include <base/options.h>

#include <base/error.h>
#include <base/hash.h>
#include <base/string_utils.h>
#include <base/warning.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>

namespace nvfuser {

namespace {

// A key word, and why it changes nothing: empty for those that something reads.
struct OptionRow {
  std::string_view name;
  std::string_view ignored = {};
};

constexpr const char* kTorchMatmul = "products are evaluated by torch";
constexpr const char* kNoHostIr = "there is no host IR: segments are run by a launch plan";
constexpr const char* kOneDevice = "several devices are not supported yet";
constexpr const char* kAllSchedulers = "schedulers are not turned off one by one";
constexpr const char* kAlways = "this step of code generation is always taken";
constexpr const char* kSeeParams = "scheduler_params prints what a scheduler decided";
constexpr const char* kSeeLower = "lower prints the kernel after each pass that changed it";

// The key words, in the order of the enumerations.
constexpr std::array<OptionRow, size_t(EnableOption::EndOfOptions)> kEnableRows = {
    {{"fuse_matmul", kTorchMatmul},
     {"fuse_multiple_matmuls", kTorchMatmul},
     {"cutlass_scheduler", "there are no CUTLASS kernels"},
     {"tma_pointwise"},
     {"tma_inner_persistent"},
     {"tma_reduction"},
     {"ws_normalization"},
     {"host_ir_lowering", kNoHostIr},
     {"host_ir_jit", kNoHostIr},
     {"insert_resharding_after", kOneDevice},
     {"id_model_extra_validation",
      "there is one model of iteration domains, and nothing to compare it with"},
     {"io_to_lower_precision",
      "segmentation decides in which precision tensors cross from kernel to kernel"},
     {"memory_promotion", "the schedule decides where a tensor lies"},
     {"reuse_zeroed_memory", "zeroed memory is always kept and used again"},
     {"static_fusion_count"},
     {"kernel_db",
      "compiled kernels are always kept on disk, unless NVFUSER_DISABLE=nvrtc_caching"},
     {"kernel_debug"},
     {"kernel_lineinfo"},
     {"kernel_profile", "kernels have no timers inside; use PythonProfiler"},
     {"fast_math"},
     {"warn_register_spill"},
     {"wait_debugger", kOneDevice},
     {"p2p_protocol", kOneDevice},
     {"p2p_transport", kOneDevice},
     {"multicast_protocol", kOneDevice},
     {"verify_ir"}}};

constexpr std::array<OptionRow, size_t(DisableOption::EndOfOptions)> kDisableRows = {
    {{"matmul_expr_eval"},
     {"greedy_scheduler", kAllSchedulers},
     {"resize_scheduler", "there is no such scheduler"},
     {"parallel_compile"},
     {"kernel_reuse"},
     {"infer_contiguity", "the contiguity of intermediate tensors is always known"},
     {"multidevice"},
     {"magic_zero", "kernels have no magic zeros"},
     {"index_hoist", kAlways},
     {"contig_indexing", kAlways},
     {"expr_simplify", kAlways},
     {"predicate_elimination", kAlways},
     {"var_name_remapping", kAlways},
     {"reuse_mismatched_type_registers", "the compiler of the kernel allocates registers"},
     {"fma"},
     {"approx_transcendentals"},
     {"compile_to_sass"},
     {"nvrtc_caching"},
     {"welford_vectorization", kAlways},
     {"grouped_grid_welford_outer_opt", kAlways},
     {"nvtx", "there are no NVTX ranges"},
     {"fallback", "what has no kernel is always evaluated by torch"},
     {"python_inline_definitions", "there are no inline definitions"},
     {"tuned_params"},
     {"launch_graph"},
     {"programmatic_dependent_launch"},
     {"dynamic_extents"},
     {"host_memory_pool"},
     {"move_views"},
     {"generate_topk"},
     {"cats_in_parts"},
     {"add_few_elements"},
     {"separate_axes"},
     {"scale_products"},
     {"separate_bias"},
     {"pad_products"},
     {"simplify_lookups"},
     {"merge_parts"},
     {"fold_constants"},
     {"simplify_identities"},
     {"compute_before_broadcasts"},
     {"simplify_powers"},
     {"simplify_hyperbolics"},
     {"share_common_expressions"},
     {"share_sums"},
     {"group_attention_heads"},
     {"lend_rows"},
     {"collect_terms"}}};

constexpr std::array<OptionRow, size_t(DumpOption::EndOfOptions)> kDumpRows = {
    {{"python_definition"},
     {"fusion_ir_original"},
     {"fusion_ir_concretized"},
     {"fusion_ir_preseg"},
     {"fusion_ir_presched"},
     {"fusion_ir"},
     {"fusion_ir_math"},
     {"fusion_ir_graph", "no graph is drawn of a fusion; draw_segmented_fusion draws its segments"},
     {"pre_segmenter_logging"},
     {"segmented_fusion"},
     {"segmenter_logging"},
     {"draw_segmented_fusion"},
     {"scheduler_params"},
     {"scheduler_verbose", kSeeParams},
     {"transform_propagator", kSeeLower},
     {"inlining", kSeeLower},
     {"ca_map", kSeeLower},
     {"parallel_dimensions", kSeeLower},
     {"lower"},
     {"kernel_ir"},
     {"lower_verbose", kSeeLower},
     {"expr_simplify", kSeeLower},
     {"expr_sort", kSeeLower},
     {"expr_sort_verbose", kSeeLower},
     {"indexing_verbose", kSeeLower},
     {"predicate_elimination", kSeeLower},
     {"sync_map", kSeeLower},
     {"buffer_reuse_verbose", kSeeLower},
     {"bank_conflict", kSeeLower},
     {"index_type"},
     {"cuda_kernel"},
     {"cuda_full"},
     {"cuda_to_file"},
     {"ptx"},
     {"cubin"},
     {"sass"},
     {"sass_to_file"},
     {"ptxas_verbose"},
     {"compile_params"},
     {"cutlass_compile", "there are no CUTLASS kernels"},
     {"launch_param"},
     {"fusion_args"},
     {"kernel_args"},
     {"dynamic_shared_memory"},
     {"occupancy"},
     {"perf_debug_verbose", "NVFUSER_PROF=print prints times and bandwidths"},
     {"global_zeroed_memory", "nothing is printed about zeroed memory"},
     {"ftrace", "functions are not traced"},
     {"host_ir", kNoHostIr},
     {"host_ir_lowering", kNoHostIr},
     {"host_ir_jit", kNoHostIr},
     {"communication", kOneDevice}}};

constexpr std::array<OptionRow, size_t(ProfilerOption::EndOfOptions)> kProfilerRows = {
    {{"enable"}, {"enable.nocupti"}, {"print"}, {"print.nocupti"}, {"print.verbose"}}};

template <class Option>
struct OptionTraits;

template <>
struct OptionTraits<EnableOption> {
  static constexpr const auto& kRows = kEnableRows;
  static constexpr const char* kKind = "enable_option";
};
template <>
struct OptionTraits<DisableOption> {
  static constexpr const auto& kRows = kDisableRows;
  static constexpr const char* kKind = "disable_option";
};
template <>
struct OptionTraits<DumpOption> {
  static constexpr const auto& kRows = kDumpRows;
  static constexpr const char* kKind = "dump_option";
};
template <>
struct OptionTraits<ProfilerOption> {
  static constexpr const auto& kRows = kProfilerRows;
  static constexpr const char* kKind = "profiler_option";
};

template <class Option>
constexpr bool allNamed() {
  for (const OptionRow& row : OptionTraits<Option>::kRows) {
    if (row.name.empty()) {
      return false;
    }
  }
  return true;
}
static_assert(allNamed<EnableOption>() && allNamed<DisableOption>());
static_assert(allNamed<DumpOption>() && allNamed<ProfilerOption>());

template <class Option>
Option findOption(std::string_view keyword) {
  const auto& rows = OptionTraits<Option>::kRows;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].name == keyword) {
      return static_cast<Option>(i);
    }
  }
  std::string valid;
  for (const OptionRow& row : rows) {
    valid += valid.empty() ? "" : ", ";
    valid += row.name;
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
  options->host_schedules = toHostSchedules(environmentString("NVFUSER_MACHINE", "host"));
  return options;
}

// Throws on every use, not only the first, while a variable holds an unknown key word. Warnings
// come after the initialization, which other threads wait for: a handler may wait for one of those.
const OptionsSnapshot& environmentOptions() {
  static const OptionsSnapshot options = optionsFromEnvironment();
  static std::atomic<bool> warned = false;
  if (!warned.load(std::memory_order_relaxed) && !warned.exchange(true)) {
    options->enable.warnOfIgnored();
    options->disable.warnOfIgnored();
    options->dump.warnOfIgnored();
    options->profiler.warnOfIgnored();
  }
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
void OptionSet<Option>::warnOfIgnored() const {
  for (size_t i = 0; i < kCount; ++i) {
    const OptionRow& row = OptionTraits<Option>::kRows[i];
    if (bits_.test(i) && !row.ignored.empty()) {
      warnOnce("The " + std::string(OptionTraits<Option>::kKind) + " " + std::string(row.name) +
               " changes nothing: " + std::string(row.ignored));
    }
  }
}

template <class Option>
uint64_t OptionSet<Option>::hash() const {
  static const std::bitset<kCount> read = [] {
    std::bitset<kCount> bits;
    for (size_t i = 0; i < kCount; ++i) {
      bits[i] = OptionTraits<Option>::kRows[i].ignored.empty();
    }
    return bits;
  }();
  static_assert(kCount <= 64);
  uint64_t seed = (bits_ & read).to_ullong();
  for (const auto& [option, arguments] : arguments_) {
    if (!read.test(static_cast<size_t>(option))) {
      continue;
    }
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

namespace {

uint64_t hashOf(const Options& options) {
  const uint64_t sets = hashCombine(options.enable.hash(), options.disable.hash());
  return hashCombine(sets, static_cast<uint64_t>(options.host_schedules));
}

} // namespace

uint64_t optionsHash() {
  // What the environment says does not change.
  static const uint64_t of_environment = hashOf(*environmentOptions());
  return active_options != nullptr ? hashOf(*active_options) : of_environment;
}

std::string_view optionName(EnableOption option) {
  return kEnableRows.at(static_cast<size_t>(option)).name;
}
std::string_view optionName(DisableOption option) {
  return kDisableRows.at(static_cast<size_t>(option)).name;
}
std::string_view optionName(DumpOption option) {
  return kDumpRows.at(static_cast<size_t>(option)).name;
}
std::string_view optionName(ProfilerOption option) {
  return kProfilerRows.at(static_cast<size_t>(option)).name;
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
  if (!enable_options.empty() || !disable_options.empty()) {
    mutable_->enable.warnOfIgnored();
    mutable_->disable.warnOfIgnored();
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
