// SPDX-License-Identifier: BSD-3-Clause
// See compiled_module.h.
#include <target/compiled_module.h>

#include <target/disk_cache.h>

#include <atomic>
#include <mutex>
#include <unordered_set>
#include <utility>

namespace nvfuser {

namespace {

std::atomic<size_t> loaded_count = 0;
std::atomic<size_t> loaded_bytes = 0;

} // namespace

CompiledModule::CompiledModule() {
  ++loaded_count;
}

CompiledModule::~CompiledModule() {
  --loaded_count;
  loaded_bytes -= binary_bytes_;
}

LoadedModules loadedModules() {
  return {loaded_count, loaded_bytes};
}

void keepLoaded(std::shared_ptr<const CompiledModule> module) {
  static std::mutex mutex;
  static auto* kept = new std::unordered_set<std::shared_ptr<const CompiledModule>>();
  const std::lock_guard lock(mutex);
  kept->insert(std::move(module));
}

void CompiledModule::setOrigin(const std::string& key, const CompiledBinary& binary,
                               bool from_cache, double compile_ms) {
  key_ = key;
  log_ = binary.log;
  from_cache_ = from_cache;
  compile_ms_ = compile_ms;
  binary_bytes_ = binary.bytes.size();
  loaded_bytes += binary_bytes_;
}

} // namespace nvfuser
