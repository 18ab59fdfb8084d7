// SPDX-License-Identifier: BSD-3-Clause
// Finding NVRTC, and compiling with it.
#include <cuda/nvrtc.h>

#include <base/error.h>
#include <base/integer_math.h>
#include <base/options.h>
#include <base/string_utils.h>
#include <machine.h>
#include <target/compiler_messages.h>
#include <target/programs.h>

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <mutex>

namespace nvfuser {

namespace {

namespace fs = std::filesystem;

using Program = struct ProgramOpaque*;

// After the NVRTC documentation (CUDA 13).
struct NvrtcFunctions {
  int (*nvrtcVersion)(int*, int*);
  const char* (*nvrtcGetErrorString)(int);
  int (*nvrtcGetNumSupportedArchs)(int*);
  int (*nvrtcGetSupportedArchs)(int*);
  int (*nvrtcCreateProgram)(Program*, const char* text, const char* name, int header_count,
                            const char* const* headers, const char* const* include_names);
  int (*nvrtcDestroyProgram)(Program*);
  int (*nvrtcCompileProgram)(Program, int option_count, const char* const* options);
  int (*nvrtcGetCUBINSize)(Program, size_t*);
  int (*nvrtcGetCUBIN)(Program, char*);
  int (*nvrtcGetPTXSize)(Program, size_t*);
  int (*nvrtcGetPTX)(Program, char*);
  int (*nvrtcGetProgramLogSize)(Program, size_t*);
  int (*nvrtcGetProgramLog)(Program, char*);
};

struct LoadedNvrtc {
  NvrtcFunctions functions = {};
  std::string error; // empty: usable
  std::string path;
  int version = 0;
  std::vector<int> archs;
};

constexpr const char* kSonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

std::mutex path_mutex;
std::string configured_path;

// `problem` gets the loader's words about a library that is there but can't be opened.
void* openWithBuiltins(const std::string& directory, std::string* problem = nullptr) {
  std::error_code error;
  for (const char* soname : kSonames) {
    const fs::path library = fs::path(directory) / soname;
    if (!fs::exists(library, error)) {
      continue;
    }
    // The library has no run path: unless its builtins are loaded already, compiling fails later.
    for (const auto& entry : fs::directory_iterator(directory, error)) {
      const std::string name = entry.path().filename().string();
      if (name.rfind("libnvrtc-builtins.so.", 0) == 0) {
        dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
      }
    }
    if (void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return handle;
    }
    if (const char* words = dlerror(); words != nullptr && problem != nullptr) {
      *problem += std::string(" (which can not be opened: ") + words + ")";
    }
  }
  return nullptr;
}

void* openNvrtc(std::string& searched) {
  for (const char* soname : kSonames) {
    if (void* handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) {
      return handle;
    }
  }
  std::vector<std::string> directories;
  {
    const std::lock_guard lock(path_mutex);
    directories.push_back(configured_path);
  }
  directories.push_back(environmentString("NVFUSER_NVRTC_DIR"));
  for (const std::string& directory : directories) {
    if (!directory.empty()) {
      std::string problem;
      if (void* handle = openWithBuiltins(directory, &problem)) {
        return handle;
      }
      searched += directory + problem + ", ";
    }
  }
  searched += "the loader's path";
  for (const char* soname : kSonames) {
    if (void* handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL)) {
      return handle;
    }
  }
  for (const std::string& root : {environmentString("CUDA_HOME"), environmentString("CUDA_PATH"),
                                  std::string("/usr/local/cuda")}) {
    if (root.empty()) {
      continue;
    }
    searched += ", " + root;
    for (const char* folder : {"/lib64", "/lib", "/targets/x86_64-linux/lib"}) {
      if (void* handle = openWithBuiltins(root + folder)) {
        return handle;
      }
    }
  }
  return nullptr;
}

LoadedNvrtc loadNvrtc() {
  LoadedNvrtc loaded;
  std::string searched;
  void* library = openNvrtc(searched);
  if (library == nullptr) {
    loaded.error = "NVRTC (" + std::string(kSonames[0]) + ") was not found in: " + searched +
                   ". Install it with: pip install nvidia-cuda-nvrtc";
    return loaded;
  }
  std::string missing;
  auto get = [&](auto& function, const char* name) {
    void* symbol = dlsym(library, name);
    if (symbol == nullptr) {
      missing.append(" ").append(name);
    }
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  NvrtcFunctions& f = loaded.functions;
  get(f.nvrtcVersion, "nvrtcVersion");
  get(f.nvrtcGetErrorString, "nvrtcGetErrorString");
  get(f.nvrtcGetNumSupportedArchs, "nvrtcGetNumSupportedArchs");
  get(f.nvrtcGetSupportedArchs, "nvrtcGetSupportedArchs");
  get(f.nvrtcCreateProgram, "nvrtcCreateProgram");
  get(f.nvrtcDestroyProgram, "nvrtcDestroyProgram");
  get(f.nvrtcCompileProgram, "nvrtcCompileProgram");
  get(f.nvrtcGetCUBINSize, "nvrtcGetCUBINSize");
  get(f.nvrtcGetCUBIN, "nvrtcGetCUBIN");
  get(f.nvrtcGetPTXSize, "nvrtcGetPTXSize");
  get(f.nvrtcGetPTX, "nvrtcGetPTX");
  get(f.nvrtcGetProgramLogSize, "nvrtcGetProgramLogSize");
  get(f.nvrtcGetProgramLog, "nvrtcGetProgramLog");
  if (!missing.empty()) {
    loaded.error = "NVRTC is too old, it lacks:" + missing;
    return loaded;
  }
  int major = 0;
  int minor = 0;
  f.nvrtcVersion(&major, &minor);
  loaded.version = 1000 * major + minor;
  int count = 0;
  if (f.nvrtcGetNumSupportedArchs(&count) == 0 && count > 0) {
    loaded.archs.resize(size_t(count));
    f.nvrtcGetSupportedArchs(loaded.archs.data());
  }
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(f.nvrtcVersion), &info) != 0 && info.dli_fname != nullptr) {
    std::error_code error;
    const fs::path path = fs::canonical(info.dli_fname, error);
    loaded.path = error ? std::string(info.dli_fname) : path.string();
    // However it was found, its builtins lie beside it.
    openWithBuiltins(fs::path(loaded.path).parent_path().string());
  }
  return loaded;
}

