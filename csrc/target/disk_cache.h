// SPDX-License-Identifier: BSD-3-Clause
// Compiled kernels on disk, shared by processes.
//
// An entry is one file named by its key (a strong hash of everything the result depends on): the
// binary as the compiler wrote it, the compiler's log, and a footer with checksums. Entries are
// written to a temporary file and renamed, verified whenever they are read, and dropped when they
// do not verify. When the folder outgrows its limit the entries used longest ago go. No failure
// here is an error: without a usable folder everything is compiled every time.
//
// NVFUSER_CACHE_DIR names the folder (default: $XDG_CACHE_HOME/nvfuser, ~/.cache/nvfuser),
// NVFUSER_CACHE_MAX_MB its limit (default 4096), NVFUSER_DISABLE=nvrtc_caching turns the cache off.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

namespace nvfuser {

struct CompiledBinary {
  std::string bytes; // a cubin, PTX text, or a shared object
  std::string log;   // what the compiler said
  std::string path;  // of a file that starts with these bytes; empty if there is none
};

class KernelDiskCache {
 public:
  // An empty directory: a cache that keeps nothing.
  KernelDiskCache(std::string directory, uint64_t max_bytes);

  // As the environment says, at first use.
  static KernelDiskCache& instance();

  // The key is a file name; equal keys mean equal contents.
  std::optional<CompiledBinary> load(const std::string& key);
  // Sets binary.path if the entry could be written.
  void store(const std::string& key, CompiledBinary& binary);
  // Removes the oldest entries until nine tenths of the limit are left, and what crashed writers
  // left.
  void prune();

  const std::string& directory() const {
    return directory_;
  }
  std::string entryPath(const std::string& key) const;

 private:
  std::string directory_;
  uint64_t max_bytes_;
  std::mutex prune_mutex_;
};

} // namespace nvfuser
