// SPDX-License-Identifier: BSD-3-Clause
// Finding and running the host's C++ compiler, and opening what it makes.
#include <host/compiler.h>

#include <base/error.h>
#include <base/hash.h>
#include <base/options.h>
#include <base/string_utils.h>
#include <target/compiler_messages.h>
#include <target/programs.h>

#include <dlfcn.h>
#include <sys/stat.h>

#include <fstream>

namespace nvfuser {

namespace {

struct HostCompiler {
  std::vector<std::string> command; // with leading arguments, as in CXX="ccache g++"
  std::string path;                 // of the first word
  std::string id;
  std::string missing; // what NVFUSER_HOST_CXX names, if it is not there
  bool is_clang = false;
};

HostCompiler findHostCompiler() {
  HostCompiler compiler;
  const std::string chosen = environmentString("NVFUSER_HOST_CXX");
  if (chosen == "none") {
    return compiler;
  }
  for (const std::string& candidate : {chosen, environmentString("CXX"), std::string("g++"),
                                       std::string("clang++"), std::string("c++")}) {
    std::vector<std::string> words;
    for (std::string_view word : split(trim(candidate), ' ')) {
      if (!word.empty()) {
        words.emplace_back(word);
      }
    }
    if (words.empty()) {
      continue;
    }
    const std::string path = findInPath(words.front());
    if (path.empty() && candidate == chosen) {
      compiler.missing = chosen;
      break;
    }
    if (path.empty()) {
      continue;
    }
    words.front() = path;
    compiler.command = words;
    compiler.path = path;
    compiler.is_clang = join(words, " ").find("clang") != std::string::npos;
    // Size and time of the program stand for its version: asking it would cost a process.
    compiler.id = join(words, " ");
    for (const std::string& word : words) {
      struct stat status = {};
      const std::string file = findInPath(word);
      if (!file.empty() && stat(file.c_str(), &status) == 0) {
        compiler.id += ":" + std::to_string(status.st_size) + ":" + std::to_string(status.st_mtime);
      }
    }
    break;
  }
  return compiler;
}

const HostCompiler& hostCompiler() {
  static const auto* compiler = new HostCompiler(findHostCompiler());
  return *compiler;
}

std::string readCpuId() {
  // The first processor's block; only what decides which instructions there are.
  std::ifstream stream("/proc/cpuinfo");
  std::string line;
  std::string id;
  while (std::getline(stream, line) && !line.empty()) {
    for (const char* key :
         {"vendor_id", "cpu family", "model", "stepping", "flags", "CPU ", "Features", "isa"}) {
      if (line.rfind(key, 0) == 0) {
        id += line + "\n";
        break;
      }
    }
  }
  return id;
}

} // namespace

bool hostCompilerAvailable() {
  return !hostCompiler().path.empty();
}

void checkHostCompiler() {
  NVF_CHECK(hostCompiler().missing.empty(), "NVFUSER_HOST_CXX: there is no program ",
            hostCompiler().missing, " (none: kernels for the CPU are evaluated)");
}

const std::string& hostCompilerPath() {
  return hostCompiler().path;
}

const std::string& hostCompilerId() {
  return hostCompiler().id;
}

const std::string& hostCpuId() {
  static const auto* id = new std::string(readCpuId());
  return *id;
}

std::vector<std::string> hostCompilerFlags() {
  std::vector<std::string> flags = {"-std=c++20", "-w", "-fPIC", "-shared", "-pipe"};
  const int64_t level = environmentInt("NVFUSER_HOST_OPT_LEVEL", 2);
  NVF_CHECK(level >= 0 && level <= 3, "NVFUSER_HOST_OPT_LEVEL must be between 0 and 3, got ",
            level);
  flags.push_back("-O" + std::to_string(level));
#if defined(__x86_64__) || defined(__i386__)
  flags.emplace_back("-march=native");
#else
  flags.emplace_back("-mcpu=native");
#endif
  if (!hostCompiler().is_clang) {
    // Loops over elements are what there is; the default model of -O2 vectorizes hardly any of
    // them.
    // Conditions that are the same in all of a loop would keep it from that. Loops of a few vectors
    // are written out, so that what is summed up in them stays in registers. Guards of neighbouring
    // elements that became one by hoisting make GCC 12 load them under wrong masks: of vectors of
    // rows of two floats, T1[2 * i + k] = i >= 1 ? T0[2 * i + k] : 0 with 64-bit indices. Where the
    // machine code's common expressions are shared, it also lost the mask of one gather of several,
    // which then loaded nothing (both in test_found_by_programs.py).
    flags.insert(flags.end(), {"-ftree-vectorize", "-fvect-cost-model=dynamic", "-funswitch-loops",
                               "-fpeel-loops", "-fno-code-hoisting", "-fno-gcse",
                               "-fno-rerun-cse-after-loop", "-fno-gnu-unique"});
  }
  // Values stay as IEEE has them; what goes is errno, traps, and what only a debugger would look
  // at. Buffers are reinterpreted as on the device. Integers wrap, as torch's do, which
  // costs little (index arithmetic may no longer be assumed not to).
  flags.insert(flags.end(), {"-fwrapv", "-fno-math-errno", "-fno-trapping-math",
                             "-fno-strict-aliasing", "-fno-semantic-interposition",
                             "-fno-exceptions", "-fno-rtti", "-fno-stack-protector"});
  flags.emplace_back(isOptionDisabled(DisableOption::Fma) ? "-ffp-contract=off"
                                                          : "-ffp-contract=fast");
  if (isOptionEnabled(EnableOption::FastMath)) {
    flags.emplace_back("-ffast-math");
  }
  const bool debug =
      isOptionEnabled(EnableOption::KernelDebug) || isOptionEnabled(EnableOption::KernelLineInfo);
  const std::string sanitizer = environmentString("NVFUSER_HOST_SANITIZE");
  if (!sanitizer.empty()) {
    flags.insert(flags.end(),
                 {"-fsanitize=" + sanitizer, "-fno-omit-frame-pointer", "-fno-sanitize-recover"});
  } else {
    // No start-up code, and of the libraries only what a kernel can call: the linker has less to
    // read (docs/measurements/cpu.md).
    flags.insert(flags.end(), {"-nostartfiles", "-nodefaultlibs"});
  }
  if (debug || !sanitizer.empty()) {
    flags.emplace_back("-g");
  } else {
    flags.insert(flags.end(), {"-g0", "-fno-asynchronous-unwind-tables"});
  }
  return flags;
}

namespace {

struct CompilerRun {
  int status = 0;
  std::string command;
  std::string log;
};

CompilerRun runCompiler(const TemporaryDirectory& directory, const std::string& text,
                        const std::string& symbol) {
  const std::string source = directory.file(symbol + ".cpp");
  const std::string messages = directory.file("messages");
  writeFile(source, text);
  const std::vector<std::string> flags = hostCompilerFlags();
  std::vector<std::string> arguments = hostCompiler().command;
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.insert(arguments.end(), {source, "-o", directory.file(symbol + ".so")});
  if (environmentString("NVFUSER_HOST_SANITIZE").empty()) {
    arguments.insert(arguments.end(), {"-lm", "-lc", "-lgcc"});
  }
  CompilerRun run;
  run.status = runProgram(arguments, messages, directory.path());
  run.command = join(arguments, " ");
  run.log = std::string(trim(readFile(messages)));
  return run;
}

} // namespace

CompiledBinary compileToSharedObject(const std::string& text, const std::string& symbol) {
  NVF_CHECK(
      hostCompilerAvailable(),
      "Kernels for the CPU need a C++ compiler, and none was found: install g++ or clang++, or set "
      "NVFUSER_HOST_CXX or CXX");
  const TemporaryDirectory directory;
  CompilerRun run = runCompiler(directory, text, symbol);
  NVF_CHECK(run.status >= 0, "The host compiler was killed while it compiled kernel ", symbol,
            " (command: ", run.command, ")");
  if (run.status != 0) {
    // A kernel that is refused can be replaced by simpler ones, unless the compiler refuses
    // everything.
    const CompilerRun trial =
        runCompiler(directory, "extern \"C\" int nvf_trial() { return 0; }\n", "trial");
    NVF_CHECK(trial.status == 0, "The host compiler does not compile an empty function (status ",
              trial.status, ", command: ", trial.command,
              "); NVFUSER_HOST_CXX or CXX can name another one\n", trial.log);
    throw InternalError(detail::streamToString(
        "The host compiler did not accept kernel ", symbol, " (status ", run.status,
        ", command: ", run.command, ")\n", run.log, "\n", numberedExcerpt(text, run.log, 60)));
  }
  CompiledBinary binary;
  binary.log = std::move(run.log);
  binary.bytes = readFile(directory.file(symbol + ".so"));
  return binary;
}

SharedObject::SharedObject(const CompiledBinary& binary) {
  if (!binary.path.empty()) {
    handle_ = dlopen(binary.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (handle_ == nullptr) {
    // A name of its own: the loader takes a name it has seen for the library it has loaded. It can
    // go at once.
    const TemporaryDirectory directory;
    const std::string path = directory.file("kernel.so");
    writeFile(path, binary.bytes);
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (handle_ == nullptr) {
    const char* reason = dlerror();
    NVF_CHECK_FAIL(
        "A compiled kernel cannot be loaded: ", reason != nullptr ? reason : "unknown reason",
        ". If the temporary folder does not permit execution, set TMPDIR or NVFUSER_CACHE_DIR");
  }
}

SharedObject::~SharedObject() {
  if (handle_ != nullptr) {
    dlclose(handle_);
  }
}

void* SharedObject::find(const std::string& symbol) const {
  return dlsym(handle_, symbol.c_str());
}

} // namespace nvfuser