const LoadedNvrtc& loadedNvrtc() {
  static const auto* loaded = new LoadedNvrtc(loadNvrtc());
  return *loaded;
}

const LoadedNvrtc& requireNvrtc() {
  const LoadedNvrtc& loaded = loadedNvrtc();
  NVF_CHECK(loaded.error.empty(), "Kernels for CUDA cannot be compiled: ", loaded.error);
  return loaded;
}

void checkNvrtc(int result, const char* what) {
  NVF_CHECK(result == 0, "NVRTC: ", what,
            " failed: ", loadedNvrtc().functions.nvrtcGetErrorString(result));
}

class ProgramHolder {
 public:
  ProgramHolder(const NvrtcFunctions& functions, const std::string& text, const std::string& name)
      : functions_(functions) {
    checkNvrtc(
        functions_.nvrtcCreateProgram(&program_, text.c_str(), name.c_str(), 0, nullptr, nullptr),
        "creating a program");
  }
  ~ProgramHolder() {
    functions_.nvrtcDestroyProgram(&program_);
  }
  ProgramHolder(const ProgramHolder&) = delete;
  ProgramHolder& operator=(const ProgramHolder&) = delete;
  Program get() const {
    return program_;
  }

 private:
  const NvrtcFunctions& functions_;
  Program program_ = nullptr;
};

std::string trimmedLog(const NvrtcFunctions& f, Program program) {
  size_t size = 0;
  if (f.nvrtcGetProgramLogSize(program, &size) != 0 || size <= 1) {
    return {};
  }
  std::string log(size, '\0');
  f.nvrtcGetProgramLog(program, log.data());
  log.resize(size - 1); // the terminating zero
  return std::string(trim(log));
}

int numberAfter(std::string_view text, std::string_view before, std::string_view after) {
  const size_t end = text.find(after);
  if (end == std::string_view::npos) {
    return 0;
  }
  size_t begin = end;
  while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') {
    --begin;
  }
  if (!before.empty() &&
      (begin < before.size() || text.substr(begin - before.size(), before.size()) != before)) {
    return 0;
  }
  int value = 0;
  std::from_chars(text.data() + begin, text.data() + end, value);
  return value;
}

} // namespace

void setNvrtcPath(const std::string& directory) {
  const std::lock_guard lock(path_mutex);
  configured_path = directory;
}

bool nvrtcAvailable() {
  return loadedNvrtc().error.empty();
}

std::string nvrtcError() {
  return loadedNvrtc().error;
}

int nvrtcVersion() {
  return requireNvrtc().version;
}

std::string nvrtcLocation() {
  return requireNvrtc().path;
}

