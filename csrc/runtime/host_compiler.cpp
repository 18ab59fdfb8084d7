// Finding and running the host's C++ compiler, and opening what it makes.
#include <runtime/host_compiler.h>

#include <base/error.h>
#include <base/hash.h>
#include <base/options.h>
#include <base/string_utils.h>
#include <runtime/nvrtc.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

extern char** environ;

namespace nvfuser {

namespace {

namespace fs = std::filesystem;

// A folder of our own below $TMPDIR, removed with what is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    path_ = environmentString("TMPDIR", "/tmp") + "/nvfuser-XXXXXX";
    NVF_CHECK(mkdtemp(path_.data()) != nullptr, "Cannot make a temporary folder ", path_, ": ",
              std::strerror(errno));
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  std::string file(const std::string& name) const {
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

std::string readFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream contents;
  contents << stream.rdbuf();
  return std::move(contents).str();
}

void writeFile(const std::string& path, const std::string& contents) {
  std::ofstream stream(path, std::ios::binary);
  stream << contents;
  stream.close();
  NVF_CHECK(!stream.fail(), "Cannot write ", path, ": ", std::strerror(errno));
}

bool isExecutable(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

std::string findInPath(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return isExecutable(name) ? name : std::string();
  }
  const std::string folders = environmentString("PATH");
  for (std::string_view folder : split(folders, ':')) {
    std::string path = std::string(folder) + "/" + name;
    if (!folder.empty() && isExecutable(path)) {
      return path;
    }
  }
  return {};
}

struct HostCompiler {
  std::vector<std::string> command; // with leading arguments, as in CXX="ccache g++"
  std::string path;                 // of the first word
  std::string id;
  bool is_clang = false;
};

HostCompiler findHostCompiler() {
  HostCompiler compiler;
  const std::string chosen = environmentString("NVFUSER_HOST_CXX");
  if (chosen == "none") {
    return compiler;
  }
  for (std::string candidate : {chosen, environmentString("CXX"),
                                std::string("g++"), std::string("clang++"), std::string("c++")}) {
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

// Runs a program to its end with both outputs in a file. Returns its exit status, -1 if it was
// ended by a signal.
int runProgram(const std::vector<std::string>& arguments, const std::string& output_file) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, output_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  NVF_CHECK(error == 0, "Cannot start ", arguments.front(), ": ", std::strerror(error));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    NVF_CHECK(errno == EINTR, "Lost track of ", arguments.front(), " (", std::strerror(errno),
              "): is SIGCHLD ignored in this process?");
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

bool hostCompilerAvailable() {
  return !hostCompiler().path.empty();
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
    flags.insert(flags.end(), {"-ftree-vectorize", "-fvect-cost-model=dynamic", "-fno-gnu-unique"});
  }
  // Values stay as IEEE has them; what goes is errno, traps, and what only a debugger would look
  // at. Buffers are reinterpreted as on the device. No -fwrapv: it costs vectorization (a factor of
  // 4 was seen), because 32-bit indices might wrap then; as on CUDA, integer arithmetic that may
  // overflow has to be written as unsigned.
  flags.insert(flags.end(), {"-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing",
                             "-fno-semantic-interposition", "-fno-exceptions", "-fno-rtti",
                             "-fno-stack-protector"});
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
    // No start-up code, and of the libraries only what a kernel can call: saves a third of the link
    // time.
    flags.insert(flags.end(), {"-nostartfiles", "-nodefaultlibs"});
  }
  if (debug || !sanitizer.empty()) {
    flags.emplace_back("-g");
  } else {
    flags.insert(flags.end(), {"-g0", "-fno-asynchronous-unwind-tables"});
  }
  return flags;
}

CompiledBinary compileToSharedObject(const std::string& text, const std::string& symbol) {
  NVF_CHECK(
      hostCompilerAvailable(),
      "Kernels for the CPU need a C++ compiler, and none was found: install g++ or clang++, or set "
      "NVFUSER_HOST_CXX or CXX");
  const TemporaryDirectory directory;
  const std::string source = directory.file(symbol + ".cpp");
  const std::string object = directory.file(symbol + ".so");
  const std::string messages = directory.file("messages");
  writeFile(source, text);
  const std::vector<std::string> flags = hostCompilerFlags();
  std::vector<std::string> arguments = hostCompiler().command;
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.insert(arguments.end(), {source, "-o", object});
  if (environmentString("NVFUSER_HOST_SANITIZE").empty()) {
    arguments.insert(arguments.end(), {"-lm", "-lc", "-lgcc"});
  }
  const int status = runProgram(arguments, messages);
  CompiledBinary binary;
  binary.log = std::string(trim(readFile(messages)));
  if (status != 0) {
    throw InternalError(detail::streamToString(
        "The host compiler did not accept kernel ", symbol, " (status ", status, ", command: ",
        join(arguments, " "), ")\n", binary.log, "\n", numberedExcerpt(text, binary.log, 60)));
  }
  binary.bytes = readFile(object);
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
