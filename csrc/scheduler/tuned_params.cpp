// SPDX-License-Identifier: BSD-3-Clause
// Files of tuned parameters.
#include <scheduler/tuned_params.h>

#include <base/hash.h>
#include <base/options.h>
#include <runtime/devices.h>
#include <scheduler/params_text.h>
#include <target/disk_cache.h>

#include <unistd.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace nvfuser {
namespace {

namespace fs = std::filesystem;

// Changes when old entries can no longer be trusted.
constexpr const char* kFormat = "tuned parameters 3";

} // namespace

TunedParams::TunedParams(std::string directory) : directory_(std::move(directory)) {
  std::error_code error;
  any_ = !directory_.empty() && fs::is_directory(directory_, error) &&
         !fs::is_empty(directory_, error);
}

TunedParams& TunedParams::instance() {
  static TunedParams store([] {
    const std::string& cache = KernelDiskCache::instance().directory();
    return cache.empty() ? std::string() : (fs::path(cache) / "tuned").string();
  }());
  return store;
}

std::string TunedParams::nameOf(const Fusion& segment) {
  return std::to_string(segment.definitionHash());
}

std::string TunedParams::key(const std::string& segment, const HeuristicParams& chosen,
                             int size_class, Device device) {
  const DeviceInfo& info = deviceInfo(device);
  Sha256 hash;
  hash.updateField(kFormat).updateField(segment).updateField(paramsToText(chosen));
  hash.updateField(std::to_string(size_class));
  hash.updateField(info.name).updateField(std::to_string(info.arch));
  return hash.hex();
}

int TunedParams::sizeClass(int64_t bytes) {
  return std::bit_width(static_cast<uint64_t>(bytes));
}

bool TunedParams::any() const {
  if (isOptionDisabled(DisableOption::TunedParams)) {
    return false;
  }
  std::lock_guard lock(mutex_);
  return any_;
}

std::string TunedParams::pathOf(const std::string& key) const {
  return (fs::path(directory_) / (key + ".txt")).string();
}

std::unique_ptr<HeuristicParams> TunedParams::find(const std::string& key,
                                                   const HeuristicParams& chosen) {
  std::lock_guard lock(mutex_);
  auto [it, inserted] = known_.try_emplace(key);
  if (inserted && !directory_.empty()) {
    std::ifstream file(pathOf(key));
    if (file) {
      std::ostringstream text;
      text << file.rdbuf();
      it->second = text.str();
    }
  }
  return it->second.has_value() ? paramsFromText(*it->second, chosen) : nullptr;
}

void TunedParams::store(const std::string& key, const HeuristicParams& params) {
  std::lock_guard lock(mutex_);
  const std::string text = paramsToText(params);
  known_[key] = text;
  any_ = true;
  if (directory_.empty()) {
    return;
  }
  std::error_code error;
  fs::create_directories(directory_, error);
  const std::string temporary = pathOf(key) + "." + std::to_string(::getpid());
  if (std::ofstream file(temporary); file << text) {
    file.close();
    fs::rename(temporary, pathOf(key), error);
  }
  fs::remove(temporary, error);
}

void TunedParams::erase(const std::string& key) {
  std::lock_guard lock(mutex_);
  known_[key].reset();
  std::error_code error;
  if (!directory_.empty()) {
    fs::remove(pathOf(key), error);
  }
}

} // namespace nvfuser