std::string nvrtcIdentity() {
  std::string directory;
  {
    const std::lock_guard lock(path_mutex);
    directory = configured_path;
  }
  if (directory.empty()) {
    directory = environmentString("NVFUSER_NVRTC_DIR");
  }
  std::string identity = directory;
  for (const char* soname : kSonames) {
    struct stat status = {};
    if (!directory.empty() && stat((fs::path(directory) / soname).c_str(), &status) == 0) {
      identity += ":" + std::to_string(status.st_size) + "." + std::to_string(status.st_mtime);
    }
  }
  return identity;
}

std::string archName(int arch) {
  return "sm_" + std::to_string(arch) + (arch >= 90 ? "a" : "");
}

bool nvrtcSupportsArch(int arch) {
  const std::vector<int>& archs = requireNvrtc().archs;
  return std::find(archs.begin(), archs.end(), arch) != archs.end();
}

std::vector<std::string> nvrtcFlags(int arch, const CompileParams& params) {
  std::vector<std::string> flags;
  const LoadedNvrtc& nvrtc = requireNvrtc();
  if (!nvrtcSupportsArch(arch)) {
    const int newest =
        nvrtc.archs.empty() ? 0 : *std::max_element(nvrtc.archs.begin(), nvrtc.archs.end());
    NVF_CHECK(newest > 0 && newest < arch, "NVRTC ", nvrtc.version / 1000, ".",
              nvrtc.version % 1000, " cannot compile for sm_", arch);
    // A device that came after this NVRTC: the driver finishes the job.
    flags.push_back("--gpu-architecture=compute_" + std::to_string(newest));
  } else if (isOptionDisabled(DisableOption::CompileToSass)) {
    flags.push_back("--gpu-architecture=compute_" + archName(arch).substr(3));
  } else {
    flags.push_back("--gpu-architecture=" + archName(arch));
  }
  flags.emplace_back("--std=c++20");
  flags.emplace_back("--minimal");
  if (nvrtc.version >= 13000) {
    flags.emplace_back("--no-cache");
  }
  flags.emplace_back(isOptionDisabled(DisableOption::Fma) ? "--fmad=false" : "--fmad=true");
  if (isOptionEnabled(EnableOption::FastMath)) {
    flags.emplace_back("--use_fast_math");
  }
  if (isOptionEnabled(EnableOption::KernelDebug)) {
    flags.emplace_back("--device-debug");
  }
  if (isOptionEnabled(EnableOption::KernelLineInfo)) {
    flags.emplace_back("--generate-line-info");
  }
  const int64_t registers = environmentInt("NVFUSER_MAX_REG_COUNT", params.maxrregcount);
  NVF_CHECK(registers > 0, "The largest number of registers of a thread must be positive, got ",
            registers);
  if (registers < 255) {
    flags.push_back("-DNVF_MOST_REGISTERS=" + std::to_string(registers)); // see NVF_KERNEL
  }
  const int64_t level = environmentInt("NVFUSER_JIT_OPT_LEVEL", -1);
  if (level >= 0) {
    NVF_CHECK(level <= 4, "NVFUSER_JIT_OPT_LEVEL must be between 0 and 4, got ", level);
    flags.push_back("--ptxas-options=-O" + std::to_string(level));
  }
  // Costs nothing, and the log is kept with the cubin: registers and spills are read off it.
  if (flags.front().find("=sm_") != std::string::npos) {
    flags.emplace_back("--ptxas-options=--verbose");
  }
  for (const std::string& path : params.include_paths) {
    flags.push_back("--include-path=" + path);
  }
  return flags;
}

