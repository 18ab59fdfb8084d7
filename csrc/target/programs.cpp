// SPDX-License-Identifier: BSD-3-Clause
// See programs.h.
#include <target/programs.h>

#include <base/error.h>
#include <base/options.h>
#include <base/string_utils.h>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string_view>

namespace nvfuser {

namespace {

namespace fs = std::filesystem;

// Of the folders of this process: nvfuser-NAMESPACE-PID-. A process of a container may have the
// number of one of another that shares the folder.
constexpr std::string_view kFolderPrefix = "nvfuser-";

std::string folderPrefix(const std::string& process) {
  struct stat status = {};
  const bool known = stat("/proc/self/ns/pid", &status) == 0;
  return std::string(kFolderPrefix) + std::to_string(known ? status.st_ino : 0) + "-" + process;
}

std::string parentFolder() {
  return environmentString("TMPDIR", "/tmp");
}

// Whether the process that made the folder is gone: its number is free, or so much time has passed
// since the folder changed last that the number belongs to another one, or the folder came from a
// container that is no more. No compilation takes a day.
bool isLeft(const std::string& path, const std::string& name, const std::string& own_prefix) {
  constexpr time_t kDay = 24 * 60 * 60;
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid()) {
    return false;
  }
  if (time(nullptr) - status.st_mtime > kDay) {
    return true;
  }
  if (name.rfind(own_prefix, 0) != 0) {
    return false;
  }
  const pid_t process = std::atoi(name.c_str() + own_prefix.size());
  return process > 0 && kill(process, 0) != 0 && errno == ESRCH;
}

// "nvfuser-4026531836-1234-XXXXXX".
bool isNameOfOurs(std::string_view name) {
  if (name.substr(0, kFolderPrefix.size()) != kFolderPrefix) {
    return false;
  }
  const std::vector<std::string_view> parts = split(name.substr(kFolderPrefix.size()), '-');
  const auto isNumber = [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return parts.size() == 3 && isNumber(parts[0]) && isNumber(parts[1]);
}

void removeLeftFolders(const fs::path& parent) {
  const std::string own_prefix = folderPrefix("");
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (isNameOfOurs(name) && isLeft(it->path().string(), name, own_prefix)) {
      std::error_code ignored;
      fs::remove_all(it->path(), ignored);
    }
  }
}

} // namespace

void removeFoldersOfKilledProcesses() {
  static std::once_flag once;
  std::call_once(once, [] { removeLeftFolders(parentFolder()); });
}

TemporaryDirectory::TemporaryDirectory() {
  removeFoldersOfKilledProcesses();
  const std::string parent = parentFolder();
  path_ = parent + "/" + folderPrefix(std::to_string(getpid())) + "-XXXXXX";
  NVF_CHECK(mkdtemp(path_.data()) != nullptr, "Cannot make a temporary folder ", path_, ": ",
            std::strerror(errno));
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

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

namespace {

bool isExecutable(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

} // namespace

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

int runProgram(const std::vector<std::string>& arguments, const std::string& output_file,
               const std::string& temporary_folder) {
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
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (temporary_folder.empty() || std::strncmp(*variable, "TMPDIR=", 7) != 0) {
      environment.push_back(*variable);
    }
  }
  std::string temporary = "TMPDIR=" + temporary_folder;
  if (!temporary_folder.empty()) {
    environment.push_back(temporary.data());
  }
  environment.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP); // a group of its own
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  NVF_CHECK(error == 0, "Cannot start ", arguments.front(), ": ", std::strerror(error));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    NVF_CHECK(errno == EINTR, "Lost track of ", arguments.front(), " (", std::strerror(errno),
              "): is SIGCHLD ignored in this process?");
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace nvfuser
