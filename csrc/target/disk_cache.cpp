// SPDX-License-Identifier: BSD-3-Clause
// The disk cache: file format, atomic writes, verification, pruning.
#include <target/disk_cache.h>

#include <base/hash.h>
#include <base/options.h>
#include <target/programs.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

namespace nvfuser {

namespace {

namespace fs = std::filesystem;

// Increase with every change of the layout.
constexpr uint32_t kFormatVersion = 1;
constexpr std::array<char, 8> kMagic = {'n', 'v', 'f', 'k', 'c', 'a', 'c', 'h'};
constexpr size_t kKeySize = 64;
constexpr const char* kTemporaryPrefix = ".tmp-";

// At the end of the file, so that a shared object can be opened where it lies: loaders ignore what
// follows.
struct Footer {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t reserved;
  uint64_t binary_size;
  uint64_t log_size;
  uint64_t checksum; // of binary, log and key
  std::array<char, kKeySize> key;
};
static_assert(sizeof(Footer) == 104);

uint64_t checksumOf(std::string_view binary, std::string_view log, std::string_view key) {
  return hashString(key, hashString(log, hashString(binary, kFormatVersion)));
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const {
    return fd_;
  }

 private:
  int fd_;
};

bool readAll(int fd, std::string& contents) {
  struct stat status = {};
  if (fstat(fd, &status) != 0) {
    return false;
  }
  contents.resize(static_cast<size_t>(status.st_size));
  size_t done = 0;
  while (done < contents.size()) {
    const ssize_t count = read(fd, contents.data() + done, contents.size() - done);
    if (count <= 0) {
      return false;
    }
    done += static_cast<size_t>(count);
  }
  return true;
}

bool writeAll(int fd, std::string_view contents) {
  while (!contents.empty()) {
    const ssize_t count = write(fd, contents.data(), contents.size());
    if (count <= 0) {
      return false;
    }
    contents.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// Takes a file's contents apart; empty unless everything about it is right.
std::optional<CompiledBinary> parseEntry(const std::string& contents, const std::string& key) {
  if (contents.size() < sizeof(Footer) || key.size() != kKeySize) {
    return std::nullopt;
  }
  Footer footer;
  const size_t payload = contents.size() - sizeof(Footer);
  std::memcpy(&footer, contents.data() + payload, sizeof(Footer));
  if (footer.magic != kMagic || footer.version != kFormatVersion || footer.binary_size > payload ||
      footer.log_size != payload - footer.binary_size ||
      std::memcmp(footer.key.data(), key.data(), kKeySize) != 0) {
    return std::nullopt;
  }
  const std::string_view all(contents);
  const std::string_view binary = all.substr(0, footer.binary_size);
  const std::string_view log = all.substr(footer.binary_size, footer.log_size);
  if (checksumOf(binary, log, key) != footer.checksum) {
    return std::nullopt;
  }
  return CompiledBinary{std::string(binary), std::string(log), {}};
}

std::string defaultDirectory() {
  std::string chosen = environmentString("NVFUSER_CACHE_DIR");
  if (!chosen.empty()) {
    return chosen;
  }
  const std::string xdg = environmentString("XDG_CACHE_HOME");
  if (!xdg.empty()) {
    return xdg + "/nvfuser";
  }
  const std::string home = environmentString("HOME");
  return home.empty() ? std::string() : home + "/.cache/nvfuser";
}

struct EntryFile {
  fs::path path;
  fs::file_time_type time;
  uint64_t size;
};

} // namespace

KernelDiskCache::KernelDiskCache(std::string directory, uint64_t max_bytes)
    : directory_(std::move(directory)), max_bytes_(max_bytes) {
  if (!directory_.empty()) {
    // The process may change its working directory.
    directory_ = fs::absolute(directory_).string();
  }
}

KernelDiskCache& KernelDiskCache::instance() {
  static auto* cache = [] {
    removeFoldersOfKilledProcesses();
    const int64_t megabytes = std::max<int64_t>(environmentInt("NVFUSER_CACHE_MAX_MB", 4096), 0);
    return new KernelDiskCache(defaultDirectory(), static_cast<uint64_t>(megabytes) << 20);
  }();
  return *cache;
}

std::string KernelDiskCache::entryPath(const std::string& key) const {
  return directory_ + "/" + key.substr(0, 2) + "/" + key;
}

std::optional<CompiledBinary> KernelDiskCache::load(const std::string& key) {
  if (directory_.empty() || isOptionDisabled(DisableOption::NvrtcCaching)) {
    return std::nullopt;
  }
  const std::string path = entryPath(key);
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    return std::nullopt;
  }
  std::string contents;
  if (!readAll(file.get(), contents)) {
    return std::nullopt;
  }
  std::optional<CompiledBinary> binary = parseEntry(contents, key);
  if (!binary) {
    unlink(path.c_str());
    return std::nullopt;
  }
  // The modification time says when the entry was last used. Best effort: the folder may be
  // read-only.
  futimens(file.get(), nullptr);
  binary->path = path;
  return binary;
}

void KernelDiskCache::store(const std::string& key, CompiledBinary& binary) {
  if (directory_.empty() || key.size() != kKeySize ||
      isOptionDisabled(DisableOption::NvrtcCaching)) {
    return;
  }
  const std::string path = entryPath(key);
  const std::string folder = path.substr(0, path.rfind('/'));
  std::error_code error;
  if (!fs::exists(directory_, error)) {
    // What is opened from here runs in this process: nobody else may put anything in.
    fs::create_directories(directory_, error);
    fs::permissions(directory_, fs::perms::owner_all, error);
  }
  if (fs::create_directories(folder, error); error) {
    return;
  }
  static std::atomic<uint64_t> counter = 0;
  const std::string temporary = folder + "/" + kTemporaryPrefix + std::to_string(getpid()) + "-" +
                                std::to_string(counter.fetch_add(1));
  Footer footer = {};
  footer.magic = kMagic;
  footer.version = kFormatVersion;
  footer.binary_size = binary.bytes.size();
  footer.log_size = binary.log.size();
  footer.checksum = checksumOf(binary.bytes, binary.log, key);
  std::memcpy(footer.key.data(), key.data(), kKeySize);
  bool written = false;
  {
    // 0700: a shared object has to be executable on some systems to be opened.
    const FileDescriptor file(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700));
    written = file.get() >= 0 && writeAll(file.get(), binary.bytes) &&
              writeAll(file.get(), binary.log) &&
              writeAll(file.get(), {reinterpret_cast<const char*>(&footer), sizeof(footer)});
  }
  if (!written || rename(temporary.c_str(), path.c_str()) != 0) {
    unlink(temporary.c_str());
    return;
  }
  binary.path = path;
  // Looking through the folder takes a while when it is large: one store in 256 does, picked by its
  // key so that many short processes do their share too.
  if (key.compare(kKeySize - 2, 2, "00") == 0) {
    prune();
  }
}

void KernelDiskCache::prune() {
  const std::unique_lock lock(prune_mutex_, std::try_to_lock);
  if (!lock.owns_lock() || directory_.empty()) {
    return;
  }
  std::vector<EntryFile> files;
  uint64_t total = 0;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  // Other processes add and remove files meanwhile: every step may fail and is then left out.
  for (fs::recursive_directory_iterator it(directory_, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (!it->is_regular_file(ignored)) {
      continue;
    }
    const EntryFile file = {it->path(), it->last_write_time(ignored), it->file_size(ignored)};
    if (ignored) {
      continue;
    }
    const std::string name = file.path.filename().string();
    if (name.rfind(kTemporaryPrefix, 0) == 0) {
      if (now - file.time > std::chrono::hours(1)) {
        fs::remove(file.path, ignored);
      }
      continue;
    }
    // Only files of ours, wherever the user points the cache.
    if (name.size() == kKeySize) {
      files.push_back(file);
      total += file.size;
    }
  }
  if (total > max_bytes_) {
    std::sort(files.begin(), files.end(),
              [](const EntryFile& a, const EntryFile& b) { return a.time < b.time; });
    const uint64_t target = max_bytes_ - max_bytes_ / 10;
    for (const EntryFile& file : files) {
      if (total <= target) {
        break;
      }
      std::error_code ignored;
      fs::remove(file.path, ignored);
      total -= file.size;
    }
  }
}

} // namespace nvfuser