namespace {

// Of a thread: what is spilled and loaded again stays in L1. 16 cost nothing, 120 a quarter of the
// time (docs/measurements/spellings.md).
constexpr int kFewSpilledBytes = 16;

// nvrtcResult: NVRTC_ERROR_INVALID_OPTION, NVRTC_ERROR_BUILTIN_OPERATION_FAILURE.
constexpr int kInvalidOption = 5;
constexpr int kBuiltinsFailed = 7;

// With the first flag naming a real architecture a cubin, else PTX.
CompiledBinary compileWith(const std::vector<std::string>& flags, const std::string& text,
                           const std::string& symbol) {
  const LoadedNvrtc& nvrtc = requireNvrtc();
  const NvrtcFunctions& f = nvrtc.functions;
  std::vector<const char*> options;
  options.reserve(flags.size());
  for (const std::string& flag : flags) {
    options.push_back(flag.c_str());
  }
  const ProgramHolder program(f, text, symbol + ".cu");
  const int result =
      f.nvrtcCompileProgram(program.get(), static_cast<int>(options.size()), options.data());
  CompiledBinary binary;
  binary.log = trimmedLog(f, program.get());
  // Not what the text is to blame for: no other kernel would fare better.
  NVF_CHECK(result != kInvalidOption && result != kBuiltinsFailed, "NVRTC cannot compile for ",
            flags.front(), ": ", f.nvrtcGetErrorString(result), " (options: ", join(flags, " "),
            ")\n", binary.log);
  if (result != 0) {
    throw InternalError(detail::streamToString("NVRTC did not accept kernel ", symbol, " (",
                                               f.nvrtcGetErrorString(result),
                                               ", options: ", join(flags, " "), ")\n", binary.log,
                                               "\n", numberedExcerpt(text, binary.log, 60)));
  }
  const bool is_cubin = flags.front().find("=sm_") != std::string::npos;
  size_t size = 0;
  checkNvrtc(is_cubin ? f.nvrtcGetCUBINSize(program.get(), &size)
                      : f.nvrtcGetPTXSize(program.get(), &size),
             "getting the result");
  binary.bytes.resize(size);
  checkNvrtc(is_cubin ? f.nvrtcGetCUBIN(program.get(), binary.bytes.data())
                      : f.nvrtcGetPTX(program.get(), binary.bytes.data()),
             "getting the result");
  return binary;
}

// One way to compile a kernel.
struct Attempt {
  CompiledBinary binary;
  int64_t registers = 0;
  int64_t spilled = 0; // bytes
  int64_t blocks = 0;  // that an SM has registers for

  bool isBetterThan(const Attempt& other) const {
    const bool spills = spilled > kFewSpilledBytes;
    return blocks != other.blocks ? !spills && blocks > other.blocks
                                  : !spills && other.spilled > kFewSpilledBytes;
  }
};

// Compiles a kernel in several ways.
class Attempts {
 public:
  Attempts(const std::string& text, const std::string& symbol, int arch,
           const CompileParams& params)
      : text_(text), symbol_(symbol), arch_(arch), params_(params) {
    const std::string begin = "NVF_KERNEL(" + symbol + ", ";
    kernel_ = std::min(text.find(begin), text.size());
    if (kernel_ < text.size()) {
      threads_ = std::strtoll(text.c_str() + kernel_ + begin.size(), nullptr, 10);
    }
  }

  // Elements that were converted before the last reduction stay in registers, or are converted
  // again if that leaves room for more blocks, where they leave room for too few.
  CompiledBinary best() const {
    Attempt out = withFewRegisters(/*keeps_converted=*/true);
    if (hasFewThreads(out) && text_.find("nvf::renewWords(", kernel_) != std::string::npos) {
      Attempt again = withFewRegisters(/*keeps_converted=*/false);
      if (again.isBetterThan(out)) {
        out = std::move(again);
      }
    }
    return std::move(out.binary);
  }

 private:
  // With too many registers also with as few as are wanted, or with half of those too many, in the
  // units that threads get; and with those that one more block leaves.
  Attempt withFewRegisters(bool keeps_converted) const {
    Attempt out = attempt(keeps_converted);
    const int64_t wanted = params_.wanted_registers;
    if (wanted == 0) {
      return out;
    }
    if (out.registers > wanted) {
      out = withoutTooMany(std::move(out), keeps_converted);
    }
    return hasFewThreads(out) ? withOneMoreBlock(std::move(out), keeps_converted) : out;
  }

  // Of a block, those that only fill its last warp included.
  int64_t threadsOfWarps() const {
    return roundUp(std::max<int64_t>(threads_, 1), kWarp);
  }

  bool hasFewThreads(const Attempt& made) const {
    return made.blocks * threads_ < MachineModel().busyThreads();
  }

  Attempt withoutTooMany(Attempt out, bool keeps_converted) const {
    const int64_t wanted = params_.wanted_registers;
    const int64_t between = roundUp((wanted + out.registers) / 2, MachineModel().register_unit);
    for (const int64_t limit : {wanted, between}) {
      if (limit >= out.registers) {
        continue;
      }
      Attempt smaller = attempt(keeps_converted, limit);
      if (smaller.registers <= limit && smaller.isBetterThan(out)) {
        return smaller;
      }
    }
    return out;
  }

  // If that takes few registers from a thread, and nothing is spilled.
  Attempt withOneMoreBlock(Attempt out, bool keeps_converted) const {
    constexpr int64_t kFewUnits = 2; // further away one in twenty is possible [compiled]
    const MachineModel machine;
    const int64_t unit = machine.register_unit;
    const int64_t limit =
        machine.registers_per_sm / ((out.blocks + 1) * threadsOfWarps()) / unit * unit;
    if (limit <= 0 || roundUp(out.registers, unit) - limit > kFewUnits * unit) {
      return out;
    }
    Attempt smaller = attempt(keeps_converted, limit);
    return smaller.registers <= limit && smaller.spilled == 0 ? smaller : out;
  }

  // With at most so many registers, and no more than the parameters say.
  Attempt attempt(bool keeps_converted,
                  int64_t most_registers = std::numeric_limits<int64_t>::max()) const {
    CompileParams limited = params_;
    limited.maxrregcount = std::min(params_.maxrregcount, most_registers);
    std::vector<std::string> flags = nvrtcFlags(arch_, limited);
    if (keeps_converted) {
      flags.emplace_back("-DNVF_KEEPS_CONVERTED"); // see nvf::renewWords
    }
    Attempt out;
    out.binary = compileWith(flags, text_, symbol_);
    const KernelResources resources = parsePtxasLog(out.binary.log, symbol_);
    out.registers = resources.registers;
    out.spilled = resources.spill_store_bytes + resources.spill_load_bytes;
    const MachineModel machine;
    const int64_t of_block =
        roundUp(std::max<int64_t>(out.registers, 1), machine.register_unit) * threadsOfWarps();
    out.blocks = machine.registers_per_sm / of_block;
    return out;
  }

  const std::string& text_;
  const std::string& symbol_;
  int arch_;
  const CompileParams& params_;
  size_t kernel_ = 0;   // where it begins
  int64_t threads_ = 1; // of a block, at most
};

} // namespace

CompiledBinary compileToCubin(const std::string& text, const std::string& symbol, int arch,
                              const CompileParams& params) {
  return Attempts(text, symbol, arch, params).best();
}

std::string compileToPtx(const std::string& text, const std::string& symbol, int arch,
                         const CompileParams& params) {
  std::vector<std::string> flags = nvrtcFlags(arch, params);
  flags.front() = replaceAll(flags.front(), "=sm_", "=compute_");
  std::erase_if(flags, [](const std::string& flag) { return flag.find("--ptxas-options") == 0; });
  std::string ptx = compileWith(flags, text, symbol).bytes;
  ptx.resize(std::strlen(ptx.c_str())); // it ends with a zero
  return ptx;
}

std::string disassemble(const std::string& cubin) {
  std::vector<std::string> folders;
  if (nvrtcAvailable()) {
    folders.push_back(nvrtcLocation().substr(0, nvrtcLocation().rfind('/')) + "/../bin/");
  }
  folders.push_back(environmentString("CUDA_HOME", "/usr/local/cuda") + "/bin/");
  folders.emplace_back("/usr/local/cuda/bin/");
  const TemporaryDirectory directory;
  writeFile(directory.file("kernel.cubin"), cubin);
  for (const char* name : {"cuobjdump", "nvdisasm"}) {
    std::string path = findInPath(name);
    for (const std::string& folder : folders) {
      path = path.empty() ? findInPath(folder + name) : path;
    }
    std::vector<std::string> command{path, directory.file("kernel.cubin")};
    if (std::string(name) == "cuobjdump") {
      command.insert(command.begin() + 1, "--dump-sass");
    }
    if (!path.empty() && runProgram(command, directory.file("text")) == 0) {
      return readFile(directory.file("text"));
    }
  }
  return "neither cuobjdump nor nvdisasm was found: install the CUDA toolkit or "
         "nvidia-cuda-cuobjdump\n";
}

KernelResources parsePtxasLog(const std::string& log, const std::string& symbol) {
  KernelResources resources;
  // "Compiling entry function 'name' for ...", then the figures of this function.
  const size_t start = log.find("entry function '" + symbol + "'");
  if (start == std::string::npos) {
    return resources;
  }
  const size_t end = log.find("entry function '", start + 1);
  for (std::string_view line : split(std::string_view(log).substr(start, end - start), '\n')) {
    if (line.find("bytes spill stores") != std::string_view::npos) {
      resources.stack_bytes = numberAfter(line, "", " bytes stack frame");
      resources.spill_store_bytes = numberAfter(line, "", " bytes spill stores");
      resources.spill_load_bytes = numberAfter(line, "", " bytes spill loads");
    } else if (line.find("Used ") != std::string_view::npos) {
      resources.registers = numberAfter(line, "Used ", " registers");
      resources.static_shared_bytes = numberAfter(line, "", " bytes smem");
    }
  }
  return resources;
}

} // namespace nvfuser
